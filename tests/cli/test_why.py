"""`vyane why`: which rule, when, on what readings, for each way a message may go."""

import json
from typing import Any

import pytest

from tests.simulated import Host
from vyane_cli.delivery import tick
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.setup.settings import set_setting

AGENT = Speaker(FromKind.WORKER, "w-0123456789ab", "api-main")


def told(run: Any, message_id: str) -> dict[str, Any]:
    """The story as a program reads it; the same words reach a person."""
    code, out, _ = run("--json", "why", message_id)
    assert code == 0
    story: dict[str, Any] = json.loads(out)
    shown = run("why", message_id)[1]
    assert all(step["rule"] in shown for step in story["steps"])
    assert all(step["at"] for step in story["steps"])
    return story


def steps(story: dict[str, Any]) -> list[tuple[str, str]]:
    return [(step["step"], step["rule"]) for step in story["steps"]]


def test_a_delivery_at_a_tool_batch(one: Host, run: Any) -> None:
    """Rule batch/normal; consumed by the event that proved it."""
    one.prompt()
    mail = one.world.send("project", "hello", AGENT)
    one.batch()
    one.stop()

    assert steps(told(run, mail)) == [
        ("stored", ""),
        ("claimed", "batch/normal"),
        ("delivered", "batch/normal"),
        ("consumed", "Stop"),
    ]


def test_a_start_by_a_watch(one: Host, run: Any) -> None:
    """Handed, then delivered by the prompt event that names it."""
    mail = one.world.send("project", "hello", AGENT)
    text = one.watch().text
    one.woken(text)
    one.stop()

    assert steps(told(run, mail)) == [
        ("stored", ""),
        ("claimed", "watch/normal"),
        ("handed to the host", "watch/normal"),
        ("delivered", "watch/normal"),
        ("consumed", "Stop"),
    ]


def test_what_was_too_soon_is_delivered_by_the_sleeper(
    one: Host, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held with the age of the last start and the minimum; a real process then delivers it."""
    monkeypatch.setattr(tick, "LOOK_S", 0.1)
    one.world.environ = {}
    set_setting(one.world, "delivery.too_soon_s", "2")
    one.world._config = None
    first = one.world.send("project", "first", AGENT)
    one.woken(one.watch().text)
    one.stop()
    second = one.world.send("project", "second", AGENT)
    ran = one.hook("FileChanged", file_path=one.world.layout.wake(one.session), rewake=True)

    assert ran.status == 2
    assert second in ran.err.decode()
    assert first not in ran.err.decode()
    story = told(run, second)
    assert steps(story)[:4] == [
        ("stored", ""),
        ("held", "too-soon"),
        ("claimed", "watch/normal"),
        ("handed to the host", "watch/normal"),
    ]
    held = story["steps"][1]
    assert held["readings"]["minimum_s"] == 2
    assert 0 <= held["readings"]["last_start_s_ago"] < 2
    assert 0 < held["again_ms"] <= 2000


def test_what_was_held_because_the_target_was_busy(one: Host, run: Any) -> None:
    """The reading is the session's liveness."""
    one.prompt()
    mail = one.world.send("project", "hello", AGENT)
    one.watch()
    story = told(run, mail)

    assert steps(story) == [("stored", ""), ("held", "target-busy")]
    assert story["steps"][1]["readings"] == {"liveness": "busy"}
    assert "busy" in story["now"]


def test_what_is_shown_again_after_a_crash(one: Host, run: Any) -> None:
    """The claim of a dead process is void: pending again, then delivered, marked."""
    one.prompt()
    mail = one.world.send("project", "hello", AGENT)

    class Killed(BaseException):
        pass

    def die(_: object) -> None:
        raise Killed

    try:
        one.batch(show=die)
    except Killed:
        pass
    one.world.pass_s(1)
    one.batch(rerun=True)  # as the guard does when a signal ended the tick
    again = one.batch()

    assert "redelivered" in again.text
    assert steps(told(run, mail)) == [
        ("stored", ""),
        ("claimed", "batch/normal"),
        ("pending again", "claim-void"),
        ("claimed", "batch/normal"),
        ("delivered", "batch/normal"),
    ]


def test_what_expired(one: Host, run: Any) -> None:
    """It waited longer than its time to live."""
    mail = one.world.send("project", "hello", AGENT, ttl_s=5.0)
    one.world.pass_s(6)
    one.prompt()
    story = told(run, mail)

    assert steps(story) == [("stored", ""), ("expired", "ttl")]
    assert story["now"] == "settled: expired"
