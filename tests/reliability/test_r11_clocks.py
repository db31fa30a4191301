"""Clocks that are off, that jump between two commands, and that stand still."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hostlab.waiting import wait_until
from tests.reliability import acts, clocks
from tests.reliability.scale import FULL
from tests.simulated import machine, program
from vyane_cli.history.producer import start_turn
from vyane_cli.sessions import registry
from vyane_cli.storage import locks

HOUR, DAY, YEAR = 3600, 86_400, 365 * 86_400
QUICK = [1, -1, 60, -60, HOUR, -HOUR, DAY, -DAY, 30 * DAY, -30 * DAY, 10 * YEAR, -10 * YEAR]
MORE = [2, -2, 59, -61, 299, 301, -299, 1800, -1800, 2 * HOUR, -2 * HOUR, 12 * HOUR, -12 * HOUR]
MORE += [7 * DAY, -7 * DAY, 90 * DAY, -90 * DAY, YEAR, -YEAR, 5 * YEAR, -5 * YEAR]
OFFSETS = [*QUICK, *MORE] if FULL else QUICK
ZONES = ["America/New_York", "Asia/Kathmandu", "Pacific/Apia", "UTC"]

needs_faketime = pytest.mark.skipif(not clocks.library(), reason="there is no libfaketime")


def test_a_reader_by_cursor_passes_over_nothing_while_the_clock_jumps(count):
    """Position is given by the append: what a jump dates back is still read, once, in order."""
    with machine() as make:
        host = make()
        host.world.register("builder")
        found = clocks.read_by_cursor(host.world, "builder", 1_000)
        count(events=1_000, violations=len(found))

        assert found == []


def test_a_writer_that_is_slow_to_get_the_lock_is_not_passed_over():
    """
    Its event was made first and is appended last; a reader that polls in between and keeps its
    cursor is given it by the next poll.
    """
    with machine() as make:
        world = make().world
        world.register("builder")
        Path(world.layout.config).write_text("[locks]\nwait_s = 600\n")
        token = start_turn(world, "builder", pid=os.getpid()).token
        (builder,) = registry.Registry(world.layout).listing()
        lock = locks.lock_path(
            world.layout.root, locks.LockKind.TIMELINE, builder.logical_session_id
        )

        def emit(tool: str) -> list[str]:
            return ["turn", "emit", token, "ToolObserved", "--payload", json.dumps({"tool": tool})]

        def poll() -> list[str]:
            words = ("--json", "watch", "builder", "--history", "--consumer", "reader")
            lines = program(world.layout.root, *words).out.splitlines()
            events = (json.loads(line) for line in lines)
            return [e["payload"].get("tool", "") for e in events if e["kind"] == "ToolObserved"]

        held = locks.take_now(lock)
        assert held is not None
        slow = subprocess.Popen(
            [sys.executable, "-m", "vyane_cli", *emit("slow")],
            env={"PATH": os.environ["PATH"], "VYANE_HOME": world.layout.root},
            stdout=subprocess.DEVNULL,
        )
        wait_until(lambda: waits_for_a_lock(slow.pid), "the slow writer waits for the lock")
        slow.send_signal(signal.SIGSTOP)
        wait_until(lambda: not waits_for_a_lock(slow.pid), "it is stopped")
        locks.give_back(held)
        assert program(world.layout.root, *emit("quick")).status == 0
        assert poll() == ["quick"]
        slow.send_signal(signal.SIGCONT)
        assert slow.wait(timeout=60) == 0

        assert poll() == ["slow"]
        assert poll() == []


def waits_for_a_lock(pid: int) -> bool:
    """By the kernel's own list, where who waits stands behind an arrow."""
    rows = Path("/proc/locks").read_text().splitlines()
    return any("->" in row and str(pid) in row.split() for row in rows)


def test_messages_keep_their_order_while_the_clock_jumps():
    """Each is given once, in the order in which it was sent, whatever it is dated."""
    with machine() as make:
        host = make()
        host.start()
        host.prompt()
        sent = []
        for number in range(40):
            with clocks.off_by(host.world, clocks.STEPS_S[number % 5]):
                sent.append(host.world.send("project", f"n{number}", ttl_s=30_000_000))
        text = "".join(host.batch().text for _ in range(10))
        places = [text.find(f"id {message}") for message in sent]

        assert -1 not in places
        assert places == sorted(places)
        assert [text.count(f"id {message}") for message in sent] == [1] * len(sent)


def run(lab: acts.Lab, offset: float, *words: str, data: bytes = b"", zone: str = "") -> Any:
    """A command whose clock is off; its document."""
    environ = clocks.shifted(lab.environ(), offset, zone)
    if words[0] == "tick":
        environ = clocks.shifted(lab.one.environ(), offset, zone)
    ran = subprocess.run(
        [sys.executable, "-m", "vyane_cli", *words],
        input=data,
        capture_output=True,
        env=environ,
        cwd=lab.one.cwd,
        check=False,
        start_new_session=True,
    )
    assert ran.returncode == 0, (offset, words, ran.stderr)
    return json.loads(ran.stdout) if ran.stdout.startswith((b"{", b"[")) else ran.stdout


@needs_faketime
@pytest.mark.parametrize("offset", OFFSETS, ids=lambda n: f"{n:+}s")
def test_every_command_works_with_a_clock_that_is_off(offset, count):
    """
    Nobody alive is called dead; a message that is sent is given once; the timeline is sound; and
    with the right clock again all goes on.
    """
    with acts.lab() as lab:
        zone = ZONES[abs(offset) % len(ZONES)]
        workers = run(lab, offset, "--json", "workers", zone=zone)
        alive = {row["name"]: row["liveness"] for row in workers}
        assert alive["project"] == "busy"
        assert alive["other"] == "idle"
        sent = run(lab, offset, "--json", "send", "project", "dated", zone=zone)["id"]
        later = run(lab, 0, "--json", "send", "project", "now")["id"]
        run(lab, offset, "--json", "inbox", "project", zone=zone)
        run(lab, offset, "--json", "topology", zone=zone)
        collected = run(lab, offset, "--json", "gc", zone=zone)
        assert collected["sessions"] == 0
        batch = lab.one.payload("PostToolBatch")
        words = ("tick", "--host", "claude-code", "--event", "PostToolBatch")
        shown = json.dumps(run(lab, offset, *words, data=batch, zone=zone) or {})
        rest = acts.given(lab)
        count(commands=8)
        if abs(offset) < DAY:  # else it may have expired: its time to live is a day
            assert (shown + rest).count(f"id {later}") == 1, shown
            assert (shown + rest).count(f"id {sent}") == 1, shown
        else:
            assert (shown + rest).count(f"id {sent}") <= 1
        assert acts.unsound(lab) == []
        names = {row["name"]: row["liveness"] for row in run(lab, 0, "--json", "workers")}
        assert names["other"] == "idle"


@needs_faketime
def test_a_start_tick_is_compared_and_no_wall_clock(count):
    """Twenty live sessions are alive whatever the clock says."""
    with machine() as make:
        hosts = [make() for _ in range(20)]
        for host in hosts:
            host.start()
        first = hosts[0]
        for offset in (-DAY, -HOUR, HOUR, DAY, 10 * YEAR):
            environ = clocks.shifted({"PATH": "/usr/bin:/bin", "VYANE_HOME": first.home}, offset)
            words = [sys.executable, "-m", "vyane_cli", "--json", "workers"]
            ran = subprocess.run(words, capture_output=True, env=environ, check=True)
            rows = json.loads(ran.stdout)
            count(looks=len(rows))
            assert {row["liveness"] for row in rows} == {"idle"}, offset
            assert len(rows) == 20
        assert Path(first.home).is_dir()


@needs_faketime
def test_a_round_whose_clock_is_wrong_ends_nothing_that_lives(count):
    """
    Nine hours ahead, an hour back, thirty days ahead for one round and right again: who is there
    stays, who is gone is seen to be gone, no mail expires, and each round does its work.
    """
    with machine() as make:
        hosts = []
        for number in range(6):
            folder = Path(make().cwd).parent / f"s{number}"
            folder.mkdir()
            hosts.append(make(cwd=str(folder)))
            hosts[-1].start()
        home, world = hosts[0].home, hosts[0].world
        program(home, "project", "create", "al", "--dir", hosts[0].cwd, "--main", "s0")
        for number in range(1, 6):
            program(home, "project", "join", "al", f"s{number}")
        mail = [world.send(f"s{number}", "hello") for number in range(6)]
        for host in hosts[4:]:
            host.die()
        cells = []
        for offset in (0, 9 * HOUR, 8 * HOUR, 30 * DAY, 0, HOUR // 6):
            environ = clocks.shifted({}, offset, wall_only=True)
            ran = program(home, "--json", "wake", "--project", "al", environ=environ)
            assert ran.status == 0, ran.err
            cells.append(ran.document["cell"])
            rows = program(home, "--json", "workers", "list", "--all", environ=environ).document
            seen = {row["name"]: row["liveness"] for row in rows}
            assert seen == {f"s{n}": "idle" if n < 4 else "exited" for n in range(6)}, offset
            count(rounds=1)
        assert len(set(cells)) == 1, cells
        assert [world.status(one) for one in mail] == ["pending"] * 6
        assert mail[1] in hosts[1].prompt().text
