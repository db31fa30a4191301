"""Clocks that are off, that jump between two commands, and that stand still."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.reliability import acts, clocks
from tests.reliability.scale import FULL
from tests.simulated import machine

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
