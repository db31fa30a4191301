"""What people read of a timeline, and what is never shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.conversations.narration import (
    CLOSED,
    LINES,
    MARKS,
    UntoldTurn,
    Verbosity,
    narrate,
    overview_line,
    show,
)
from vyane_cli.sessions.worker import WorkerStatus
from vyane_cli.storage import settings
from vyane_cli.timeline.events import Category, EventKind

EN, ZH = settings.load_templates("en", "mirror"), settings.load_templates("zh", "mirror")


EVENTS = {
    Category.LIFECYCLE: (EventKind.TURN_STARTED, {"trigger": "human"}),
    Category.MODEL: (EventKind.RESULT_OBSERVED, {"digest": "d", "chars": 4, "excerpt": "text"}),
    Category.TOOL: (EventKind.TOOL_OBSERVED, {"tool": "Bash"}),
    Category.APPROVAL: (EventKind.PERMISSION_OBSERVED, {"tool": "Bash"}),
    Category.ERROR: (EventKind.DIAGNOSTIC, {"code": "x"}),
    Category.COLLABORATION: (EventKind.DELIVERY_ATTEMPTED, {"message_ids": [], "transport": "x"}),
    Category.SYSTEM: (EventKind.BINDING_CHANGED, {"binding": "b-1", "status": "active"}),
}


def tell(kind, payload, verbosity, heard=UntoldTurn(), answer=None):  # noqa: B008 - a value
    record = {"kind": kind, "payload": payload, "turn_number": 3}
    return narrate(record, heard, verbosity, EN, lambda digest: answer)


def test_both_languages_have_every_text() -> None:
    assert set(EN.texts) == set(ZH.texts)


def test_at_full_only_lifecycle_tools_and_answers_are_told() -> None:
    told = {c for c, (kind, payload) in EVENTS.items() if tell(kind, payload, Verbosity.FULL)[0]}

    assert set(EVENTS) == set(Category)
    assert told == {Category.LIFECYCLE, Category.TOOL, Category.MODEL}


@pytest.mark.parametrize("verbosity", [Verbosity.QUIET, Verbosity.SUMMARY])
def test_below_full_no_event_of_an_open_turn_is_told(verbosity) -> None:
    assert not any(tell(kind, payload, verbosity)[0] for kind, payload in EVENTS.values())


@pytest.mark.parametrize(
    "payload, heard, verbosity, text",
    [
        ({"outcome": "success"}, UntoldTurn("one\ntwo"), "summary", "✅ one"),
        ({"outcome": "success"}, UntoldTurn(), "summary", "✅ turn 3 is done"),
        ({"outcome": "success"}, UntoldTurn("one"), "quiet", None),
        ({"outcome": "success"}, UntoldTurn("one", told=True), "full", None),
        ({"outcome": "error", "code": "rate_limit", "text": "slow"}, UntoldTurn(), "quiet",
         "❌ turn 3: rate_limit: slow"),
        ({"outcome": "interrupted"}, UntoldTurn(), "summary", "⚠️ turn 3 was interrupted"),
        ({"outcome": "cancelled"}, UntoldTurn(), "summary", "⚠️ turn 3 was cancelled"),
        ({"outcome": "interrupted"}, UntoldTurn(), "quiet", None),
    ],
)  # fmt: skip
def test_the_end_of_a_turn_is_one_line(payload, heard, verbosity, text) -> None:
    said, left = tell(EventKind.TURN_FINISHED, payload, Verbosity(verbosity), heard)

    assert [one.text for one in said] == ([] if text is None else [text])
    assert left == UntoldTurn()
    assert all(one.notify == (payload["outcome"] == "error") for one in said)


def test_an_answer_without_its_transcript_says_how_much_is_missing() -> None:
    payload = {"digest": "d", "chars": 9000, "excerpt": "begin"}
    said, _ = tell(EventKind.RESULT_OBSERVED, payload, Verbosity.FULL)
    whole, _ = tell(EventKind.RESULT_OBSERVED, payload, Verbosity.FULL, answer="all of it")
    none, _ = tell(EventKind.RESULT_OBSERVED, {"digest": "d", "chars": 9}, Verbosity.FULL)

    assert said[0].text.startswith("begin\n… 9,000 characters")
    assert whole[0].text == "all of it"
    assert none == []


def test_tools_of_a_turn_are_counted_in_one_text() -> None:
    heard = UntoldTurn()
    for name in ("Bash", "Edit", "Bash"):
        said, heard = tell(EventKind.TOOL_OBSERVED, {"tool": name}, Verbosity.FULL, heard)

    assert (said[0].text, said[0].slot) == ("🔧 Bash ×2, Edit", "tools")


def test_each_status_has_a_mark_and_a_line_or_none() -> None:
    assert set(MARKS) == set(LINES) == set(WorkerStatus)
    assert all(name in EN.texts for name in LINES.values() if name)
    assert {status for status in WorkerStatus if status not in CLOSED} == {
        WorkerStatus.PENDING, WorkerStatus.RUNNING, WorkerStatus.IDLE, WorkerStatus.INTERRUPTED
    }  # fmt: skip


def test_the_lines_of_the_overview_are_those_of_the_table() -> None:
    lines = {
        status: overview_line(ZH, status, "kid", "做" * 200)
        for status in WorkerStatus
        if LINES[status]
    }

    assert lines[WorkerStatus.PENDING] == "▢ kid queued"
    assert lines[WorkerStatus.RUNNING] == "🏃 kid: " + "做" * 80
    assert lines[WorkerStatus.IDLE] == "💤 kid: 等待新指令"
    assert lines[WorkerStatus.INTERRUPTED] == "⚠️ kid: interrupted"
    assert lines[WorkerStatus.COMPLETED].startswith("✅ kid: ")
    assert lines[WorkerStatus.FAILED].startswith("❌ kid: ")


@given(st.text())
def test_no_control_character_is_shown(text) -> None:
    assert not any((ord(c) < 0x20 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in show(text))


@pytest.mark.parametrize(
    "secret", ["ghp_0123456789abcdefghij", "Bearer abc.def.ghijkl", "sk-ant-0123456789abcdef",
               "xoxb-1234567890-abcdefgh", "AKIA0123456789ABCDEF"]
)  # fmt: skip
def test_a_secret_is_masked_and_the_rest_is_not(secret) -> None:
    assert show(f"use {secret} now") == "use ••• now"
