"""Whom a cancel reaches, what became of each, and who is an orphan."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.children.cancel_rules import (
    ORPHANED_S,
    OUTCOMES,
    Cancel,
    CancelOutcome,
    is_above,
    mark_asked,
    mark_orphan,
    mark_reunited,
    mark_settled,
    orphans,
    parse_cancel,
    plan_reach,
    render_cancel,
    reunited,
)
from vyane_cli.mail.message import MessageStatus
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import TRANSITIONS, Worker, WorkerStatus, check_transition

RUNNING = WorkerStatus.RUNNING


def tree(*links: str, independent: str = "", ended: str = "") -> dict[str, Worker]:
    """Workers from `parent>child` links; letters are names."""
    names = dict.fromkeys("".join(links).replace(">", ""))
    parents = {link[2]: link[0] for link in links}
    return {
        name: Worker(
            name,
            name,
            "claude_cli",
            "vs-" + name,
            status=WorkerStatus.COMPLETED if name in ended else RUNNING,
            parent_worker_id=parents.get(name),
            independent=name in independent,
        )
        for name in names
    }


def test_children_come_before_their_parents():
    """Whoever ends first cannot spawn for the one below it."""
    members = plan_reach("a", tree("a>b", "a>c", "b>d", "b>e")).members

    assert sorted(members) == list("abcde")
    assert members[-1] == "a"
    assert members.index("b") > max(members.index("d"), members.index("e"))


def test_an_independent_child_is_skipped_with_all_that_is_below_it():
    """And listed."""
    reach = plan_reach("r", tree("r>a", "a>x", "r>b", independent="a"))

    assert reach.members == ("b", "r")
    assert reach.skipped == ("a", "x")


def test_the_root_of_a_cancel_may_be_independent_itself():
    """It was named."""
    assert plan_reach("r", tree("r>a", independent="r")).members == ("a", "r")


def test_ended_workers_are_left_alone_but_what_is_below_them_is_not():
    """A result that was given is not taken back."""
    assert plan_reach("r", tree("r>a", "a>b", ended="a")).members == ("b", "r")


def test_without_propagation_only_the_root_is_reached():
    """Its children go on, and none is listed as skipped."""
    reach = plan_reach("r", tree("r>a", "r>b", independent="b"), propagate=False)

    assert (reach.members, reach.skipped) == (("r",), ())


def test_a_cycle_is_walked_once():
    """A damaged registry is no endless loop."""
    workers = tree("a>b", "b>c", "c>a")

    assert sorted(plan_reach("a", workers).members) == ["a", "b", "c"]
    assert is_above("b", workers["a"], workers)
    assert not is_above("z", workers["a"], workers)


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19), st.booleans()), max_size=60))
def test_every_worker_is_reached_or_skipped_at_most_once(links):
    """Whatever the links say; and a child that is no ancestor of its parent comes before it."""
    workers = {
        str(n): Worker(str(n), str(n), "claude_cli", f"vs-{n}", status=RUNNING) for n in range(20)
    }
    for parent, child, spared in links:
        known = workers[str(child)]
        workers[str(child)] = known._replace(parent_worker_id=str(parent), independent=spared)
    reach = plan_reach("0", workers)

    assert len({*reach.members, *reach.skipped}) == len(reach.members) + len(reach.skipped)
    assert reach.members[-1] == "0"
    for position, member in enumerate(reach.members[:-1]):
        parent = workers[member].parent_worker_id
        assert parent in reach.members[position + 1 :]


def test_every_reading_has_an_outcome():
    """Total; a session that has ended is gone whatever its inbox says."""
    assert set(OUTCOMES) == set(Liveness)
    assert all(set(row) == set(MessageStatus) for row in OUTCOMES.values())
    assert set(OUTCOMES[Liveness.EXITED].values()) == {CancelOutcome.GONE}
    assert OUTCOMES[Liveness.BUSY][MessageStatus.PENDING] is CancelOutcome.UNKNOWN


@pytest.mark.parametrize("status", list(WorkerStatus))
@pytest.mark.parametrize("outcome", list(CancelOutcome))
def test_what_becomes_of_a_worker_is_a_transition_of_the_table(status, outcome):
    """Nothing else, whatever it was; one who has not answered stays as it is."""
    worker = Worker("w", "w", "claude_cli", "vs-w", status=status, parent_worker_id="p")
    after = mark_settled(worker, outcome, 1.0).status

    assert after is status or after in TRANSITIONS[status]
    if outcome in (CancelOutcome.UNKNOWN, CancelOutcome.REFUSED):
        assert after is status


def test_a_session_that_a_person_opened_is_stopped_and_stays_theirs():
    """Only one that somebody spawned is KILLED: a closed session may be opened again."""
    worker = Worker("w", "w", "claude_cli", "vs-w", status=WorkerStatus.IDLE)

    child = worker._replace(parent_worker_id="p")
    for outcome in (CancelOutcome.STOPPED, CancelOutcome.GONE):
        asked = worker._replace(cancel_propagated_from="w", blocked_on_message_id="01")
        assert mark_settled(asked, outcome, 1.0) == worker
        assert mark_settled(child, outcome, 1.0).status is WorkerStatus.KILLED


def test_each_member_names_the_cancelled_ancestor():
    """The root names the parent that cancelled it, else itself."""
    plan = Cancel(operation="op", root="r", at=1.0, by_kind="worker", by_id="p", by_name="parent")
    workers = tree("r>a")

    assert mark_asked(workers["a"], plan).cancel_propagated_from == "r"
    assert mark_asked(workers["r"], plan).cancel_propagated_from == "p"
    by_person = plan._replace(by_kind="human", by_id="ann")
    assert mark_asked(workers["r"], by_person).cancel_propagated_from == "r"


def test_a_cancel_comes_back_as_it_was_stored():
    """Also with outcomes and skipped ones."""
    plan = Cancel(
        operation="op",
        root="r",
        at=1.0,
        by_kind="human",
        by_id="ann",
        by_name="ann",
        reason="why",
        force=True,
        propagate=False,
        messages={"r": "m"},
        skipped=("a",),
        outcomes={"r": "gone"},
        settled=True,
    )

    assert parse_cancel(render_cancel(plan)) == plan


# ------------------------------------------------------------------ orphans


def test_a_child_of_a_parent_that_is_over_for_20_minutes_is_an_orphan():
    """Not earlier: the parent may be resumed. A parent on no record counts at once."""
    workers = tree("p>c")
    assert orphans(workers, {}, 10_000.0) == []
    assert orphans(workers, {"p": 10_000.0 - ORPHANED_S + 1}, 10_000.0) == []
    assert orphans(workers, {"p": 10_000.0 - ORPHANED_S}, 10_000.0) == ["c"]
    del workers["p"]
    assert orphans(workers, {}, 10_000.0) == ["c"]


def test_independent_ended_and_marked_children_are_no_orphans():
    """And one that is marked is not marked again."""
    over = {"p": 0.0}
    assert orphans(tree("p>c", independent="c"), over, 10_000.0) == []
    assert orphans(tree("p>c", ended="c"), over, 10_000.0) == []
    workers = tree("p>c")
    marked = mark_orphan(workers["c"])
    assert marked.status is WorkerStatus.INTERRUPTED
    assert marked.cancel_propagated_from == "p"
    assert orphans({**workers, "c": marked}, over, 10_000.0) == []
    assert reunited({**workers, "c": marked}, over) == []
    assert reunited({"c": marked}, {}) == []
    assert reunited({**workers, "c": marked}, {}) == ["c"]
    assert check_transition(marked.status, mark_reunited(marked).status)
    assert mark_reunited(marked) == workers["c"]
