"""The books of a project: ledger, graph and goal, each with how it could be read.

A value that could not be read is None, never a default: whoever decides sees the difference
between a ledger that says "nothing to do" and one that says nothing.
"""

from __future__ import annotations

from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.projects.goal import Goal
from vyane_cli.projects.queue import Graph
from vyane_cli.projects.task import Ledger


class Readability(StrEnum):
    """How a file of people's could be read."""

    READABLE = "readable"
    EMPTY = "empty"  # whole, and it says nothing
    MISSING = "missing"
    DAMAGED = "damaged"  # no JSON, another form, or against a rule of the ledger
    NEWER = "newer"  # of a later version of vyane
    UNREADABLE = "unreadable"  # the file system refuses


READ = frozenset({Readability.READABLE, Readability.EMPTY})


class Source(StrEnum):
    """The three files that speak of a goal."""

    TASKS = "tasks"
    GRAPH = "taskgraph"
    GOAL = "goal"


class Reading(NamedTuple):
    """How one file could be read."""

    source: Source
    path: str
    state: Readability
    detail: str = ""
    """What is wrong, in words; empty when nothing is."""

    @property
    def read(self) -> bool:
        """Whether its value is known, be it an empty one."""
        return self.state in READ


class Books(NamedTuple):
    """What a decision about a project rests on."""

    project: str
    readings: tuple[Reading, ...]
    """Of tasks, graph and goal, in this order."""
    ledger: Ledger | None = None
    graph: Graph | None = None
    goal: Goal | None = None

    def reading(self, source: Source) -> Reading:
        """How the file of a source could be read."""
        return next(reading for reading in self.readings if reading.source is source)

    @property
    def read(self) -> bool:
        """Whether each of the three could be read."""
        return all(reading.read for reading in self.readings)
