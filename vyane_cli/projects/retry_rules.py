"""Rules of retries: how a worker without a report ended, and whether its task may start again.

A worker that was killed is not the fault of its task: the task is started again, a few times. A
worker that could not be started, failed, or ended without a report would do so again: a person
looks first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vyane_cli.kernel.values import NamedTuple, StrEnum


class Fate(StrEnum):
    """How a worker ended that did not report its task."""

    UNMADE = "unmade"  # the round died before the worker's launcher ran
    KILLED = "killed"  # by a signal, or with the machine
    NOT_STARTED = "not-started"
    FAILED = "failed"  # its program exited with an error status
    SILENT = "ended-without-a-report"
    STOPPED = "stopped"  # somebody cancelled the worker
    LEFT = "left"  # the worker's session ended


class Again(StrEnum):
    """Condition for starting the task again."""

    COUNTED = "counted"  # as often as the settings allow
    PERSON = "person"  # after a person has looked


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
    """The known facts about the end of a worker."""

    on_record: bool
    cancelled: bool = False
    spawned: bool = False
    """True when a round or a parent spawned the worker: a record of the launch exists."""
    launched: bool = False
    """True when the worker's launcher ran."""
    had_process: bool = False
    exit_status: int | None = None
    """Negative for a signal; None when the exit was not observed."""


def fate_of(end: End) -> Fate:
    """Return how a worker ended. Total."""
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
    """One failed start of a task."""

    worker: str
    fate: Fate
    looked_at: bool = False
    """True when the person was called because of this start, and has resolved the call."""


class Refusal(NamedTuple):
    """Reason why rounds do not start a task again: the start that decides it."""

    start: Start
    attempts: int


def ask_again(starts: Sequence[Start], limit: int) -> Refusal | None:
    """Return None if the task may be started again, else why a person has to look.

    `starts` has the oldest start first; starts up to the last one that a person has looked at do
    not count.
    """
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
