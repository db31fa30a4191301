"""The goal: the union of three sources, in three values."""

import itertools

import pytest

from vyane_cli.errors import InvalidInputError, NotFoundError
from vyane_cli.projects.goal import (
    Acceptance,
    Books,
    FileReading,
    Goal,
    GoalState,
    Readability,
    Says,
    Source,
    accept,
    judge,
    new_goal,
    parse_goal,
    render_goal,
)
from vyane_cli.projects.queue import Graph, GraphNode
from vyane_cli.projects.task import Ledger, Task, TaskStatus

CLOSED = {
    Source.TASKS: Ledger((Task("T1", "x", status=TaskStatus.DONE),)),
    Source.GRAPH: Graph((GraphNode("a", done=True),)),
    Source.GOAL: Goal("ship", {"tests": Acceptance.PASS}),
}
OPEN = {
    Source.TASKS: Ledger((Task("T1", "x", status=TaskStatus.BLOCKED, reason="y"),)),
    Source.GRAPH: Graph((GraphNode("a"),)),
    Source.GOAL: Goal("ship", {"tests": Acceptance.UNKNOWN}),
}
EMPTY = {Source.TASKS: Ledger(), Source.GRAPH: Graph(), Source.GOAL: Goal()}
UNREAD = dict.fromkeys(Source)
KINDS = {"closed": CLOSED, "open": OPEN, "empty": EMPTY, "unread": UNREAD}


def books(tasks, graph, goal):
    readings = tuple(
        FileReading(source, f"/{source}.json", Readability.DAMAGED if v is None else
                Readability.READABLE, "not JSON" if v is None else "")
        for source, v in zip(Source, (tasks, graph, goal), strict=True)
    )  # fmt: skip
    return Books(project="p", readings=readings, ledger=tasks, graph=graph, goal=goal)


@pytest.mark.parametrize("kinds", list(itertools.product(KINDS, repeat=3)))
def test_open_if_any_says_so_complete_if_each_shows_it_else_unknown(kinds):
    """An empty graph is a plan without steps beside the tasks; all else that is empty says
    nothing."""
    values = [KINDS[kind][source] for kind, source in zip(kinds, Source, strict=True)]
    tasks, graph, goal = kinds

    if "open" in kinds:
        wanted = GoalState.OPEN
    elif tasks == goal == "closed" and graph in ("closed", "empty"):
        wanted = GoalState.COMPLETE
    else:
        wanted = GoalState.UNKNOWN
    judgement = judge(books(*values))
    assert judgement.state is wanted
    assert [one.path for one in judgement.evidence] == [f"/{source}.json" for source in Source]
    assert all(one.detail for one in judgement.evidence)


def test_the_evidence_names_what_is_left():
    judgement = judge(books(OPEN[Source.TASKS], OPEN[Source.GRAPH], OPEN[Source.GOAL]))

    assert [one.items for one in judgement.evidence] == [("T1",), ("a",), ("tests",)]
    assert {one.says for one in judgement.evidence} == {Says.OPEN}


def test_of_a_node_that_is_a_task_the_ledger_speaks():
    graph = Graph((GraphNode("T1", after=()),))

    assert judge(books(CLOSED[Source.TASKS], graph, CLOSED[Source.GOAL])).state == "complete"


@pytest.mark.parametrize("state", [Acceptance.FAIL, Acceptance.UNKNOWN])
def test_what_is_not_passed_is_open(state):
    goal = Goal("ship", {"tests": Acceptance.PASS, "docs": state})

    judgement = judge(books(CLOSED[Source.TASKS], Graph(), goal))
    assert judgement.state is GoalState.OPEN
    assert judgement.evidence[2].items == ("docs",)


def test_a_goal_asks_for_something_and_keeps_what_was_judged_of_the_same_title():
    with pytest.raises(InvalidInputError):
        new_goal(None, "ship", [], 1.0)
    with pytest.raises(InvalidInputError):
        new_goal(None, " ", ["tests"], 1.0)
    with pytest.raises(InvalidInputError):
        new_goal(None, "ship", ["_tests"], 1.0)
    goal = accept(new_goal(None, "ship", ["tests", "docs"], 1.0), "tests", Acceptance.PASS, "ann",
                  2.0)  # fmt: skip
    assert goal.accepted == {"tests": {"by": "ann", "at": 2.0}}

    longer = new_goal(goal, "ship", ["tests", "docs", "demo"], 3.0)
    assert longer.acceptance == {"tests": "pass", "docs": "unknown", "demo": "unknown"}
    other = new_goal(goal, "ship more", ["tests"], 3.0)
    assert other.acceptance == {"tests": "unknown"}
    assert other.accepted == {}


def test_an_acceptance_that_is_not_there_names_the_nearest():
    with pytest.raises(NotFoundError) as caught:
        accept(Goal("ship", {"tests": Acceptance.UNKNOWN}), "test", Acceptance.PASS, "ann", 1.0)

    assert "tests" in caught.value.hint


def test_a_goal_comes_back_as_it_was_with_its_remarks():
    data = {"title": "ship", "acceptance_state": {"_note": "ask ann", "tests": "fail"}, "x": [1]}

    goal = parse_goal(data)
    assert goal.acceptance == {"tests": "fail"}
    rendered = render_goal(goal)
    assert rendered["acceptance_state"] == {"_note": "ask ann", "tests": "fail"}
    assert rendered["x"] == [1]
    assert parse_goal(rendered) == goal


@pytest.mark.parametrize(
    "data, says",
    [
        ({"title": 1}, "title: 1 is not a text"),
        ({"acceptance_state": ["tests"]}, "acceptance_state: ['tests'] is not an object"),
        ({"acceptance_state": {"tests": "passed"}}, "acceptance_state.tests: 'passed' is not one"),
        ({"acceptance_state": {"tests": True}}, "acceptance_state.tests: True is not one"),
        ({"acceptance_state": {"tests": {}}}, "acceptance_state.tests: {} is not one"),
        ({"accepted": 3}, "accepted: 3 is not an object"),
        ({"set_at": "now"}, "set_at: 'now' is not a number"),
    ],
)
def test_what_is_wrong_in_an_edited_goal_is_named_by_its_place(data, says):
    with pytest.raises(ValueError, match=r".+") as caught:
        parse_goal(data)

    assert says in str(caught.value)
