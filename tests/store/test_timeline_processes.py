"""Several processes on one timeline: writers, followers, one that is stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.store.timelines import SESSION, Desk
from vyane_cli.cli.render.machine import plain
from vyane_cli.history.producer import start_turn
from vyane_cli.history.queries import check_watch, watch
from vyane_cli.home import Home
from vyane_cli.sessions.register import register_worker
from vyane_cli.storage.watch import Changes
from vyane_cli.timeline import log

FULL = bool(os.environ.get("VYANE_TEST_FULL"))
EACH = 10_000 if FULL else 1_000
WRITER = """
import sys
from tests.store.timelines import Desk
from vyane_cli.storage.locks import LockKind
desk = Desk(sys.argv[1])
for _ in range(int(sys.argv[2])):
    with desk.home.held((LockKind.TIMELINE, desk.session)):
        desk.commit(desk.note(sys.argv[3]))
"""
ROOT = Path(__file__).parents[2]


def run(program: str, *words: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", program, *words], cwd=ROOT)


def follower(home: Path, *words: str, who: str = SESSION) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "vyane_cli", "watch", who, "--json", *words]
    environ = {**os.environ, "VYANE_HOME": str(home)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environ)


def test_two_writers_leave_no_gap_and_a_follower_sees_each_event_once(tmp_path) -> None:
    """A-6, A-60: seq 1 … n; a follower from the middle: each once, one caught-up mark."""
    Desk(tmp_path).commit(Desk.note())
    writers = [run(WRITER, str(tmp_path), str(EACH), name) for name in "ab"]
    path = Desk(tmp_path).path
    while (head := log.read_head(path)) is None or head.seq < EACH // 2:
        assert not any(writer.poll() for writer in writers), "a writer has failed"
        time.sleep(0.01)
    follow = follower(tmp_path, "--follow")
    stopped = follower(tmp_path, "--follow")
    stopped.send_signal(signal.SIGSTOP)  # it slows nobody
    assert follow.stdout is not None
    seqs, marks = [], []
    try:
        while len(seqs) < 2 * EACH + 1 or not marks:  # the mark may come after all events
            item = json.loads(follow.stdout.readline())
            if item["kind"] == "caught_up":
                marks.append((item["watermark"], len(seqs)))
            else:
                seqs.append(item["seq"])
        assert [writer.wait() for writer in writers] == [0, 0]
    finally:
        for process in (follow, stopped, *writers):
            process.kill()
            process.wait()
        for process in (follow, stopped):
            process.stdout.close()

    assert seqs == list(range(1, 2 * EACH + 2))
    assert len(marks) == 1
    assert marks[0][0] == marks[0][1] >= EACH // 2
    assert log.check(path, SESSION).events == 2 * EACH + 1


def test_an_idle_follower_costs_nothing(tmp_path) -> None:
    """The kernel says when there is something: no processor time, no wake-up in between."""
    with Changes(Desk(tmp_path).path) as changes:
        if not changes.by_kernel:
            pytest.skip("no file notification here")
    Desk(tmp_path).turn()
    follow = follower(tmp_path, "--follow")
    assert follow.stdout is not None
    try:
        for _ in range(5):
            follow.stdout.readline()

        def cost() -> tuple[int, int]:
            fields = Path(f"/proc/{follow.pid}/stat").read_text().rsplit(")", 1)[1].split()
            status = Path(f"/proc/{follow.pid}/status").read_text()
            switches = status.split("\nvoluntary_ctxt_switches:")[1].split()[0]
            return int(fields[11]) + int(fields[12]), int(switches)

        time.sleep(0.3)
        before = cost()
        time.sleep(1.5)
        after = cost()
        began = time.monotonic()
        Desk(tmp_path).turn()
        assert json.loads(follow.stdout.readline())["seq"] == 5
        assert time.monotonic() - began < 1
    finally:
        follow.kill()
        follow.wait()
        follow.stdout.close()

    assert after[0] - before[0] <= 1
    assert after[1] - before[1] <= 2


def test_a_follower_of_a_session_that_has_done_nothing_sees_its_first_event_at_once(
    tmp_path,
) -> None:
    home = Home(str(tmp_path), environ={})
    worker = register_worker(
        home, "bob", session_id="", cwd="/", pid=0, worker_type="generic"
    ).logical_session_id
    follow = follower(tmp_path, "--follow", who=worker)
    assert follow.stdout is not None
    try:
        assert json.loads(follow.stdout.readline())["watermark"] == 0
        time.sleep(0.2)
        began = time.monotonic()
        start_turn(home, "bob")
        assert json.loads(follow.stdout.readline())["seq"] == 1
        assert time.monotonic() - began < 2
    finally:
        follow.kill()
        follow.wait()
        follow.stdout.close()


def test_a_follower_ends_when_nobody_reads_it(tmp_path) -> None:
    """`vyane watch W --follow | head -1` does not stay behind for the next event."""
    Desk(tmp_path).turn()
    follow = follower(tmp_path, "--follow")
    assert follow.stdout is not None
    for _ in range(5):
        follow.stdout.readline()
    follow.stdout.close()

    assert follow.wait(timeout=10) == 0


def test_without_file_notification_a_follower_looks_now_and_then(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("vyane_cli.storage.watch._open_inotify", lambda: None)
    desk = Desk(tmp_path)
    desk.turn()
    stream = watch(desk.home, SESSION, check_watch(("follow",)), timeout_s=5)
    seen = [next(stream) for _ in range(5)]
    desk.commit(desk.note())
    began = time.monotonic()

    assert plain(next(stream))["seq"] == 5
    assert time.monotonic() - began < 2
    assert seen[-1].kind == "caught_up"
    stream.close()


def test_a_watch_with_a_time_limit_ends(tmp_path) -> None:
    desk = Desk(tmp_path)
    desk.turn()
    found = watch(desk.home, SESSION, check_watch(("follow",)), timeout_s=0.2)

    assert [item.get("seq", item["kind"]) for item in map(plain, found)] == [
        1,
        2,
        3,
        4,
        "caught_up",
    ]


def test_a_killed_consumer_repeats_and_passes_over_nothing(tmp_path) -> None:
    desk = Desk(tmp_path)
    for _ in range(60):
        desk.turn()
    seen: list[int] = []
    for _ in range(2):
        process = follower(tmp_path, "--consumer", "mirror")
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(130)]
        process.kill()
        lines += process.stdout.read().split(b"\n")[:-1]  # printed is printed: the pipe is ours
        seen += [json.loads(line).get("seq", 0) for line in lines]
        process.wait()
        process.stdout.close()
    fresh = [seq for position, seq in enumerate(seen) if seq and seq not in seen[:position]]

    assert fresh == list(range(1, len(fresh) + 1))
    assert len(fresh) >= 230
    assert len(fresh) < len([seq for seq in seen if seq])
