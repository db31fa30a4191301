"""The small files that guards, hosts and other ticks look at: never one too few, and soon right."""

import json
import os
from pathlib import Path

import pytest

from tests.simulated import OUTSIDE, Host
from vyane_cli.delivery import tick
from vyane_cli.hosts import claude_code
from vyane_cli.sessions import markers
from vyane_cli.storage import files, processes


def standing(one: Host) -> set[str]:
    """Which markers stand."""
    layout, session = one.world.layout, one.session
    paths = {
        "pending": layout.pending(session),
        "control": layout.control(session),
        "proof": layout.proof(session),
        "armed": layout.armed(session),
        "due": layout.due(one.worker),
    }
    return {name for name, path in paths.items() if os.path.exists(path)}


def rung(one: Host) -> int:
    return os.stat(one.world.layout.wake(one.session)).st_mtime_ns


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("context-inject", {"pending", "due", "armed"}),
        ("info", {"pending"}),
        ("takeover", {"pending", "control", "due", "armed"}),
        ("cancel", {"pending", "control", "due", "armed"}),
    ],
)
def test_a_send_sets_what_the_guard_and_the_host_look_at(one, kind, expected):
    """Only mail that may start a turn rings; only control stops a tool."""
    before = rung(one)
    one.world.send("project", "hello", kind=kind)

    assert standing(one) == expected
    assert (rung(one) > before) == ("armed" in expected)


def test_markers_are_set_before_the_message_is_appended(one, monkeypatch):
    """A crash in between leaves one too many, which the next tick clears; never one too few."""
    order: list[str] = []
    monkeypatch.setattr(files, "step", lambda name, path: order.append(os.path.basename(path)))
    one.world.send("project", "hello")
    message = order.index(os.path.basename(one.world.layout.inbox(one.worker)))

    assert order.index(f"{one.session}.pending") < message
    assert order.index(one.worker) < message
    assert order.index(one.session) > message


def test_a_marker_that_nothing_stands_behind_is_cleared_by_the_next_tick(one):
    """It costs one tick that finds nothing."""
    layout = one.world.layout
    for path in (layout.pending(one.session), layout.control(one.session), layout.due(one.worker)):
        files.touch(path)
    one.prompt()

    assert standing(one) == set()


def test_a_delivery_stands_until_it_is_proven(one):
    """`proof` makes the guard run the tick at the next event, which consumes."""
    one.prompt()
    one.world.send("project", "hello")
    one.batch()
    assert standing(one) - {"armed"} == {"proof"}
    one.batch()
    assert standing(one) - {"armed"} == set()


def test_mail_for_the_next_turn_does_not_make_every_batch_run_a_tick(one):
    """It is due, and it is not for a batch."""
    one.prompt()
    one.world.send("project", "later", payload={"position": "before_next_turn"})
    one.batch()

    assert standing(one) - {"armed"} == {"due"}


def test_a_burst_rings_once_and_the_message_after_the_hosts_call_rings_again(one):
    """The host merges bursts, after the last write: writing on would put the event off."""
    one.world.send("project", "n 0")
    first = rung(one)
    for number in range(1, 6):
        one.world.send("project", f"n {number}")
    assert rung(one) == first
    one.watch()
    assert "armed" not in standing(one)
    one.world.send("project", "again")

    assert rung(one) > first


def test_a_ring_that_nobody_answered_is_repeated_after_two_seconds(one):
    """Also when the clock has been set back meanwhile."""
    one.world.send("project", "n 0")
    for shift in (3_000, -60_000):
        before = rung(one)
        one.world.wall_ahead_ms = shift
        one.world.send("project", "next")
        assert rung(one) > before


def test_a_session_without_a_watch_is_not_rung(one):
    """It was open before the hooks were installed: no wake file, and none is made for nothing."""
    files.remove(one.world.layout.wake(one.session))
    one.world.send("project", "hello")

    assert not os.path.exists(one.world.layout.wake(one.session))
    assert "due" in standing(one)


def test_the_wake_file_keeps_its_inode(one):
    """Hosts watch the file, not its name."""
    before = os.stat(one.world.layout.wake(one.session)).st_ino
    one.world.send("project", "hello")

    assert os.stat(one.world.layout.wake(one.session)).st_ino == before


def test_a_clock_that_was_set_back_makes_nothing_wait_until_it_has_caught_up(one):
    """What is due lies ahead then for as long: it is tried, and its gates ask."""
    layout, now = one.world.layout, one.world.clock().now_ms
    files.touch(layout.due("w-later"), str(now + 300_000))

    assert markers.overdue(layout, now, 10_000, 9) == []
    assert markers.overdue(layout, now - 86_400_000, 10_000, 9) == ["w-later"]


def test_what_is_overdue_is_listed_and_no_more_than_asked_for(one):
    """Due in the future is not overdue, nor is what has just become due."""
    layout, now = one.world.layout, one.world.clock().now_ms
    for number in range(5):
        files.touch(layout.due(f"w-{number}"), "0")
        os.utime(layout.due(f"w-{number}"), (now / 1000 - 60, now / 1000 - 60))
    files.touch(layout.due("w-later"), str(now + 60_000))
    files.touch(layout.due("w-now"), "0")

    assert markers.overdue(layout, now, 10_000, 3) == ["w-0", "w-1", "w-2"]
    assert len(markers.overdue(layout, now, 10_000, 99)) == 5


# ------------------------------------------------------------------ the sleeper


def asleep(one: Host, monkeypatch) -> list[str]:
    """A session whose normal mail is too soon, with its sleeper started in this process."""
    monkeypatch.setattr(tick, "LOOK_S", 0.01)
    first = one.world.send("project", "first", OUTSIDE)
    one.watch()
    one.woken(first)
    one.stop()
    one.world.send("project", "second", OUTSIDE)
    seen = one.watch()
    assert seen.plan is not None
    assert seen.plan.sleeps
    return []


def sleep(one: Host, said: list[str]) -> None:
    data = one.payload("FileChanged", file_path=one.world.layout.wake(one.session))
    one.world.environ = one.environ()

    call = claude_code.parse(data, one.environ(), processes.identify, rewake=True)
    tick.sleep_and_tick(one.world, call, claude_code, lambda reply: said.append(reply.wake))


def test_the_sleeper_delivers_what_was_too_soon_when_it_is_due(one, monkeypatch):
    """No gate consumes a message, and nothing waits for a retry that nobody makes."""
    said = asleep(one, monkeypatch)
    record = Path(one.environ()["CLAUDE_CONFIG_DIR"], "sessions", f"{one.process.pid}.json")
    record.parent.mkdir(parents=True)
    idle = {"sessionId": one.session, "status": "idle", "statusUpdatedAt": 99_999_999_999_999}
    record.write_text(json.dumps(idle))
    one.world.pass_s(301)
    sleep(one, said)

    assert len(said) == 1
    assert "second" in said[0]


def test_a_session_has_one_sleeper(one, monkeypatch):
    """A second one leaves at once."""
    said = asleep(one, monkeypatch)
    held = tick._lock(one.world.layout.wake(one.session))
    assert held is not None
    try:
        sleep(one, said)
    finally:
        os.close(held)

    assert said == []


@pytest.mark.parametrize("reason", ["read", "replaced", "dead"])
def test_the_sleeper_ends_when_there_is_nothing_to_wait_for(one, monkeypatch, reason):
    """The mail was read, the session was replaced, or its process is gone."""
    said = asleep(one, monkeypatch)
    if reason == "read":
        one.prompt()
        one.batch()
    elif reason == "replaced":
        Path(one.world.layout.current(one.worker)).write_text("another")
    else:
        one.die()
    sleep(one, said)

    assert said == []
