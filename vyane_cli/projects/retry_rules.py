"""Starts: what became of the workers that a task was started with, and whether it may be again.

A worker that was killed is no fault of its task: it is started again, a few times. One that could
not be started, failed, or ended without a report would do so again: a person looks first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vyane_cli.kernel.values import NamedTuple, StrEnum


class Fate(StrEnum):
    """How a worker ended that did not report its task."""

    UNMADE = "unmade"  # the round died before the worker's launcher ran
    KILLED = "killed"  # by a signal, or with the machine
    NOT_STARTED = "not-started"
    FAILED = "failed"  # its program said so
    SILENT = "ended-without-a-report"
    STOPPED = "stopped"  # somebody cancelled it
    LEFT = "left"  # its session ended


class Again(StrEnum):
    """Whether the task may be started again."""

    COUNTED = "counted"  # as often as the settings allow
    PERSON = "person"  # once somebody has looked


# fmt: off
AGAIN: Mapping[Fate, Again] = {
    Fate.UNMADE:      Again.COUNTED,
    Fate.KILLED:      Again.COUNTED,
    Fate.LEFT:        Again.COUNTED,
    Fate.NOT_STARTED: Again.PERSON,
    Fate.FAILED:      Again.PERSON,
    Fate.SILENT:      Again.PERSON,
    Fate.STOPPED:     Again.PERSON,
}
# fmt: on


class End(NamedTuple):
    """What is known of the end of a worker."""

    on_record: bool
    cancelled: bool = False
    spawned: bool = False
    """A round or a parent made it: there is a record of how."""
    launched: bool = False
    """Its launcher ran."""
    had_process: bool = False
    exit_status: int | None = None
    """Negative for a signal; None: nobody saw it."""


def fate_of(end: End) -> Fate:
    """How a worker ended. Total."""
    if not end.on_record:
        return Fate.UNMADE
    if end.cancelled:
        return Fate.STOPPED
    if not end.spawned:
        return Fate.LEFT
    if not end.launched and not end.had_process:
        return Fate.UNMADE
    if end.exit_status is None:
        return Fate.KILLED if end.had_process else Fate.NOT_STARTED
    if end.exit_status < 0:
        return Fate.KILLED
    return Fate.FAILED if end.exit_status else Fate.SILENT


class Start(NamedTuple):
    """One start of a task that came to nothing."""

    worker: str
    fate: Fate
    looked_at: bool = False
    """The person was called because of it, and has resolved that."""


class Refusal(NamedTuple):
    """Why a task is not started again by itself, and the start that says so."""

    start: Start
    attempts: int


def ask_again(starts: Sequence[Start], limit: int) -> Refusal | None:
    """None when the task may be started again; else why a person has to look. Oldest first."""
    after_look = 0
    for number, start in enumerate(starts):
        if start.looked_at:
            after_look = number + 1
    open_starts = starts[after_look:]
    counted = [one for one in open_starts if AGAIN[one.fate] is Again.COUNTED]
    for one in open_starts:
        if AGAIN[one.fate] is Again.PERSON:
            return Refusal(one, len(open_starts))
    if len(counted) >= limit:
        return Refusal(counted[-1], len(open_starts))
    return None
