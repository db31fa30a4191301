"""Rules of a round: the matrix that maps the readings to a cell, a reason and an action.

The rows are tried in order; the first match decides. The last row matches everything, so that a
round with unclear readings starts no worker and pauses no schedule.
"""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.projects.goal import GoalState


class Schedule(StrEnum):
    """Status of the schedule that runs the round."""

    ACTIVE = "active"
    PAUSED = "paused"
    NONE = "none"  # run by hand
    UNKNOWN = "unknown"  # its file cannot be read


class Lock(StrEnum):
    """State of the project's domain lock."""

    OURS = "ours"
    HELD = "held"  # by another round


class Sources(StrEnum):
    """Readability of the files that decide."""

    READABLE = "readable"
    UNREADABLE = "unreadable"


class Main(StrEnum):
    """State of the main worker, for whom the project is kept moving."""

    DECLARED = "declared"
    NONE = "none"
    ENDED = "ended"  # it was declared, and has ended or is missing


class Queue(StrEnum):
    """State of the ledger."""

    WORK = "work"  # a task is pending or running
    BLOCKED = "blocked"  # neither; a task is blocked, or somebody waits for the person
    EMPTY = "empty"


class Executing(StrEnum):
    """Activity of the other workers of the project."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Cell(StrEnum):
    """Cell of the matrix in which a round lands."""

    SKIP = "skip"
    A = "A"
    B = "B"
    C = "C"
    D = "D"
    E = "E"


class Action(StrEnum):
    """Action of a round."""

    NOTHING = "nothing"
    DISPATCH = "dispatch-one"
    CALL_AND_PAUSE = "call-and-pause"
    PAUSE = "pause"
    FEED_BACK = "feed-back"


ACTIONS: Mapping[Cell, Action] = {
    Cell.SKIP: Action.NOTHING,
    Cell.A: Action.DISPATCH,
    Cell.C: Action.CALL_AND_PAUSE,
    Cell.D: Action.PAUSE,
    Cell.B: Action.FEED_BACK,
    Cell.E: Action.FEED_BACK,
}
"""Action of each cell, in the order in which the cells are tried."""


class Inputs(NamedTuple):
    """The readings that decide. A reading that was not taken counts as unknown."""

    schedule: Schedule
    lock: Lock = Lock.OURS
    sources: Sources = Sources.UNREADABLE
    main: Main = Main.NONE
    queue: Queue = Queue.EMPTY
    executing: Executing = Executing.UNKNOWN
    goal: GoalState = GoalState.UNKNOWN


class MatrixRow(NamedTuple):
    """One row of the matrix.

    It matches when each reading that it names has one of the listed values. An empty `when` matches
    everything.
    """

    cell: Cell
    reason: str
    when: Mapping[str, tuple[StrEnum, ...]]
    doc: str


_SURE: Mapping[str, tuple[StrEnum, ...]] = {
    "schedule": (Schedule.ACTIVE, Schedule.NONE),
    "sources": (Sources.READABLE,),
    "main": (Main.DECLARED,),
    "executing": (Executing.NO,),
}
"""Readings that must be certain before a round starts a worker or pauses a schedule."""

# fmt: off
MATRIX: tuple[MatrixRow, ...] = (
    MatrixRow(Cell.SKIP, "paused",            {"schedule": (Schedule.PAUSED,)},
        "The schedule is paused; nothing is locked, nothing else is read."),
    MatrixRow(Cell.SKIP, "domain-locked",     {"lock": (Lock.HELD,)},
        "Another round is at work; nothing else is read."),
    MatrixRow(Cell.SKIP, "executing",         {"executing": (Executing.YES,)},
        "A worker of the project works."),
    MatrixRow(Cell.A, "work-and-nobody-works", {**_SURE, "queue": (Queue.WORK,)},
        "A task is pending or running, and nobody works: one worker is started."),
    MatrixRow(Cell.C, "only-blocked-is-left", {**_SURE, "queue": (Queue.BLOCKED,)},
        "Nothing can go on without the person: they are called, and A and B are paused."),
    MatrixRow(Cell.D, "goal-complete",
        {**_SURE, "queue": (Queue.EMPTY,), "goal": (GoalState.COMPLETE,)},
        "The goal is met, by positive evidence: A and B are paused."),
    MatrixRow(Cell.B, "goal-open",
        {**_SURE, "queue": (Queue.EMPTY,), "goal": (GoalState.OPEN,)},
        "The goal is open and nothing is queued: the gap goes to the main worker."),
    MatrixRow(Cell.E, "schedule-unreadable",  {"schedule": (Schedule.UNKNOWN,)},
        "Whether the schedule is paused cannot be told."),
    MatrixRow(Cell.E, "unreadable",           {"sources": (Sources.UNREADABLE,)},
        "A file that decides is damaged, or of a later version."),
    MatrixRow(Cell.E, "main-not-declared",    {"main": (Main.NONE,)},
        "The project has no main worker."),
    MatrixRow(Cell.E, "main-ended",           {"main": (Main.ENDED,)},
        "The main worker of the project has ended."),
    MatrixRow(Cell.E, "executing-unknown",    {"executing": (Executing.UNKNOWN,)},
        "Whether a worker of the project works cannot be told."),
    MatrixRow(Cell.E, "goal-unknown",         {},
        "Nothing is queued, and whether the goal is met cannot be told."),
)
# fmt: on


class RoundVerdict(NamedTuple):
    """The cell of a round, the row that decided, and the action."""

    cell: Cell
    reason: str
    action: Action


def decide_round(inputs: Inputs) -> RoundVerdict:
    """Return the verdict of the first row that matches. Total: the last row matches everything."""
    row = next(row for row in MATRIX if _fits(row, inputs))
    return RoundVerdict(row.cell, row.reason, ACTIONS[row.cell])


def _fits(row: MatrixRow, inputs: Inputs) -> bool:
    return all(getattr(inputs, name) in allowed for name, allowed in row.when.items())
