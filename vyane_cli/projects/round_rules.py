"""A round: what was read → one cell of the matrix, its reason, its action.

The rows are asked in order; the first that fits decides. The last fits everything, so that a
round that cannot tell starts nothing and pauses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.projects.goal import GoalState


class Schedule(StrEnum):
    """What stands behind the round."""

    ACTIVE = "active"
    PAUSED = "paused"
    NONE = "none"  # run by hand
    UNKNOWN = "unknown"  # its file cannot be read


class Lock(StrEnum):
    """The project's domain lock."""

    OURS = "ours"
    HELD = "held"  # another round is at work


class Sources(StrEnum):
    """Whether every file that decides could be read."""

    READABLE = "readable"
    UNREADABLE = "unreadable"


class Main(StrEnum):
    """The worker for whom the project is kept moving."""

    DECLARED = "declared"
    NONE = "none"
    ENDED = "ended"  # it was declared, and is there no more


class Queue(StrEnum):
    """What the ledger holds."""

    WORK = "work"  # a task is pending or running
    BLOCKED = "blocked"  # none is; a task is blocked, or somebody waits for the person
    EMPTY = "empty"


class Executing(StrEnum):
    """Whether another worker of the project works."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Cell(StrEnum):
    """Where a round lands."""

    SKIP = "skip"
    A = "A"
    B = "B"
    C = "C"
    D = "D"
    E = "E"


class Action(StrEnum):
    """What a round does."""

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
"""In the order in which the cells are asked."""


class Inputs(NamedTuple):
    """The readings that decide. What was not read is not known."""

    schedule: Schedule
    lock: Lock = Lock.OURS
    sources: Sources = Sources.UNREADABLE
    main: Main = Main.NONE
    queue: Queue = Queue.EMPTY
    executing: Executing = Executing.UNKNOWN
    goal: GoalState = GoalState.UNKNOWN


class MatrixRow(NamedTuple):
    """One row: it fits when each reading that it names is one of these. Empty: any."""

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
"""What must be known before a round starts or pauses anything."""

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
    """Where a round lands, by which row, and what it does."""

    cell: Cell
    reason: str
    action: Action


def decide_round(inputs: Inputs) -> RoundVerdict:
    """The first row that fits. Total: the last one fits everything."""
    row = next(row for row in MATRIX if _fits(row, inputs))
    return RoundVerdict(row.cell, row.reason, ACTIONS[row.cell])


def _fits(row: MatrixRow, inputs: Inputs) -> bool:
    return all(getattr(inputs, name) in allowed for name, allowed in row.when.items())
