"""The goal of a project, and the evidence that decides whether it is reached.

`Goal` and its stored form, `goal.json`; `Books`, which hold all files of a project, each with its
readability; `judge`, which derives the state of the goal from tasks, graph and goal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vyane_cli.errors import InvalidInputError, NotFoundError
from vyane_cli.kernel.text import nearest_names
from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.projects.queue import Graph
from vyane_cli.projects.task import Ledger, TaskStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


TITLE_MAX = 200
NAME_MAX = 120


class Acceptance(StrEnum):
    """Judgement of one criterion of a goal."""

    UNKNOWN = "unknown"  # not judged yet: counts as not passed
    PASS = "pass"
    FAIL = "fail"


class Goal(NamedTuple):
    """The purpose of a project, and the criteria that must pass before it is reached."""

    title: str = ""
    acceptance: Mapping[str, Acceptance] = {}
    accepted: Mapping[str, Any] = {}
    """Criterion → who judged it, and when."""
    set_at: float = 0.0
    revision: int = 0
    unknown: Mapping[str, Any] = {}

    @property
    def empty(self) -> bool:
        """Return whether the goal has no title or no criterion, so that it cannot be judged."""
        return not self.title.strip() or not self.acceptance


def new_goal(before: Goal | None, title: str, names: Sequence[str], at: float) -> Goal:
    """Return a goal with every criterion unjudged. InvalidInputError when it has no criterion.

    With an unchanged title, the criteria that remain keep their judgement.
    """
    if not title.strip() or len(title) > TITLE_MAX or not title.isprintable():
        raise InvalidInputError("title", title, f"one line of 1 to {TITLE_MAX} characters")
    wanted = list(dict.fromkeys(name.strip() for name in names))
    if not wanted:
        raise InvalidInputError(
            "accept",
            "",
            "given: a goal that nothing can show to be reached is never complete",
            missing=True,
            hint="--accept NAME, once for each thing that must hold",
        )
    for name in wanted:
        check_name(name)
    kept = before if before is not None and before.title == title else Goal()
    return Goal(
        title=title,
        acceptance={name: kept.acceptance.get(name, Acceptance.UNKNOWN) for name in wanted},
        accepted={name: kept.accepted[name] for name in wanted if name in kept.accepted},
        set_at=at,
        revision=before.revision if before is not None else 0,
        unknown=before.unknown if before is not None else {},
    )


def check_name(name: str) -> str:
    """Check the name of a criterion. In the file, a name that begins with `_` is a remark."""
    if not name or len(name) > NAME_MAX or not name.isprintable() or name.startswith("_"):
        raise InvalidInputError(
            "accept", name, f"a name of 1 to {NAME_MAX} characters that does not begin with _"
        )
    return name


def accept(goal: Goal, name: str, state: Acceptance, by: str, at: float) -> Goal:
    """Return the goal with one criterion judged. NotFoundError names the nearest criterion."""
    if name not in goal.acceptance:
        near = nearest_names(name, goal.acceptance)
        raise NotFoundError("acceptance", name, near, "" if near else "`vyane goal show`")
    return goal._replace(
        acceptance={**goal.acceptance, name: state},
        accepted={**goal.accepted, name: {"by": by, "at": at}},
    )


# ------------------------------------------------------------------ the stored form

_KEYS = ("title", "acceptance_state", "accepted", "set_at", "revision", "v")


def parse_goal(data: Mapping[str, Any]) -> Goal:
    """Return the goal of `goal.json`, which people may edit. ValueError names the faulty key."""
    title = data.get("title", "")
    if not isinstance(title, str):
        raise ValueError(f"title: {title!r} is not a text")
    raw = data.get("acceptance_state", {})
    if not isinstance(raw, dict):
        raise ValueError(f'acceptance_state: {raw!r} is not an object such as {{"tests": "pass"}}')
    acceptance = {}
    for name, state in raw.items():
        if name.startswith("_"):
            continue
        if state not in tuple(Acceptance):
            raise ValueError(
                f"acceptance_state.{name}: {state!r} is not one of {', '.join(Acceptance)}"
            )
        acceptance[name] = Acceptance(state)
    accepted, set_at, revision = (
        data.get("accepted", {}),
        data.get("set_at", 0),
        data.get("revision", 0),
    )
    if not isinstance(accepted, dict) or not all(isinstance(v, dict) for v in accepted.values()):
        raise ValueError(f'accepted: {accepted!r} is not an object such as {{"tests": {{}}}}')
    for key, value in (("set_at", set_at), ("revision", revision)):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{key}: {value!r} is not a number")
    rest = {key: value for key, value in data.items() if key not in _KEYS}
    remarks = {name: value for name, value in raw.items() if name.startswith("_")}
    if remarks:
        rest["acceptance_state"] = remarks
    return Goal(
        title=title,
        acceptance=acceptance,
        accepted=accepted,
        set_at=float(set_at),
        revision=int(revision),
        unknown=rest,
    )


def render_goal(goal: Goal) -> dict[str, Any]:
    """Return the stored form of a goal."""
    rest = dict(goal.unknown)
    remarks = rest.pop("acceptance_state", {})
    states = {name: str(state) for name, state in goal.acceptance.items()}
    return {
        **rest,
        "revision": goal.revision,
        "title": goal.title,
        "set_at": goal.set_at,
        "acceptance_state": {**remarks, **states},
        "accepted": dict(goal.accepted),
    }


class Readability(StrEnum):
    """Result of reading a file that people may edit."""

    READABLE = "readable"
    EMPTY = "empty"  # valid, without content
    MISSING = "missing"
    DAMAGED = "damaged"  # not JSON, another form, or against a rule of the ledger
    NEWER = "newer"  # written by a later version of vyane
    UNREADABLE = "unreadable"  # refused by the file system


READ = frozenset({Readability.READABLE, Readability.EMPTY})


class Source(StrEnum):
    """The three files that are evidence about a goal."""

    TASKS = "tasks"
    GRAPH = "taskgraph"
    GOAL = "goal"


class FileReading(NamedTuple):
    """The readability of one file."""

    source: Source
    path: str
    state: Readability
    detail: str = ""
    """Description of the fault; empty without a fault."""

    @property
    def read(self) -> bool:
        """Return whether the value of the file is known, even if it is empty."""
        return self.state in READ


class Books(NamedTuple):
    """The three files of a project, as read: the basis of a decision about the project."""

    project: str
    readings: tuple[FileReading, ...]
    """One reading each for tasks, graph and goal, in this order."""
    ledger: Ledger | None = None
    graph: Graph | None = None
    goal: Goal | None = None

    def reading(self, source: Source) -> FileReading:
        """Return the reading of the file of a source."""
        return next(reading for reading in self.readings if reading.source is source)

    @property
    def read(self) -> bool:
        """Return whether all three files could be read."""
        return all(reading.read for reading in self.readings)


class GoalState(StrEnum):
    """State of a goal, as far as the files show it."""

    OPEN = "open"
    COMPLETE = "complete"
    UNKNOWN = "unknown"


class Says(StrEnum):
    """Statement of one source about the goal."""

    OPEN = "open"
    CLOSED = "closed"
    NOTHING = "nothing"


class GoalEvidence(NamedTuple):
    """The statement of one source, with its file and the reason."""

    source: str
    path: str
    says: Says
    detail: str
    items: tuple[str, ...] = ()
    """Unfinished items: ids of tasks and nodes, names of criteria."""


class Judgement(NamedTuple):
    """The state of a goal with its evidence."""

    state: GoalState
    evidence: tuple[GoalEvidence, ...]


def judge(books: Books) -> Judgement:
    """Return the state of the goal, from all three sources together. Total: it never raises.

    One open source makes the goal open; else one silent source makes it unknown.
    """
    tasks, graph, goal = books.readings
    evidence = (_by_tasks(books, tasks), _by_graph(books, graph), _by_goal(books, goal))
    said = {one.says for one in evidence}
    if Says.OPEN in said:
        return Judgement(GoalState.OPEN, evidence)
    if Says.NOTHING in said:
        return Judgement(GoalState.UNKNOWN, evidence)
    return Judgement(GoalState.COMPLETE, evidence)


def _by_tasks(books: Books, reading: FileReading) -> GoalEvidence:
    if books.ledger is None:
        return _unread(reading)
    if not books.ledger.tasks:
        return _evidence(reading, Says.NOTHING, "the ledger has no task")
    left = [t.id for t in books.ledger.tasks if t.status is not TaskStatus.DONE]
    total = len(books.ledger.tasks)
    return _left(reading, left, total, "tasks")


def _by_graph(books: Books, reading: FileReading) -> GoalEvidence:
    if books.graph is None:
        return _unread(reading)
    ledger = books.ledger
    nodes = [n for n in books.graph.nodes if ledger is None or ledger.get(n.id) is None]
    if not nodes:
        return _evidence(reading, Says.CLOSED, "no node beside the tasks")
    return _left(reading, [n.id for n in nodes if not n.done], len(nodes), "nodes")


def _by_goal(books: Books, reading: FileReading) -> GoalEvidence:
    goal = books.goal
    if goal is None:
        return _unread(reading)
    if goal.empty:
        return _evidence(reading, Says.NOTHING, "no goal with acceptance is set")
    left = [name for name, state in goal.acceptance.items() if state is not Acceptance.PASS]
    return _left(reading, left, len(goal.acceptance), "acceptances", "passed")


def _unread(reading: FileReading) -> GoalEvidence:
    return _evidence(reading, Says.NOTHING, reading.detail or str(reading.state))


def _left(
    reading: FileReading, left: Sequence[str], total: int, noun: str, word: str = "done"
) -> GoalEvidence:
    says = Says.OPEN if left else Says.CLOSED
    return _evidence(reading, says, f"{total - len(left)} of {total} {noun} {word}", tuple(left))


def _evidence(
    reading: FileReading, says: Says, detail: str, items: tuple[str, ...] = ()
) -> GoalEvidence:  # fmt: skip
    return GoalEvidence(
        source=str(reading.source), path=reading.path, says=says, detail=detail, items=items
    )
