"""Endings of need-user entries: pure rules that decide from facts whether a cause is gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vyane_cli.attention.kinds import NEEDS, ROUND_KINDS, EndedBy, NeedKey, _written
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.projects.task import TaskStatus
from vyane_cli.sessions.worker import FINAL, WorkerStatus

# ------------------------------------------------------------------ facts and endings


class RoundSays(NamedTuple):
    """The findings of a round, for the entries of its project."""

    project: str
    cell: str
    reason: str
    waiting: bool
    """Whether work is waiting and this round could start none of it."""


class NeedFacts(NamedTuple):
    """The facts about the cause of one entry. None: not read, or unknown."""

    status: str | None = None
    """Status of the task or worker that the key names; empty when it has no record."""
    at: float | None = None
    """The present value of the time in the key, in Unix seconds."""
    late: bool | None = None
    """Whether the task is overdue; False when it has no record."""
    main: str | None = None
    """Id of the project's main worker."""
    exited: bool | None = None
    """Whether the worker's session has exited."""
    sound: bool | None = None
    """Whether the file is readable or missing."""
    works: bool | None = None
    """Whether a round reached the channel, or the channel is no longer configured."""
    says: RoundSays | None = None


class NeedEnding(NamedTuple):
    """One way in which an entry ends: a description, and a rule over the facts."""

    doc: str
    is_over: Callable[[NeedKey, NeedFacts], bool]


def _goes_on(need: NeedKey, facts: NeedFacts) -> bool:
    if facts.status is None:
        return False
    return facts.status != TaskStatus.BLOCKED or _is_another(need, "changed_at", facts.at)


def _is_in_time(need: NeedKey, facts: NeedFacts) -> bool:
    return facts.late is not None and (not facts.late or _is_another(need, "deadline_at", facts.at))


def _is_back(need: NeedKey, facts: NeedFacts) -> bool:
    if facts.main is not None and facts.main != need.get("worker"):
        return True
    return facts.exited is False


def _can_be_reached(need: NeedKey, facts: NeedFacts) -> bool:
    return facts.status == "" or facts.status in FINAL or facts.exited is False


def _gave_a_sign(need: NeedKey, facts: NeedFacts) -> bool:
    if facts.status is None:
        return False
    return facts.status != WorkerStatus.STALE or _is_another(need, "stale_since", facts.at)


def _is_another(need: NeedKey, name: str, at: float | None) -> bool:
    """Return whether a time is known and differs from the one in the key."""
    return at is not None and need.get(name) != _written(name, at)


def _landed_elsewhere(need: NeedKey, facts: NeedFacts) -> bool:
    return facts.says is not None and ROUND_KINDS.get(facts.says.reason) is not need.kind


# fmt: off
ENDINGS: Mapping[EndedBy, NeedEnding] = {
    EndedBy.PERSON:            NeedEnding(
        "only you",
        lambda need, facts: False),
    EndedBy.TASK_GOES_ON:      NeedEnding(
        "the task is not blocked any more, or became so another time",
        _goes_on),
    EndedBy.TASK_IN_TIME:      NeedEnding(
        "the task is done, gone, or has another deadline",
        _is_in_time),
    EndedBy.TASK_DONE:         NeedEnding(
        "the task is done or gone",
        lambda need, facts: facts.status in ("", TaskStatus.DONE)),
    EndedBy.WORK_CAN_START:    NeedEnding(
        "a round starts something, or finds no such work",
        lambda need, facts: facts.says is not None and not facts.says.waiting),
    EndedBy.OTHER_ROUND:       NeedEnding(
        "a round comes to another result",
        _landed_elsewhere),
    EndedBy.ROUND_STARTS:      NeedEnding(
        "a round starts a worker",
        lambda need, facts: facts.says is not None and facts.says.cell == "A"),
    EndedBy.SCHEDULES_CHANGED: NeedEnding(
        "the schedules of the project change",
        lambda need, facts: _is_another(need, "schedules_at", facts.at)),
    EndedBy.MAIN_IS_BACK:      NeedEnding(
        "it runs again, or the project has another main worker",
        _is_back),
    EndedBy.FILE_IS_SOUND:     NeedEnding(
        "the file can be read, or is gone",
        lambda need, facts: facts.sound is True),
    EndedBy.CHANNEL_WORKS:     NeedEnding(
        "a round shows sessions there, or the channel is not set up any more",
        lambda need, facts: facts.works is True),
    EndedBy.SESSION_IS_BACK:   NeedEnding(
        "the session runs again, or its worker has ended",
        _can_be_reached),
    EndedBy.PARENT_IS_BACK:    NeedEnding(
        "the parent is back, or the child has ended",
        lambda need, facts: facts.status not in (None, WorkerStatus.INTERRUPTED)),
    EndedBy.SIGN_OF_LIFE:      NeedEnding(
        "the worker gives a sign, or has ended",
        _gave_a_sign),
}
# fmt: on
"""Ending → its rule. Total: every ending has a row. A fact that was not read ends no entry."""


def is_over(need: NeedKey, facts: NeedFacts) -> bool:
    """Decide whether the cause of an entry is gone."""
    return ENDINGS[NEEDS[need.kind].ended_by].is_over(need, facts)
