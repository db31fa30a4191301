"""Schedule: when rounds run, their timers, and whether they are paused."""

from __future__ import annotations

import os
from dataclasses import dataclass

from vyane_cli.errors import CorruptStateError, VyaneError
from vyane_cli.home import local_time
from vyane_cli.projects import projects, schedule, timers
from vyane_cli.projects.project import Project
from vyane_cli.projects.recurrence import every, next_after, parse_rrule
from vyane_cli.projects.schedule_rules import (
    NAMES,
    Installed,
    Schedules,
    Status,
    With,
    check_schedule,
    recorded,
)
from vyane_cli.projects.timers_2 import Timer
from vyane_cli.sessions.identity import require_person, whoami
from vyane_cli.setup.guard import install_guard
from vyane_cli.storage import files
from vyane_cli.storage.locks import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vyane_cli.home import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class TimersMade:
    """The timers that an install made, or would make."""

    project: str
    timer: With
    dry_run: bool
    entries: tuple[timers.Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimersRemoved:
    """What a removal of timers did."""

    project: str
    timer: With | None
    """Who fired them; None when the project had none."""
    removed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleReport:
    """One schedule of a project with its next time."""

    project: str
    schedule: str
    status: Status
    rrule: str
    timer: With | None
    """Who fires it; None for nobody."""
    next_at: float | None
    """When its next round comes; None while it is paused."""
    due_at: float | None
    """When its next round would come, paused or not; None when its times never come."""


def install(
    runtime: Runtime, project: Project, *, minutes: int | None, kind: str, dry_run: bool
) -> TimersMade:
    """Make the timers of a project, and record the environment that its rounds will have.

    The file first, then the timers: a crash between the two leaves a file that says more than
    there is, and `doctor` names it. When the system refuses, the file is as it was before, and so
    are the timers of another kind.
    """
    require_person(runtime, whoami(runtime), "make timers")
    known = schedule.load(runtime.layout, project.name)
    if minutes is not None:
        known = known.with_rules(dict(zip(NAMES, every(minutes), strict=True)))
    chosen = timers.choose(runtime, kind, must=not dry_run)
    wanted = timers_of(runtime, project, known)
    written = tuple(timers.entries(runtime, chosen, wanted))
    if not dry_run:
        install_guard(runtime)
        files.make_directories(os.path.dirname(wanted[0].log))
        installed = Installed(chosen, recorded(runtime.environ), runtime.clock().at)
        before = _record(runtime, project, known._replace(installed=installed))
        old = before.installed.timer if before.installed is not None else None
        try:
            timers.make(runtime, chosen, wanted)
        except VyaneError:
            if old is not chosen:
                timers.unmake_what_can_be(runtime, chosen, wanted)
            _record(runtime, project, before)
            raise
        if old is not None and old is not chosen:
            timers.unmake(runtime, old, wanted)
    return TimersMade(project=project.name, timer=chosen, dry_run=dry_run, entries=written)


def _record(runtime: Runtime, project: Project, wanted: Schedules) -> Schedules:
    """Keep these times and these timers; what was kept before. A pause made meanwhile stays."""
    with runtime.held((Kind.SCHEDULES, "")):
        before = schedule.load(runtime.layout, project.name)
        rules = {name: plan.rrule for name, plan in wanted.plans.items()}
        after = before.with_rules(rules)._replace(installed=wanted.installed)
        schedule.save(runtime.layout, project.name, after)
    return before


def remove(runtime: Runtime, project: Project, *, kind: str = "") -> TimersRemoved:
    """Take the timers of a project away; the schedules keep their rules and their status."""
    require_person(runtime, whoami(runtime), "remove timers")
    known = schedule.load(runtime.layout, project.name)
    given = kind or (known.installed.timer if known.installed is not None else "")
    if not given:
        return TimersRemoved(project=project.name, timer=None, removed=False)
    chosen = timers.choose(runtime, given)
    timers.unmake(runtime, chosen, timers_of(runtime, project, known))
    with runtime.held((Kind.SCHEDULES, "")):
        latest = schedule.load(runtime.layout, project.name)
        schedule.save(runtime.layout, project.name, latest._replace(installed=None))
    return TimersRemoved(project=project.name, timer=chosen, removed=True)


def timers_of(runtime: Runtime, project: Project, known: Schedules) -> list[Timer]:
    """The timers of A and B."""
    layout = runtime.layout
    program = vyane_path(runtime)
    return [
        Timer(
            layout.root,
            project.name,
            name,
            parse_rrule(plan.rrule),
            (program, "--home", layout.root, "wake", "--project", project.name, "--schedule", name),
            layout.round_log,
        )
        for name, plan in known.plans.items()
    ]


def vyane_path(runtime: Runtime) -> str:
    """The `vyane` of this installation, by a path that needs no PATH."""
    return os.path.join(os.path.dirname(runtime.layout.guard), "vyane")


def set_rule(runtime: Runtime, project: Project, name: str, rule: str) -> Schedules:
    """Another time for one schedule. Its timer is made anew by the next install."""
    check_schedule(name)
    parse_rrule(rule)
    return _change(runtime, project, lambda known: known.with_rules({name: rule}))


def set_status(runtime: Runtime, project: str, status: Status) -> bool:
    """Pause or resume A and B together; True when that changed anything. One rename, or nothing."""
    with runtime.held((Kind.SCHEDULES, "")):
        known = schedule.load(runtime.layout, project)
        changed = known.with_status(status)
        if changed != known:
            schedule.save(runtime.layout, project, changed)
    return changed != known


def paused(runtime: Runtime, names: Iterable[str]) -> list[str]:
    """Those of these projects whose rounds are paused: what changes there waits for a resume."""
    found = []
    for name in dict.fromkeys(names):
        try:
            if name and schedule.load(runtime.layout, name).paused:
                found.append(name)
        except CorruptStateError:
            continue  # a round says it
    return found


def _change(
    runtime: Runtime, project: Project, change: Callable[[Schedules], Schedules]
) -> Schedules:
    with runtime.held((Kind.SCHEDULES, "")):
        known = change(schedule.load(runtime.layout, project.name))
        schedule.save(runtime.layout, project.name, known)
    return known


def describe(runtime: Runtime, project: Project) -> list[ScheduleReport]:
    """Return the schedules of a project with their next times."""
    known = schedule.load(runtime.layout, project.name)
    now_s = runtime.clock().at
    found = []
    for name, plan in known.plans.items():
        due = next_after(parse_rrule(plan.rrule), now_s, local_time)
        found.append(
            ScheduleReport(
                project=project.name,
                schedule=name,
                status=plan.status,
                rrule=plan.rrule,
                timer=known.installed.timer if known.installed is not None else None,
                next_at=due if plan.status is Status.ACTIVE else None,
                due_at=due,
            )
        )
    return found


def describe_all(runtime: Runtime) -> list[ScheduleReport]:
    """Return the schedules of every project."""
    return [
        one for project in projects.listing(runtime.layout) for one in describe(runtime, project)
    ]
