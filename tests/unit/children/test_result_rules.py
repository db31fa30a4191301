"""How a child's end is told to its parent, and how much of it fits."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.children.result_rules import (
    CANCELLED,
    STATUS_OF,
    TOKENS_MAX,
    UNITS_MAX,
    Ending,
    Report,
    decide_report,
    estimate_tokens,
    head_of,
    parse_report,
    plan_result,
    result_id,
)
from vyane_cli.kernel.ids import is_ulid, render_ulid
from vyane_cli.kernel.text import Templates, utf16_length
from vyane_cli.mail.envelope import BUDGET, paginate
from vyane_cli.mail.mailbox import MailEntry
from vyane_cli.mail.message import Lane, Message, MessageKind, ToKind, check_payload
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.storage import settings

DISPATCH = render_ulid(1_700_000_000_000, b"0123456789")


@pytest.mark.parametrize(
    "text, tokens", [("", 0), ("abcd", 1), ("abcde", 2), ("修复", 2), ("ab修", 2), ("🙂", 1)]
)
def test_tokens_are_a_quarter_of_ascii_and_one_for_any_other_character(text, tokens):
    """A documented estimate, the same everywhere."""
    assert estimate_tokens(text) == tokens


def test_every_ending_has_a_status():
    """The table is total."""
    assert set(STATUS_OF) == set(Ending)


@given(st.text(st.characters(codec="utf-8"), max_size=200), st.integers(1, 200))
def test_a_result_is_within_both_caps_and_a_longer_one_refers_to_its_whole(text, times):
    """Nothing is lost: the blob has all of it, under its own hash."""
    planned = plan_result(Report(Ending.SUCCESS, text * times))
    shown = planned.payload.get("summary", planned.payload.get("head"))

    check_payload(MessageKind.TASK_RESULT, dict(planned.payload))
    assert estimate_tokens(shown) <= TOKENS_MAX
    assert utf16_length(shown) <= UNITS_MAX
    if planned.digest:
        assert planned.overflow == (text * times).strip("\n")
        data = planned.overflow.encode()
        assert planned.payload["summary_ref"] == {
            "sha256": hashlib.sha256(data).hexdigest(),
            "bytes": len(data),
            "tokens": estimate_tokens(planned.overflow),
        }
        assert planned.overflow.startswith(shown)
    else:
        assert shown == (text * times).strip("\n")


@pytest.mark.parametrize("character", ["x", "修", "🙂", "a修"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_long_result_fits_one_hook_output_with_the_command_that_prints_the_rest(
    character, language
):
    """The cap leaves room for the envelope."""
    planned = plan_result(Report(Ending.SUCCESS, character * 40_000))
    message = Message(
        result_id(DISPATCH), 1.0, 60.0, FromKind.WORKER, "w-1", "n" * 80, ToKind.WORKER, "w-2",
        MessageKind.TASK_RESULT, Lane.DIRECT, payload=planned.payload,
    )  # fmt: skip
    texts: Templates = settings.load_templates(language)
    page = paginate([MailEntry(message, 0)], texts)

    assert page.left == 0
    assert utf16_length(page.text) <= BUDGET
    assert planned.payload["head"] in page.text
    assert f"vyane show {message.id} --full" in page.text


def test_a_head_is_cut_between_characters():
    """Never within a pair of surrogates, never over the estimate."""
    head = head_of("🙂" * 5000)
    assert estimate_tokens(head) <= TOKENS_MAX
    assert set(head) == {"🙂"}


ANSWER = Report(Ending.SUCCESS, "answer")


@pytest.mark.parametrize(
    "status, candidate, ending, text",
    [
        (0, ANSWER, Ending.SUCCESS, "answer"),
        (0, None, Ending.SUCCESS, "printed"),
        (0, Report(Ending.ERROR, "", "rate_limit"), Ending.ERROR, ""),
        (3, ANSWER, Ending.ERROR, "answer"),
        (3, None, Ending.ERROR, "printed"),
        (3, Report(Ending.ERROR, "", "rate_limit"), Ending.ERROR, ""),
        (-9, ANSWER, Ending.ERROR, "answer"),
        (-9, None, Ending.ERROR, "printed"),
    ],
)
def test_the_outcome_is_the_runtimes_and_not_the_models_words(status, candidate, ending, text):
    """Its exit status decides; what it said is only the text."""
    report = decide_report(status, candidate, "printed")
    assert (report.ending, report.text) == (ending, text)
    assert bool(report.error) == (ending is Ending.ERROR)


def test_a_failure_says_why_first():
    """The reason is the error of the payload, and the beginning of what the parent reads."""
    payload = plan_result(Report(Ending.ERROR, "half of it", "it exited with status 3")).payload
    assert payload["success"] is False
    assert payload["error"] == "it exited with status 3"
    assert payload["summary"] == "it exited with status 3\n\nhalf of it"
    assert plan_result(Report(Ending.CANCELLED)).payload["error"] == CANCELLED


def test_the_id_of_a_result_follows_from_its_dispatch():
    """So two senders of one result send one message."""
    assert result_id(DISPATCH) == result_id(DISPATCH) != DISPATCH
    assert is_ulid(result_id(DISPATCH))
    assert result_id(DISPATCH)[:10] == DISPATCH[:10]


@pytest.mark.parametrize("data", [None, {}, {"ending": "other"}, {"ending": "error", "error": "x"}])
def test_a_candidate_that_cannot_be_read_is_none(data):
    """Half a file is not an answer."""
    report = parse_report(data)
    assert (report is None) == (data is None or data.get("ending") != "error")
