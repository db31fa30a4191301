"""What ends an entry of what the person is called for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.attention.kinds import ROWS, EndedBy, NeedKey, NeedKind
from vyane_cli.upkeep.ending_rules import NeedFacts, RoundSays, is_over


@pytest.mark.parametrize("kind", NeedKind)
def test_what_was_not_read_ends_nothing(kind):
    assert not is_over(NeedKey(kind, {}), NeedFacts())


BLOCKED = {"project": "p", "task": "T1", "changed_at": "5.000"}
LATE = {"project": "p", "task": "T1", "deadline_at": "5"}
STALE = {"worker": "w-1", "stale_since": "5.000"}
MAIN = {"project": "p", "worker": "w-1"}


def says(cell: str = "B", reason: str = "goal-open", *, waiting: bool = False) -> NeedFacts:
    return NeedFacts(says=RoundSays("p", cell, reason, waiting))


# fmt: off
ENDS = [
    (NeedKind.BLOCKED, BLOCKED, NeedFacts(status="blocked", at=5.0), False),
    (NeedKind.BLOCKED, BLOCKED, NeedFacts(status="blocked", at=6.0), True),
    (NeedKind.BLOCKED, BLOCKED, NeedFacts(status="pending", at=5.0), True),
    (NeedKind.BLOCKED, BLOCKED, NeedFacts(status=""), True),
    (NeedKind.LATE, LATE, NeedFacts(late=True, at=5.0), False),
    (NeedKind.LATE, LATE, NeedFacts(late=True, at=6.0), True),
    (NeedKind.LATE, LATE, NeedFacts(late=False), True),
    (NeedKind.START, {}, NeedFacts(status="pending"), False),
    (NeedKind.START, {}, NeedFacts(status="done"), True),
    (NeedKind.START, {}, NeedFacts(status=""), True),
    (NeedKind.WAITING, {}, says(waiting=True), False),
    (NeedKind.WAITING, {}, says(), True),
    (NeedKind.GAP, {}, says(reason="goal-open"), False),
    (NeedKind.GAP, {}, says(reason="goal-unknown"), True),
    (NeedKind.GOAL_UNKNOWN, {}, says(reason="goal-unknown"), False),
    (NeedKind.GOAL_UNKNOWN, {}, says(reason="executing"), True),
    (NeedKind.ROUND, {}, says("B"), False),
    (NeedKind.ROUND, {}, says("A"), True),
    (NeedKind.ALONE, {"schedules_at": "5.000000"}, NeedFacts(at=5.0), False),
    (NeedKind.ALONE, {"schedules_at": "5.000000"}, NeedFacts(at=6.0), True),
    (NeedKind.MAIN_EXITED, MAIN, NeedFacts(main="w-1", exited=True), False),
    (NeedKind.MAIN_EXITED, MAIN, NeedFacts(main="w-1"), False),
    (NeedKind.MAIN_EXITED, MAIN, NeedFacts(main="w-1", exited=False), True),
    (NeedKind.MAIN_EXITED, MAIN, NeedFacts(main="w-2", exited=True), True),
    (NeedKind.CLAIM, {}, NeedFacts(sound=False), False),
    (NeedKind.CLAIM, {}, NeedFacts(sound=True), True),
    (NeedKind.CHANNEL, {}, NeedFacts(works=True), True),
    (NeedKind.RESUME, {}, NeedFacts(status="IDLE", exited=True), False),
    (NeedKind.RESUME, {}, NeedFacts(status="IDLE", exited=False), True),
    (NeedKind.RESUME, {}, NeedFacts(status="KILLED", exited=True), True),
    (NeedKind.RESUME, {}, NeedFacts(status=""), True),
    (NeedKind.ORPHAN, {}, NeedFacts(status="INTERRUPTED"), False),
    (NeedKind.ORPHAN, {}, NeedFacts(status="RUNNING"), True),
    (NeedKind.STALE, STALE, NeedFacts(status="STALE", at=5.0), False),
    (NeedKind.STALE, STALE, NeedFacts(status="STALE", at=6.0), True),
    (NeedKind.STALE, STALE, NeedFacts(status="RUNNING", at=5.0), True),
]


# fmt: on
@pytest.mark.parametrize("kind, fields, facts, over", ENDS)
def test_an_entry_is_over_when_its_cause_is_gone(kind, fields, facts, over):
    assert is_over(NeedKey(kind, fields), facts) is over


@given(
    st.sampled_from([row.kind for row in ROWS if row.ended_by is EndedBy.PERSON]),
    st.builds(NeedFacts, status=st.sampled_from([None, "", "done"]), sound=st.just(True)),
)
def test_no_file_ends_what_only_the_person_ends(kind, facts):
    assert not is_over(NeedKey(kind, {}), facts)
