"""Status: read-only views of each project with its next round, and of the installation."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vyane_cli.attention import needs
from vyane_cli.attention.kinds import NEEDS, NeedKind
from vyane_cli.conversations.routing import ConversationMap
from vyane_cli.delivery.view import list_workers
from vyane_cli.errors import CorruptStateError
from vyane_cli.projects import projects, schedule
from vyane_cli.projects.goal import GoalState
from vyane_cli.projects.project import Project
from vyane_cli.projects.queue import in_order
from vyane_cli.projects.readings import RoundReading
from vyane_cli.projects.round import Round, last_round, preview_round
from vyane_cli.projects.round_rules import Action, Cell
from vyane_cli.projects.schedule import ScheduleReport, describe
from vyane_cli.projects.schedule_rules import ScheduleStatus
from vyane_cli.projects.stalled import way_to_a_round
from vyane_cli.projects.task import TaskStatus
from vyane_cli.storage import journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


SHOWN = (TaskStatus.RUNNING, TaskStatus.BLOCKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTask:
    """A task that runs or is blocked."""

    id: str
    title: str
    status: TaskStatus
    worker: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRound:
    """The next round of a project: when it comes, what it would do, and why."""

    at: float | None
    """When the round comes, in Unix seconds; None if no active schedule has one."""
    paused: bool
    cell: Cell
    reason: str
    action: Action
    would: str | None
    readings: tuple[RoundReading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectStanding:
    """The state of a project."""

    project: str
    dir: str
    main: str | None
    goal: GoalState
    title: str
    left: tuple[str, ...]
    """The items that the goal still asks for."""
    tasks: Mapping[TaskStatus, int]
    shown: tuple[ShownTask, ...]
    schedules: tuple[ScheduleReport, ...]
    problem: str
    alert: str
    next: NextRound
    last: Mapping[str, Any] | None
    """The last round that held the domain, as the journal of rounds has it."""


def list_standings(home: Home) -> list[ProjectStanding]:
    """Return the state of every project; what cannot be read stands in the project's `readings`."""
    return [standing(home, project) for project in projects.list_known(home.layout)]


def standing(home: Home, project: Project) -> ProjectStanding:
    """Return the state of one project."""
    plans, paused, problem = _schedules(home, project)
    environ = home.environ
    try:
        made = preview_round(home, project, "")
    finally:
        home.environ = environ
    seen = made.seen
    tasks = seen.books.ledger.tasks if seen.books is not None and seen.books.ledger else ()
    evidence = seen.judgement.evidence if seen.judgement is not None else ()
    verdict = made.verdict
    return ProjectStanding(
        project=project.name,
        dir=project.dir,
        main=seen.main.name if seen.main is not None else None,
        goal=seen.inputs.goal,
        title=seen.books.goal.title if seen.books is not None and seen.books.goal else "",
        left=tuple(name for one in evidence for name in one.items),
        tasks={s: sum(1 for task in tasks if task.status is s) for s in TaskStatus},
        shown=tuple(
            ShownTask(
                id=task.id,
                title=task.title,
                status=task.status,
                worker=task.worker,
                reason=task.reason,
            )
            for task in sorted(tasks, key=in_order)
            if task.status in SHOWN
        ),
        schedules=plans,
        problem=problem or (made.error.message if made.error is not None else ""),
        alert=_alert(home, project, made),
        next=NextRound(
            at=min((one.next_at for one in plans if one.next_at), default=None),
            paused=paused,
            cell=verdict.cell,
            reason=verdict.reason,
            action=verdict.action,
            would=made.would or None,
            readings=seen.readings,
        ),
        last=last_round(home, project.name),
    )


def _alert(home: Home, project: Project, made: Round) -> str:
    """Return the alert of a stalled project, else nothing.

    It is stalled if nobody works, something is left to do, and no round for it comes soon.
    """
    if made.verdict.cell not in (Cell.A, Cell.B):
        return ""
    try:
        way = way_to_a_round(home, project, schedule.load(home.layout, project.name))
    except CorruptStateError:
        return ""  # the fault is reported by itself
    return f"{NEEDS[NeedKind.ALONE].text}: `{way}`" if way else ""


def _schedules(home: Home, project: Project) -> tuple[tuple[ScheduleReport, ...], bool, str]:
    try:
        found = tuple(describe(home, project))
    except CorruptStateError as error:
        return (), False, error.message
    return found, all(one.status is ScheduleStatus.PAUSED for one in found), ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The workers, pending mail, projects, and what the person is needed for."""

    home: str
    initialised: bool
    workers: list[Any]
    pending: int
    oldest_pending_at: float | None
    projects: Sequence[ProjectStanding]
    unreadable: Sequence[str]
    """The faults of projects that cannot be read."""
    need_user: Sequence[Any]
    quarantined: int


def overview(home: Home) -> Overview:
    """Return what `vyane status` shows."""
    layout = home.layout
    there = os.path.isdir(layout.root)
    workers = (
        list_workers(home, conversation_of=ConversationMap(home).conversation_of) if there else []
    )
    return Overview(
        home=layout.root,
        initialised=there,
        workers=workers,
        pending=sum(worker.pending for worker in workers),
        oldest_pending_at=min(
            (w.oldest_pending_at for w in workers if w.oldest_pending_at), default=None
        ),
        projects=list_standings(home) if os.path.isdir(layout.projects) else [],
        unreadable=[fault.message for fault in projects.survey(layout).faults] if there else [],
        need_user=needs.list_entries(layout) if there else [],
        quarantined=len(journal.list_quarantined(layout.root)) if there else 0,
    )
