"""The invariants of the timeline, A-85 … A-100: each test carries its sentence."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.simulated import machine
from tests.store.timelines import SESSION, Desk
from vyane_cli.cli.render.machine import plain
from vyane_cli.delivery import spool
from vyane_cli.errors import ConflictError, CorruptStateError, InvalidInputError, StorageError
from vyane_cli.history.delete import clear_trash, delete_timeline
from vyane_cli.history.producer import emit_event, finish_turn, start_turn
from vyane_cli.history.queries import check_watch, watch
from vyane_cli.home import Home
from vyane_cli.hosts import port
from vyane_cli.hosts.port import HookCall, HostEvent
from vyane_cli.kernel.process import Process
from vyane_cli.storage import files, processes
from vyane_cli.timeline import log, turns
from vyane_cli.timeline.events import EventKind, TurnOutcome
from vyane_cli.timeline.turns import Transition


@pytest.fixture
def host(tmp_path):
    with machine(tmp_path) as make:
        yield make()


@pytest.fixture
def desk(tmp_path) -> Desk:
    desk = Desk(tmp_path)
    os.makedirs(os.path.dirname(desk.path))
    return desk


def started(desk: Desk) -> str:
    return start_turn(desk.home, SESSION).token


def kinds(desk: Desk) -> list[str]:
    return [event["kind"] for event in desk.history()]


def test_a_85_canonical_identity_of_a_turn_is_never_decided_by_a_provider_id(host) -> None:
    """V1: canonical turn identity is never decided by a provider id."""
    host.start()
    host.prompt("native-1", turn_id="forged", seq=999, epoch="forged")
    host.stop()
    host.prompt("native-2")
    host.stop()
    events = host.events()
    turn_ids = {event["turn"] for event in events if event["turn"]}

    assert len(turn_ids) == 2
    assert not turn_ids & {"native-1", "native-2", "forged"}
    assert all(turns.parse_timeline_head(e["head"], e["epoch"]) for e in events)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {event["origin"]["native_turn"] for event in events if event["turn"]} == {
        "native-1",
        "native-2",
    }
    assert "forged" not in Path(host.world.layout.timeline(host.logical)).read_text()


def test_a_86_dispatch_failure_gives_exactly_one_observable_submit_failed(host) -> None:
    """V2: dispatch failure gives exactly one observable submit_failed."""
    host.start()
    host.prompt()
    message = host.world.send(host.worker)
    host.stop(fails=True)

    assert host.outcomes() == ["success", "error/submit_failed"]
    assert host.world.status(message) == "pending"


def test_a_87_a_result_precedes_the_terminal_and_does_not_close_the_gate(desk) -> None:
    """V3: ResultObserved precedes the terminal and does not close the gate."""
    token = started(desk)
    emit_event(desk.home, token, "ResultObserved", {"digest": "d", "chars": 1})
    emit_event(desk.home, token, "ToolObserved", {"tool": "Bash"})
    finish_turn(desk.home, token, "success")

    assert kinds(desk) == ["TurnStarted", "ResultObserved", "ToolObserved", "TurnFinished"]


def test_a_88_retryable_diagnostics_and_tool_failures_do_not_end_a_turn(desk) -> None:
    """V4: retryable diagnostics and tool failures do not end a turn."""
    token = started(desk)
    emit_event(desk.home, token, "Diagnostic", {"code": "rate_limit"})
    emit_event(desk.home, token, "ToolObserved", {"tool": "Bash", "outcome": "failed"})
    emit_event(desk.home, token, "UsageObserved", {"input_tokens": 3})
    head = log.read_head(desk.path)

    assert head is not None
    assert head.open is not None
    assert "TurnFinished" not in kinds(desk)


def test_a_89_the_same_finish_is_idempotent_and_a_conflicting_one_is_refused(desk) -> None:
    """V5: same finish idempotent, conflicting refused."""
    token = started(desk)
    first = finish_turn(desk.home, token, "success")
    for _ in range(30):  # so that the turn is far behind what the head remembers
        finish_turn(desk.home, started(desk), "success")
    before = Path(desk.path).read_bytes()

    assert finish_turn(desk.home, token, "success") == first
    with pytest.raises(ConflictError) as caught:
        finish_turn(desk.home, token, "error", "rate_limit")
    assert caught.value.slug == "terminal_conflict"
    assert Path(desk.path).read_bytes() == before


def test_a_90_late_events_of_an_old_turn_are_refused_never_given_to_the_next(desk) -> None:
    """V6: late events of an old turn are refused, never given to the next."""
    old = started(desk)
    finish_turn(desk.home, old, "success")
    started(desk)
    before = Path(desk.path).read_bytes()

    with pytest.raises(ConflictError) as caught:
        emit_event(desk.home, old, "ToolObserved", {"tool": "Bash"})
    assert caught.value.slug == "turn_finished"
    assert Path(desk.path).read_bytes() == before


ENDS = [("error", "timeout"), ("interrupted", "user_interrupt"), ("interrupted", "exit")]


def finish_in_a_process(home: str, token: str, end: tuple[str, str], paused: Any) -> None:
    """Finish the turn; the first process waits, just before it writes, until it is let go on."""
    writing, go_on = paused

    def step(call: str, path: str) -> None:
        if call == "write" and path.endswith("events.jsonl") and not writing.is_set():
            writing.set()
            go_on.wait(30)

    files.step = step
    with suppress(ConflictError):
        finish_turn(Home(home, environ={}), token, *end)


def has_ended_or_waits(process: Any) -> bool:
    """proc_locks(5): `->` marks a process that is blocked; where there is no such file, give up."""
    if not process.is_alive():
        return True
    try:
        locks = Path("/proc/locks").read_text()
    except FileNotFoundError:
        return True
    return any("->" in line and f" {process.pid} " in line for line in locks.splitlines())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("first", range(3))
def test_a_91_watchdog_interrupt_and_process_exit_converge_to_one_terminal(desk, first) -> None:
    """V7: watchdog, interrupt and process exit converge to one TurnFinished.

    Whichever of them is about to write: the others come to the same turn in that moment.
    """
    context = multiprocessing.get_context("fork")
    token = started(desk)
    home = desk.home.layout.root
    paused = (context.Event(), context.Event())
    racing = [
        context.Process(target=finish_in_a_process, args=(home, token, end, paused))
        for end in (ENDS[first], *ENDS[:first], *ENDS[first + 1 :])
    ]
    racing[0].start()
    assert paused[0].wait(30)
    for process in racing[1:]:
        process.start()
    while not all(map(has_ended_or_waits, racing[1:])):
        time.sleep(0.01)
    paused[1].set()
    for process in racing:
        process.join()
        assert process.exitcode == 0

    (end,) = (e["payload"] for e in desk.history(kinds=("TurnFinished",)))
    assert (end["outcome"], end["code"]) == ENDS[first]
    assert kinds(desk) == ["TurnStarted", "TurnFinished"]


def test_a_92_the_barrier_of_a_turn_is_complete_before_the_next_one_starts(desk) -> None:
    """V8: barrier of turn N completes before turn N+1 starts."""
    first = started(desk)
    with pytest.raises(ConflictError) as caught:
        started(desk)
    assert caught.value.slug == "turn_open"
    finish_turn(desk.home, first, "success")
    head = log.read_head(desk.path)
    assert head is not None
    assert head.open is None  # the line that finishes a turn takes its token away
    second = started(desk)
    running = log.read_head(desk.path)
    finish_turn(desk.home, first, "success")  # late: it can take nothing from turn 2

    assert log.read_head(desk.path) == running
    finish_turn(desk.home, second, "success")
    assert kinds(desk) == ["TurnStarted", "TurnFinished"] * 2


def test_a_93_a_slow_live_consumer_blocks_neither_progress_nor_clean_up(desk) -> None:
    """V9: a slow live consumer blocks neither provider progress nor clean-up."""
    token = started(desk)
    command = [sys.executable, "-m", "vyane_cli", "watch", SESSION, "--follow", "--json"]
    environ = {**os.environ, "VYANE_HOME": desk.home.layout.root}
    follower = subprocess.Popen(command, stdout=subprocess.PIPE, env=environ)
    assert follower.stdout is not None
    try:
        follower.stdout.readline()
        follower.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        for _ in range(100):
            emit_event(desk.home, token, "ToolObserved", {"tool": "Bash"})
        finish_turn(desk.home, token, "success")
        assert time.monotonic() - began < 5
        follower.send_signal(signal.SIGCONT)
        seen = [json.loads(follower.stdout.readline()) for _ in range(102)]
    finally:
        follower.kill()
        follower.wait()
        follower.stdout.close()

    assert [item.get("seq", item["kind"]) for item in seen] == ["caught_up", *range(2, 103)]


def test_a_94_append_comes_before_notice_and_a_failed_one_keeps_the_last_seq(
    desk, monkeypatch
) -> None:
    """V10: append before notify; failure keeps last seq and stops the producer (DESIGN 9:

    nothing is faulted for good: it works again when space returns).
    """
    token = started(desk)
    beat = desk.home.layout.beat(SESSION)
    os.utime(beat, (1, 1))

    def step(call: str, path: str) -> None:
        if call == "write" and path == desk.path:
            raise OSError(28, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "step", step)
        with pytest.raises(StorageError):
            emit_event(desk.home, token, "ToolObserved", {"tool": "Bash"})
    assert os.stat(beat).st_mtime == 1
    assert emit_event(desk.home, token, "ToolObserved", {"tool": "Bash"}).seq == 2
    assert os.stat(beat).st_mtime != 1


def test_a_95_history_ends_follow_is_gap_free_tail_sees_only_later_commits(desk) -> None:
    """V11: History ends, Follow is gap-free, Tail sees only later commits."""
    desk.turn()

    def seen(mode: str) -> list[object]:
        left = [desk.turn, lambda: None]

        def pause(changes: object) -> bool:
            left.pop(0)()
            return bool(left)

        found = watch(desk.home, SESSION, check_watch((mode,)), pause=pause)
        return [item.get("seq", item["kind"]) for item in map(plain, found)]

    assert seen("history") == [1, 2, 3, 4]
    assert seen("follow") == [1, 2, 3, 4, "caught_up", 5, 6, 7, 8]
    assert seen("tail") == [9, 10, 11, 12]


def test_a_96_a_kept_cursor_survives_restart_and_a_wrong_one_is_refused_by_name(
    desk, tmp_path
) -> None:
    """V12: a persisted cursor of the same epoch survives restart; malformed, future or

    other-epoch cursors are refused.
    """
    desk.turn()
    cursor = desk.cursor(2)
    code = "from tests.store.timelines import Desk; import sys;"
    code += "print([e['seq'] for e in Desk(sys.argv[1]).history(after=sys.argv[2])])"
    done = subprocess.run(
        [sys.executable, "-c", code, desk.home.layout.root, cursor],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout == "[3, 4]\n"
    other = Desk(tmp_path, "vs-ffffffffffff")
    other.turn()
    for text, at, slug in (
        (cursor[:-1] + ("A" if cursor[-1] != "A" else "B"), desk, "cursor_malformed"),
        (cursor, other, "cursor_session_mismatch"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            at.history(after=text)
        assert caught.value.slug == slug
    desk.rewrite(desk.records()[:1])
    with pytest.raises(InvalidInputError) as caught:
        desk.history(after=cursor)
    assert caught.value.slug == "cursor_future"
    os.unlink(desk.path)
    desk.turn()
    with pytest.raises(InvalidInputError) as caught:
        desk.history(after=cursor)
    assert caught.value.slug == "cursor_epoch_mismatch"


def test_a_97_recovery_validates_dispatches_nothing_drains_once_and_restarts_once(host) -> None:
    """V13: recovery validates the lifecycle, re-dispatches nothing, resumes from what is committed,

    refuses what cannot be replayed, gives one runtime_restart to a dead producer.
    """
    host.start()
    host.prompt("turn-1")
    path = Path(host.world.layout.timeline(host.logical))
    message = host.world.send(host.worker)
    call = HookCall("claude-code", HostEvent.STOP, "Stop", host.session, turn="turn-1", result="x")
    folder = Path(host.world.layout.spool(host.logical))
    for name in ("1", "2"):  # kept twice, as by a hook that was called again
        spool.save_call(host.world.layout, host.logical, call, host.world.clock())
        kept = next(file for file in folder.iterdir() if len(file.stem) > 1)
        kept.rename(folder / f"{name}.json")
    (folder / "3.json").write_bytes(b'{"v":9}\n')
    host.prompt("turn-2")
    assert host.outcomes() == ["success"]
    assert [file.name for file in folder.iterdir()] == ["3.json"]
    assert host.world.marks(message) == 0
    host.die()
    again = host.__class__(host.world, subprocess.Popen(["sleep", "600"]), host.session)
    try:
        again.start("resume")
        again.start("resume")
    finally:
        again.die()
    assert host.outcomes() == ["success", "interrupted/runtime_restart"]
    log.check(str(path), host.logical)
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:1], *lines[2:]]) + b"torn")
    for use in (host.prompt, lambda: start_turn(host.world, host.logical)):
        with pytest.raises(CorruptStateError) as caught:
            use()
        assert caught.value.slug == "seq_gap"


def test_a_98_clean_up_removes_a_timeline_at_once_and_its_json_holds_no_raw_dump(
    host, monkeypatch
) -> None:
    """V14: session clean-up removes the timeline atomically; stored JSON has no raw dump."""
    secret = "correct-horse-battery-staple"
    host.start()
    host.prompt(text=f"the password is {secret}")
    call = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": secret}}
    host.world.send(host.worker)
    host.batch(tool_calls=[{**call, "tool_response": {"stdout": secret}}])
    host.call("Notification-permission_prompt", message=f"may I run {secret}?")
    host.call("PermissionRequest", tool_input={"command": secret}, prompt_id=host.turn)
    host.stop(last_assistant_message="done")
    root = Path(host.world.layout.root)
    assert {"ToolObserved", "PermissionObserved"} <= {event["kind"] for event in host.events()}
    for file in filter(Path.is_file, root.rglob("*")):
        assert secret.encode() not in file.read_bytes(), file
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda *a, **k: None)  # it dies after the rename
        delete_timeline(Home(str(root), environ={}), host.logical, yes=True)
    assert not Path(host.world.layout.timeline(host.logical)).exists()
    assert list((root / "timelines").glob(".trash-*"))
    assert clear_trash(host.world.layout) == 1
    assert not list((root / "timelines").iterdir())


def test_a_99_an_unspecified_mode_and_an_old_frame_are_refused(desk) -> None:
    """V15: unspecified attach mode and old prompt frames are refused."""
    with pytest.raises(InvalidInputError) as caught:
        check_watch(())
    assert caught.value.slug == "mode_required"
    layout = desk.home.layout
    folder = Path(layout.spool(SESSION))
    folder.mkdir(parents=True)
    (folder / "1.json").write_bytes(b'{"prompt":"go","session":"host"}\n')

    assert spool.waiting(layout, SESSION) == []


def test_a_100_task_events_are_no_part_of_a_timeline(desk) -> None:
    """V16: task events stay independently persisted, ordered, redacted, replayable.

    A timeline has no kind for them, and neither store takes the other's cursor.
    """
    assert not [kind for kind in EventKind if "task" in kind.lower()]
    desk.turn()
    with pytest.raises(InvalidInputError) as caught:
        desk.history(after="vt1." + desk.cursor(1)[4:])
    assert caught.value.slug == "cursor_malformed"


def test_a_dead_producer_gets_one_runtime_restart_when_the_next_turn_starts(desk) -> None:
    """A-65: exactly one interrupted/runtime_restart."""
    dead = Process(processes.boot_id(), os.readlink("/proc/self/ns/pid"), 2**22 - 1, 1)
    desk.commit(desk.start(dead))
    finish_turn(desk.home, started(desk), "success")

    ends = [event["payload"] for event in desk.history(kinds=("TurnFinished",))]
    assert [(end["outcome"], end.get("code")) for end in ends] == [
        ("interrupted", "runtime_restart"),
        ("success", None),
    ]


def test_a_turn_of_another_live_host_session_is_not_touched_and_a_note_says_so(tmp_path) -> None:
    """X-9: a second host session that starts a turn while one is open is refused."""
    home = Home(str(tmp_path), environ={})
    from vyane_cli.sessions.register import register_worker

    worker = register_worker(
        home, "bob", session_id="", cwd="/", pid=os.getpid(), worker_type="generic"
    )
    path = home.layout.timeline(worker.logical_session_id)
    identity = log.Identity(worker.logical_session_id, worker.id)
    opened = log.Timeline(path, str(tmp_path), identity, "a" * 32)
    clock = home.clock()
    opened.commit(
        turns.start(
            Transition(opened.head),
            clock,
            turn=home.new_id(clock.now_ms),
            token="t",
            trigger=port.Trigger.HUMAN,
            session="another",
            process=processes.myself(),
        )
    )
    opened.close()

    with pytest.raises(ConflictError) as caught:
        start_turn(home, "bob")
    assert caught.value.slug == "turn_open_elsewhere"
    events = [record for _, record in log.read(path)]
    assert [event["kind"] for event in events] == ["TurnStarted", "Diagnostic"]
    assert events[1]["payload"]["code"] == "turn_open_elsewhere"


def test_a_turn_whose_owner_is_unknown_can_be_abandoned_and_no_other(desk) -> None:
    started(desk)
    again = start_turn(desk.home, SESSION, pid=os.getpid(), abandon=True)
    with pytest.raises(ConflictError):
        start_turn(desk.home, SESSION, abandon=True)
    finish_turn(desk.home, again.token, TurnOutcome.SUCCESS)

    assert [e["payload"].get("code") for e in desk.history(kinds=("TurnFinished",))] == [
        "abandoned",
        None,
    ]


def test_a_delete_is_refused_while_a_turn_of_a_live_process_is_open(desk) -> None:
    token = started(desk)
    with pytest.raises(ConflictError) as caught:
        delete_timeline(desk.home, SESSION, yes=True)
    assert caught.value.slug == "turn_open"
    finish_turn(desk.home, token, "success")
    with pytest.raises(InvalidInputError):
        delete_timeline(desk.home, SESSION, yes=False)

    assert files.listdir(os.path.dirname(desk.path)) == ["events.jsonl"]
