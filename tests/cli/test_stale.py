"""Workers that give no sign: found by `gc`, shielded, told of once, back with their next sign."""

import json
import os
import time

import pytest

from tests.simulated import HUMAN
from vyane_cli.attention import needs
from vyane_cli.children import spawn as spawning
from vyane_cli.children.order import Order
from vyane_cli.children.report import report_long_running
from vyane_cli.children.spawn import spawn as spawn
from vyane_cli.children.stale import Staleness, find_stale, mark_stale
from vyane_cli.delivery.takeover import take_over
from vyane_cli.errors import InvalidInputError
from vyane_cli.health.doctor import examine
from vyane_cli.hosts import claude_settings
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import WorkerStatus
from vyane_cli.storage import files

LONG_S = 2_000.0


def silence(one, seconds: float = LONG_S) -> None:
    """The session's last sign was so long ago."""
    known = registry.load_session(one.world.layout, one.session)
    assert known is not None
    at = time.time() - seconds
    registry.save_session(one.world.layout, known._replace(started_at=at))
    os.utime(one.world.layout.beat(one.session), (at, at))
    book = registry.Registry(one.world.layout)
    old = {"created_at": at, "last_used_at": at}
    book.put(book.workers[one.worker]._replace(**old))
    book.save()


def status(one) -> WorkerStatus:
    return registry.Registry(one.world.layout).workers[one.worker].status


def shown(run) -> str:
    (row,) = json.loads(run("--json", "workers")[1])
    return str(row["status"])


def test_a_busy_session_without_a_sign_is_stale_and_told_of_once(one, run):
    """And runs again with its next one; nothing was signalled."""
    one.prompt()
    assert json.loads(run("--json", "gc")[1])["stale"] == 0
    silence(one)
    assert json.loads(run("--json", "gc", "--dry-run")[1])["stale"] == 1
    assert shown(run) == "RUNNING"
    assert [json.loads(run("--json", "gc")[1])["stale"] for _ in range(2)] == [1, 0]
    assert shown(run) == "STALE"
    assert " stale " in run("workers")[1]
    assert not needs.list_entries(one.world.layout), "it is given time for a sign"
    one.world.pass_s(301)
    for _ in range(2):
        mark_stale(one.world, one.world.clock())
    (entry,) = needs.list_entries(one.world.layout)
    assert "no sign for 25 minutes" in entry["text"]
    assert one.process.poll() is None

    one.batch()
    assert shown(run) == "RUNNING"
    assert status(one) is WorkerStatus.STALE
    found = mark_stale(one.world, one.world.clock())
    assert found == Staleness((), (one.worker,))
    assert status(one) is WorkerStatus.RUNNING
    run("gc", "--dry-run")
    assert needs.list_entries(one.world.layout) == [entry]
    run("gc")
    assert needs.list_entries(one.world.layout) == []


@pytest.mark.parametrize("jump", ["wall clock", "suspend"])
def test_nobody_is_called_for_time_in_which_nobody_could_work(one, jump):
    """It is marked, since that is all that can be seen; its next sign ends that in silence."""
    one.prompt()
    if jump == "wall clock":
        one.world.wall_ahead_ms += 3_600_000
    else:
        one.world.sleep_s(3600)
    assert mark_stale(one.world, one.world.clock()) == Staleness((one.worker,))
    one.world.sleep_s(3600)
    one.world.pass_s(200)
    mark_stale(one.world, one.world.clock())
    now = one.world.clock().at
    os.utime(one.world.layout.beat(one.session), (now, now))
    one.world.pass_s(200)
    assert mark_stale(one.world, one.world.clock()) == Staleness((), (one.worker,))
    assert not needs.list_entries(one.world.layout)


def test_who_has_looked_is_called_again_by_the_next_mark_alone(one):
    one.prompt()
    silence(one)

    def stay_silent() -> list[str]:
        for _ in range(3):
            mark_stale(one.world, one.world.clock())
            one.world.pass_s(301)
        return [entry["key"] for entry in needs.list_entries(one.world.layout)]

    (key,) = stay_silent()
    needs.resolve(one.world.layout, [key], "ann", one.world.clock(), one.world.deadline())
    assert not stay_silent()
    one.batch()
    mark_stale(one.world, one.world.clock())
    one.world.pass_s(LONG_S)
    (other,) = stay_silent()
    assert other != key


def test_a_longer_silence_that_was_announced_is_no_sign_of_trouble(one, run):
    """Until it is over."""
    one.prompt()
    one.world.environ = one.environ()
    report_long_running(one.world, 600)
    silence(one)
    clock = one.world.clock()
    assert find_stale(one.world, clock) == Staleness()
    later = clock._replace(now_ms=clock.now_ms + 601_000)
    assert find_stale(one.world, later) == Staleness((one.worker,))


def test_a_takeover_that_is_not_over_shields(one, run):
    """The person is at it."""
    one.prompt()
    take_over(one.world, one.worker, "stop", timeout_s=0, speaker=HUMAN)
    silence(one)
    assert mark_stale(one.world, one.world.clock()) == Staleness()
    one.tool()
    one.batch()
    one.stop()
    one.prompt()
    silence(one)
    assert mark_stale(one.world, one.world.clock()) == Staleness((one.worker,))


def test_a_session_that_waits_for_its_person_is_at_rest(one):
    """Unless mail lies there that ought to have woken it."""
    silence(one, 8 * 3600)
    assert mark_stale(one.world, one.world.clock()) == Staleness()
    one.world.send("project", "hello")
    silence(one, 8 * 3600)
    assert mark_stale(one.world, one.world.clock()) == Staleness((one.worker,))


def test_an_interactive_child_that_rests_without_a_result_is_stale(host, one, monkeypatch):
    """Its parent waits for it."""
    monkeypatch.setattr(spawning, "start_launcher", lambda *rest: None)
    child = spawn(one.world, Order("go", one.worker, cwd="/tmp"))
    kid = host(extra={"VYANE_WORKER": child.id})
    kid.start()
    kid.prompt()
    kid.stop()
    assert kid.worker == child.id
    silence(kid)
    assert mark_stale(one.world, one.world.clock()) == Staleness((child.id,))
    one.world.pass_s(301)
    mark_stale(one.world, one.world.clock())
    (entry,) = needs.list_entries(one.world.layout)
    assert child.name in entry["text"]


def test_one_whose_process_is_gone_has_exited_and_is_not_stale(one, run):
    """Process identity says so, not age."""
    one.prompt()
    silence(one)
    mark_stale(one.world, one.world.clock())
    one.die()
    assert shown(run) == "RELEASED"
    assert mark_stale(one.world, one.world.clock()).back == (one.worker,)
    assert status(one) is WorkerStatus.RELEASED


def test_what_a_spawned_program_prints_is_a_sign(one, monkeypatch):
    """It has no hooks: its log grows."""
    monkeypatch.setattr(spawning, "start_launcher", lambda *rest: None)
    child = spawn(one.world, Order("go", one.worker, cwd="/tmp"))
    book = registry.Registry(one.world.layout)
    at = time.time() - LONG_S
    book.put(
        book.workers[child.id]._replace(status=WorkerStatus.RUNNING, created_at=at, last_used_at=at)
    )
    book.save()
    silence(one)
    one.batch()
    assert find_stale(one.world, one.world.clock()) == Staleness((child.id,))
    files.touch(one.world.layout.output(child.id), "line\n")
    assert find_stale(one.world, one.world.clock()) == Staleness()


def test_a_broadcast_passes_a_stale_worker_by(host, one):
    """Until it gives a sign."""
    other = host()
    other.start()
    one.prompt()
    silence(one)
    mark_stale(one.world, one.world.clock())
    one.world.send("all", "hello", kind="info")
    assert len(one.world.inbox(other.worker).mailbox.entries) == 1
    assert one.world.inbox(one.worker).mailbox.entries == ()
    one.world.pass_s(61)
    one.batch()
    one.world.send("all", "again", kind="info")
    assert len(one.world.inbox(one.worker).mailbox.entries) == 1


@pytest.mark.parametrize("given, seconds", [("", 1500), ("1300", 1300), ("60", 60)])
def test_the_threshold_is_a_setting_and_a_variable(one, given, seconds):
    """The variable wins; `doctor` complains when it is below the idle time."""
    one.prompt()
    silence(one, seconds - 5)
    one.world.environ = {"VYANE_WORKER_HEARTBEAT_TIMEOUT": given, "HOME": "/", "PATH": ""}
    clock = one.world.clock()
    assert find_stale(one.world, clock) == Staleness()
    later = clock._replace(now_ms=clock.now_ms + 10_000)
    assert find_stale(one.world, later) == Staleness((one.worker,))
    (check,) = [c for c in examine(one.world, claude_settings, "/") if c.check == "thresholds"]
    assert check.ok is (seconds > 1200)


@pytest.mark.parametrize("given", ["soon", "0", "nan", "inf", "-5"])
def test_a_threshold_that_is_none_is_refused(one, given):
    """And names the variable."""
    one.world.environ = {"VYANE_WORKER_HEARTBEAT_TIMEOUT": given}
    with pytest.raises(InvalidInputError, match="VYANE_WORKER_HEARTBEAT_TIMEOUT"):
        mark_stale(one.world, one.world.clock())
