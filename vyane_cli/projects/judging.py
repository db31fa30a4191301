"""Judging a goal: open, complete or unknown, over the union of three sources.

It is open when any source says that something is left; complete needs positive evidence from each;
everything else is unknown. A file that is missing, damaged or empty says nothing, and so completes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.projects.goal import Acceptance
from vyane_cli.projects.task import TaskStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.projects.books import Books, Reading


class GoalState(StrEnum):
    """Whether the goal is reached, as far as the files say."""

    OPEN = "open"
    COMPLETE = "complete"
    UNKNOWN = "unknown"


class Says(StrEnum):
    """What one source says."""

    OPEN = "open"
    CLOSED = "closed"
    NOTHING = "nothing"


class Evidence(NamedTuple):
    """What one source says, where it stands, and why."""

    source: str
    path: str
    says: Says
    detail: str
    items: tuple[str, ...] = ()
    """What is left: ids of tasks and nodes, names of acceptance."""


class Judgement(NamedTuple):
    """The state of a goal with its evidence."""

    state: GoalState
    evidence: tuple[Evidence, ...]


def judge(books: Books) -> Judgement:
    """The union of the three sources. Total: it never raises."""
    tasks, graph, goal = books.readings
    evidence = (_by_tasks(books, tasks), _by_graph(books, graph), _by_goal(books, goal))
    said = {one.says for one in evidence}
    if Says.OPEN in said:
        return Judgement(GoalState.OPEN, evidence)
    if Says.NOTHING in said:
        return Judgement(GoalState.UNKNOWN, evidence)
    return Judgement(GoalState.COMPLETE, evidence)


def _by_tasks(books: Books, reading: Reading) -> Evidence:
    if books.ledger is None:
        return _unread(reading)
    if not books.ledger.tasks:
        return _evidence(reading, Says.NOTHING, "the ledger has no task")
    left = [t.id for t in books.ledger.tasks if t.status is not TaskStatus.DONE]
    total = len(books.ledger.tasks)
    return _left(reading, left, total, "tasks")


def _by_graph(books: Books, reading: Reading) -> Evidence:
    if books.graph is None:
        return _unread(reading)
    ledger = books.ledger
    nodes = [n for n in books.graph.nodes if ledger is None or ledger.get(n.id) is None]
    if not nodes:
        return _evidence(reading, Says.CLOSED, "no node beside the tasks")
    return _left(reading, [n.id for n in nodes if not n.done], len(nodes), "nodes")


def _by_goal(books: Books, reading: Reading) -> Evidence:
    goal = books.goal
    if goal is None:
        return _unread(reading)
    if goal.empty:
        return _evidence(reading, Says.NOTHING, "no goal with acceptance is set")
    left = [name for name, state in goal.acceptance.items() if state is not Acceptance.PASS]
    return _left(reading, left, len(goal.acceptance), "acceptances", "passed")


def _unread(reading: Reading) -> Evidence:
    return _evidence(reading, Says.NOTHING, reading.detail or str(reading.state))


def _left(
    reading: Reading, left: Sequence[str], total: int, noun: str, word: str = "done"
) -> Evidence:
    says = Says.OPEN if left else Says.CLOSED
    return _evidence(reading, says, f"{total - len(left)} of {total} {noun} {word}", tuple(left))


def _evidence(
    reading: Reading, says: Says, detail: str, items: tuple[str, ...] = ()
) -> Evidence:  # fmt: skip
    return Evidence(str(reading.source), reading.path, says, detail, items)
