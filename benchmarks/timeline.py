"""Figures of a long timeline: the first event after a cursor, an append, the memory of a reader.

Events are written directly to the file, exactly as a million appends would have left them.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench import Bench
from benchmarks.report import Goal, Row
from vyane_cli.history.queries import WatchMode, check_watch, watch
from vyane_cli.home import Home, accelerate
from vyane_cli.hosts.port import Trigger
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.ids import render_ulid
from vyane_cli.storage import document, files, processes
from vyane_cli.timeline import events as turns
from vyane_cli.timeline import log, reader
from vyane_cli.timeline import turns as core_turns
from vyane_cli.timeline.cursors import Cursor, render_cursor
from vyane_cli.timeline.events import EventKind
from vyane_cli.timeline.turns import TimelineHead, Transition

SIZES = (1_000, 100_000, 1_000_000)
TOOLS = 8
"""Number of tool events in a turn; with its start, result and end a turn has eleven events."""
ROUNDS = 15
EPOCH = "b" * 32


def build(path: Path, session: str, events: int) -> None:
    """Write a timeline of `events` events in turns of eleven, each line as an append writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    identity = log.Identity(session, "w-000000000000")
    boot = processes.boot_id()[:8]
    state = Transition(TimelineHead(EPOCH))
    number = 0
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        while state.head.seq < events:
            number += 1
            state = Transition(state.head)
            clock = Clock(1_800_000_000_000 + number * 1000, number * 1000)
            fresh = render_ulid(clock.now_ms, number.to_bytes(10, "big"))
            state = core_turns.start(
                state,
                clock,
                turn=fresh,
                token=fresh,
                trigger=Trigger.HUMAN,
                session="7a4c2b0e-0000-4000-8000-000000000000",
                native=f"native-{number:029}",
            )
            for tool in range(TOOLS):
                used = {"tool": "Bash", "tool_use_id": f"toolu_{number}_{tool}", "outcome": "ok"}
                state = core_turns.emit(state, EventKind.TOOL_OBSERVED, used, clock)
            result = {"digest": "d" * 64, "chars": 400, "excerpt": "x" * 280}
            state = core_turns.emit(state, EventKind.RESULT_OBSERVED, result, clock)
            state = core_turns.finish(state, clock, turns.TurnOutcome.SUCCESS)
            left = events - state.events[0].seq + 1
            for event, head in list(zip(state.events, state.heads, strict=True))[:left]:
                file.write(document.encode_line(log.render_event(event, head, identity, boot)))
        file.flush()
        os.fsync(file.fileno())  # else the first measured append would flush the whole file


def follow(bench: Bench) -> Iterator[Row]:
    """Measure the first event after a cursor in the middle, an append, and a reader's memory."""
    accelerate()
    folder = bench.folder / "timelines"
    sizes = SIZES[:2] if bench.quick else SIZES
    try:
        costs = [(events, *_measure(folder / str(events), events)) for events in sizes]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    smallest, _, base, _ = costs[0]
    for events, first_ms, append, memory in costs:
        yield Row(
            f"first event after a cursor amid {events:,}",
            first_ms,
            "ms",
            goal=Goal(50.0, "ms"),
            curve="first event after a cursor, by events",
            x=events,
        )
        yield Row(
            f"append to {events:,} events, CPU",
            append.cpu_ms,
            "ms",
            base=base.cpu_ms,
            base_name=f"to {smallest:,}",
            goal=Goal(1.5) if events != smallest else None,
            curve="append of an event, by events",
            x=events,
        )
        yield Row(f"the same with the disk's flush, {events:,} events", append.wall_ms, "ms")
        grown = f"memory that reading {events:,} events adds"
        yield Row(grown, memory, "MiB", goal=Goal(32.0, "MiB"))


class Append(NamedTuple):
    """The cost of one append, the opening of the file included."""

    wall_ms: float
    cpu_ms: float


def _measure(home: Path, events: int) -> tuple[float, Append, float]:
    """Return the ms to the first event, the cost of an append, the MiB that a full read adds."""
    home = Home(str(home), environ={})
    session = "vs-" + "a" * 12
    path = home.layout.timeline(session)
    build(Path(path), session, events)
    middle = reader.event_at(path, events // 2)
    assert middle is not None
    after = render_cursor(Cursor(session, EPOCH, events // 2, middle.mark))
    firsts = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        stream = watch(home, session, check_watch((WatchMode.HISTORY,), after=after))
        event = next(stream)
        firsts.append((time.perf_counter() - began) * 1000)
        assert event.seq == events // 2 + 1
        stream.close()
    return statistics.median(firsts), _append(home, session), _memory(home, session)


def _append(home: Home, session: str) -> Append:
    """Return the median cost of one append."""
    path, root = home.layout.timeline(session), home.layout.root
    identity = log.Identity(session, "w-000000000000")
    took, spent = [], []
    for _ in range(ROUNDS * 4):
        began, used = time.perf_counter(), time.process_time()
        opened = log.Timeline(path, root, identity, EPOCH)
        clock = home.clock()._replace(now_ms=1_900_000_000_000)
        payload = {"code": "benchmark"}
        opened.commit(
            core_turns.emit(
                Transition(opened.head), EventKind.DIAGNOSTIC, payload, clock, in_turn=False
            )
        )
        opened.close()
        took.append((time.perf_counter() - began) * 1000)
        spent.append((time.process_time() - used) * 1000)
    return Append(statistics.median(took), statistics.median(spent))


def _memory(home: Path, session: str) -> float:
    """Return the MiB by which a process grows when it reads the whole timeline."""
    program = Path(__file__).resolve()
    done = subprocess.run(
        [sys.executable, str(program), str(home), session],
        capture_output=True,
        text=True,
        check=True,
        cwd=program.parents[1],
        env={**os.environ, "PYTHONPATH": str(program.parents[1])},
    )
    return float(done.stdout)


def _read_all(home: str, session: str) -> None:
    accelerate()
    home = Home(home, environ={})
    wanted = check_watch((WatchMode.HISTORY,))
    next(watch(home, session, wanted))
    files.listdir(home)
    before = _peak_kib(anew=True)
    for _ in watch(home, session, wanted):
        pass
    print((_peak_kib() - before) / 1024)


def _peak_kib(*, anew: bool = False) -> int:
    """Return the peak resident memory; on Linux in KiB.

    With `anew` the peak is reset first, where the kernel supports that (clear_refs in proc(5)).
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1])


if __name__ == "__main__":
    _read_all(*sys.argv[1:3])
