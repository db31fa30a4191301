"""Clocks that jump: by libfaketime for whole commands, in process for a library's caller."""

import glob
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.reliability.history import gaps
from tests.simulated import World
from vyane_cli.api import Vyane
from vyane_cli.history.producer import emit_event, start_turn
from vyane_cli.sessions import registry

DAY_S = 86_400
STEPS_S = (0, -60, 3600, -DAY_S, 1, 30 * DAY_S, -365 * DAY_S, 0)
"""How far the clock is off, from event to event."""


def library() -> str:
    """Where libfaketime is; empty without one."""
    found = glob.glob("/usr/lib*/faketime/libfaketime.so.1")
    found += glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
    return found[0] if found else ""


def shifted(
    environ: Mapping[str, str], offset_s: float, zone: str = "", *, wall_only: bool = False
) -> dict[str, str]:
    """The environment of a command whose clock is off by so much.

    Its boot clock goes wild with it, which no machine's does, unless it is `wall_only`; a command
    that sleeps fails then.
    """
    more = {"LD_PRELOAD": library(), "FAKETIME": f"{offset_s:+.0f}s", "FAKETIME_DONT_RESET": "1"}
    if wall_only:
        more["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
    return {**environ, **more, **({"TZ": zone} if zone else {})}


@contextmanager
def off_by(world: World, seconds: float) -> Iterator[None]:
    """The wall clock of this process, for a while."""
    before = world.wall_ahead_ms
    world.wall_ahead_ms = int(seconds * 1000)
    try:
        yield
    finally:
        world.wall_ahead_ms = before


def read_by_cursor(world: World, session: str, events: int, piece: int = 7) -> list[str]:
    """Events with a jumping clock between them, read in pieces: what was passed over or doubled.

    Half of them are there before the reader begins, half come while it reads.
    """
    vyane = Vyane(world)
    token = start_turn(world, session, pid=1).token
    seqs: list[int] = []
    cursor = ""

    def emit(number: int) -> None:
        with off_by(world, STEPS_S[number % len(STEPS_S)]):
            emit_event(world, token, "ToolObserved", {"tool": f"t{number}"})

    def read() -> None:
        nonlocal cursor
        for taken, event in enumerate(vyane.history(session, after=cursor), 1):
            seqs.append(event["seq"])
            cursor = event["cursor"]
            if taken == piece:
                return

    for number in range(events // 2):
        emit(number)
    for number in range(events // 2, events):
        emit(number)
        if number % 3 == 0:
            read()
    for _ in range(events):
        read()
    (worker,) = [w for w in registry.Registry(world.layout).listing() if w.name == session]
    wanted = [event["seq"] for event in world.events(worker.logical_session_id)]
    found = gaps("the reader", seqs)
    if seqs != wanted:
        found.append(f"read {len(seqs)} of {len(wanted)}")
    return found
