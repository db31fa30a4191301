"""The matrix of a round: every combination of readings has one named cell."""

from collections.abc import Iterator
from itertools import product

import pytest

from vyane_cli.projects.goal import GoalState
from vyane_cli.projects.round_rules import (
    ACTIONS,
    MATRIX,
    Action,
    Cell,
    Executing,
    Inputs,
    Lock,
    Main,
    Queue,
    Schedule,
    Sources,
    decide_round,
)

KINDS = (Schedule, Lock, Sources, Main, Queue, Executing, GoalState)
SURE = Inputs(
    schedule=Schedule.ACTIVE,
    lock=Lock.OURS,
    sources=Sources.READABLE,
    main=Main.DECLARED,
    queue=Queue.EMPTY,
    executing=Executing.NO,
    goal=GoalState.OPEN,
)


def every_combination() -> Iterator[Inputs]:
    return (Inputs(*values) for values in product(*KINDS))


def expected(seen: Inputs) -> tuple[Cell, str]:
    """The rule in words, written a second time: skip, A, C, D, B, else E."""
    if seen.schedule is Schedule.PAUSED:
        return Cell.SKIP, "paused"
    if seen.lock is Lock.HELD:
        return Cell.SKIP, "domain-locked"
    if seen.executing is Executing.YES:
        return Cell.SKIP, "executing"
    unsure = {
        "schedule-unreadable": seen.schedule is Schedule.UNKNOWN,
        "unreadable": seen.sources is Sources.UNREADABLE,
        "main-not-declared": seen.main is Main.NONE,
        "main-ended": seen.main is Main.ENDED,
        "executing-unknown": seen.executing is Executing.UNKNOWN,
    }
    for reason, true in unsure.items():
        if true:
            return Cell.E, reason
    match seen.queue, seen.goal:
        case Queue.WORK, _:
            return Cell.A, "work-and-nobody-works"
        case Queue.BLOCKED, _:
            return Cell.C, "only-blocked-is-left"
        case Queue.EMPTY, GoalState.COMPLETE:
            return Cell.D, "goal-complete"
        case Queue.EMPTY, GoalState.OPEN:
            return Cell.B, "goal-open"
        case _:
            return Cell.E, "goal-unknown"


def test_every_combination_of_readings_has_the_cell_that_the_rule_names():
    """All of them; each cell and each row is reached."""
    seen = [(one, decide_round(one)) for one in every_combination()]

    for one, verdict in seen:
        assert (verdict.cell, verdict.reason) == expected(one), one
        assert verdict.action is ACTIONS[verdict.cell]
    assert {verdict.cell for _, verdict in seen} == set(Cell)
    assert {verdict.reason for _, verdict in seen} == {row.reason for row in MATRIX}


def test_the_cells_are_asked_in_the_order_skip_a_c_d_b_e():
    order = [row.cell for row in MATRIX]

    assert list(dict.fromkeys(order)) == [Cell.SKIP, Cell.A, Cell.C, Cell.D, Cell.B, Cell.E]
    assert list(dict.fromkeys(order)) == list(ACTIONS)
    assert not MATRIX[-1].when, "the last row fits everything"


def test_only_a_starts_a_worker_and_only_c_and_d_pause():
    pausing = {cell for cell, action in ACTIONS.items() if "pause" in action}

    assert {cell for cell, action in ACTIONS.items() if action is Action.DISPATCH} == {Cell.A}
    assert pausing == {Cell.C, Cell.D}
    assert ACTIONS[Cell.E] is ACTIONS[Cell.B]


@pytest.mark.parametrize(
    "unsure",
    [
        {"sources": Sources.UNREADABLE},
        {"main": Main.NONE},
        {"main": Main.ENDED},
        {"executing": Executing.UNKNOWN},
        {"schedule": Schedule.UNKNOWN},
        {"goal": GoalState.UNKNOWN},
    ],
)
def test_what_cannot_be_told_never_pauses(unsure):
    """An empty state has an unknown goal: it looks complete to nobody."""
    verdict = decide_round(SURE._replace(**unsure))

    assert verdict.cell is Cell.E
    assert verdict.action is Action.FEED_BACK


def test_blocked_beside_pending_goes_on_and_blocked_alone_calls_the_person():
    """Work comes before the call: a blocked task does not stop the others."""
    assert decide_round(SURE._replace(queue=Queue.WORK)).cell is Cell.A
    for goal in GoalState:
        assert decide_round(SURE._replace(queue=Queue.BLOCKED, goal=goal)).cell is Cell.C


def test_a_round_by_hand_lands_where_a_scheduled_one_does():
    for one in every_combination():
        if one.schedule is Schedule.ACTIVE:
            assert decide_round(one) == decide_round(one._replace(schedule=Schedule.NONE))
