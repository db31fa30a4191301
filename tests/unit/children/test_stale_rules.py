"""Stale: one rule over what is known of a worker; every combination has a row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.children.cancel_rules import ORPHANED_S
from vyane_cli.children.stale_rules import STALE_AFTER_S, Signs, decide_stale
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import (
    TRANSITIONS,
    Worker,
    WorkerStatus,
    check_transition,
    is_stale,
    shown_status,
)

NOW = 1_000_000.0
BUSY = Signs(WorkerStatus.RUNNING, Liveness.BUSY, NOW - STALE_AFTER_S)
REST = Signs(WorkerStatus.IDLE, Liveness.IDLE, 0.0, attended=True)

signs = st.builds(
    Signs,
    status=st.sampled_from(tuple(WorkerStatus)),
    liveness=st.sampled_from(tuple(Liveness)),
    last_s=st.floats(0, 2 * NOW),
    attended=st.booleans(),
    takeover=st.booleans(),
    expects=st.booleans(),
    long_running_until_s=st.floats(0, 2 * NOW),
)


@pytest.mark.parametrize(
    "known, rule",
    [
        (BUSY, "silent"),
        (BUSY._replace(last_s=NOW - STALE_AFTER_S + 1), "progress"),
        (BUSY._replace(last_s=NOW + 60), "progress"),  # the clock went back
        (BUSY._replace(takeover=True), "takeover-pending"),
        (BUSY._replace(long_running_until_s=NOW + 1), "long-running"),
        (BUSY._replace(long_running_until_s=NOW), "silent"),
        (BUSY._replace(attended=True), "silent"),
        (REST, "at-rest"),
        (REST._replace(expects=True), "silent"),
        (REST._replace(attended=False), "silent"),
        (REST._replace(liveness=Liveness.UNKNOWN), "silent"),
        (BUSY._replace(status=WorkerStatus.PENDING), "not-at-work"),
        (BUSY._replace(status=WorkerStatus.RELEASED), "not-at-work"),
        (BUSY._replace(status=WorkerStatus.COMPLETED), "not-at-work"),
        (BUSY._replace(status=WorkerStatus.INTERRUPTED), "not-at-work"),
    ],
)
def test_a_worker_is_stale_when_it_is_at_work_and_nothing_explains_its_silence(known, rule):
    """By name, for each row."""
    assert decide_stale(known, NOW).rule == rule
    assert decide_stale(known, NOW).stale is (rule == "silent")


@given(known=signs, after_s=st.floats(1, 1e6))
def test_only_a_transition_that_the_table_has_makes_a_worker_stale(known, after_s):
    """Whatever is known: a shield holds, and a sign younger than the threshold is no silence."""
    verdict = decide_stale(known, NOW, after_s)
    if verdict.stale:
        assert check_transition(known.status, WorkerStatus.STALE)
        assert NOW - known.last_s >= after_s
        assert not known.takeover
        assert known.long_running_until_s <= NOW


def test_staleness_begins_after_the_time_in_which_an_idle_one_may_come_back():
    """Else everything that rests would be called stale first."""
    assert STALE_AFTER_S > ORPHANED_S
    assert WorkerStatus.STALE in TRANSITIONS[WorkerStatus.RUNNING]


@pytest.mark.parametrize(
    "liveness, sign_s, shown",
    [
        (Liveness.BUSY, 10.0, WorkerStatus.STALE),
        (Liveness.BUSY, 11.0, WorkerStatus.RUNNING),
        (Liveness.IDLE, 11.0, WorkerStatus.IDLE),
        (Liveness.EXITED, 10.0, WorkerStatus.RELEASED),
        (Liveness.UNKNOWN, 10.0, WorkerStatus.STALE),
    ],
)
def test_a_sign_after_the_mark_shows_a_worker_as_it_is(liveness, sign_s, shown):
    """No hook rewrites the registry for that."""
    worker = Worker("w-1", "bob", "claude", "vs-1", status=WorkerStatus.STALE, stale_since=10.0)
    assert shown_status(worker, liveness, sign_s) is shown
    assert is_stale(worker, sign_s) is (sign_s <= 10)
