"""Resuming: which closed session may be opened again, and for which mail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.scripted import message
from vyane_cli.delivery.gating import Readings
from vyane_cli.delivery.resume_rules import Allow, Closed, ask_resume, decide_start
from vyane_cli.mail.mailbox import Head, MailEntry
from vyane_cli.mail.message import Lane, MessageStatus
from vyane_cli.sessions.liveness_rules import Liveness

CLOSED = Closed(gone=True, ended="other", child=False, over=False, command=True)
NOW_MS = 10_000_000


@pytest.mark.parametrize(
    "closed, allow, rule",
    [
        (CLOSED, Allow.ALL, ""),
        (CLOSED, Allow.NEVER, "resume/not-allowed"),
        (CLOSED, Allow.CHILDREN, "resume/not-allowed"),
        (CLOSED._replace(child=True), Allow.CHILDREN, ""),
        (CLOSED._replace(ended=""), Allow.ALL, ""),  # killed without a word
        (CLOSED._replace(gone=False), Allow.ALL, "resume/process-there"),
        (CLOSED._replace(ended="clear"), Allow.ALL, "resume/cleared"),
        (CLOSED._replace(over=True), Allow.ALL, "resume/worker-ended"),
        (CLOSED._replace(starting=True), Allow.ALL, "resume/starting"),
        (CLOSED._replace(command=False), Allow.ALL, "resume/no-command"),
    ],
)
def test_a_session_is_resumed_only_when_it_is_closed_and_allows_it(closed, allow, rule):
    """By the name of the rule that refuses."""
    assert ask_resume(closed, allow) == rule


@given(
    closed=st.builds(
        Closed,
        st.booleans(),
        st.sampled_from(["", "other", "clear"]),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    )
)
def test_a_process_that_may_be_there_is_never_doubled(closed):
    """Whatever else is known; and by default nothing is resumed at all."""
    if not closed.gone or closed.starting or closed.ended == "clear":
        assert ask_resume(closed, Allow.ALL)
    assert ask_resume(closed, Allow.NEVER)


def entry(lane: Lane, ts: float = 100.0, **more) -> MailEntry:
    return MailEntry(message(1, lane=lane, ts=ts), 0, **more)


def readings(**head) -> Readings:
    return Readings(Head(**head), Liveness.IDLE, NOW_MS)


@pytest.mark.parametrize(
    "known, head, tried_s, rule",
    [
        (entry(Lane.DIRECT), {}, 0.0, "resume/direct"),
        (entry(Lane.CONTROL), {}, 0.0, "resume/control"),
        (entry(Lane.NORMAL), {}, 0.0, "resume/normal"),
        (entry(Lane.QUIET), {}, 0.0, None),
        (entry(Lane.DIRECT), {}, 100.0, None),  # the last try was made for it
        (entry(Lane.DIRECT, status=MessageStatus.CONSUMED), {}, 0.0, None),
        (entry(Lane.NORMAL), {"normal_ms": NOW_MS - 1}, 0.0, None),
        (entry(Lane.DIRECT), {"normal_ms": NOW_MS - 1}, 0.0, "resume/direct"),
        (entry(Lane.DIRECT), {"starts_ms": (NOW_MS,) * 30}, 0.0, None),
    ],
)
def test_mail_resumes_a_session_by_the_gates_of_any_start(known, head, tried_s, rule):
    """Too soon, the rate guard; and a message is tried once."""
    found = decide_start([known], readings(**head), "resume", tried_s)
    assert (found[1].rule if found else None) == rule
