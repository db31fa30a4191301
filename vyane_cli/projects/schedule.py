"""`projects/{name}/schedules.json`: the rules of schedules A and B, their status, their timers.

Owner: the project. Writers: the `schedule` commands, and a round that pauses, under the lock of
schedules. Commit point: the rename of the one file, so that A and B change together. A crash leaves
the old or the new file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from vyane_cli.errors import CorruptStateError, VyaneError
from vyane_cli.home import local_time
from vyane_cli.projects import projects, timers
from vyane_cli.projects.project import Project
from vyane_cli.projects.recurrence import Timer, every, next_after, parse_rrule
from vyane_cli.projects.schedule_rules import (
    DEFAULT,
    NAMES,
    Installed,
    Schedules,
    ScheduleStatus,
    With,
    check_schedule,
    parse_schedules,
    recorded,
    render_schedules,
)
from vyane_cli.sessions.authority import require_person
from vyane_cli.sessions.identity import whoami
from vyane_cli.storage import document, files
from vyane_cli.storage.layout import Layout
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vyane_cli.home import Home


def load(layout: Layout, project: str) -> Schedules:
    """Return the schedules, or the default ones without a file. CorruptStateError when damaged."""
    found = document.load_as(layout.schedules(project), parse_schedules, "file of schedules")
    return DEFAULT if found is None else found


def save(layout: Layout, project: str, schedules: Schedules) -> None:
    """Save the schedules, durably."""
    document.save(layout.schedules(project), render_schedules(schedules), layout.root)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimersMade:
    """The timers that an install made, or would make."""

    project: str
    timer: With
    dry_run: bool
    entries: tuple[timers.TimerFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimersRemoved:
    """Result of a removal of timers."""

    project: str
    timer: With | None
    """Kind of the removed timers; None when the project had none."""
    removed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleReport:
    """One schedule of a project with its next time."""

    project: str
    schedule: str
    status: ScheduleStatus
    rrule: str
    timer: With | None
    """Kind of the timer; None when no timer is installed."""
    next_at: float | None
    """Unix seconds of the next round; None while the schedule is paused."""
    due_at: float | None
    """Unix seconds at which the next round is due, paused or not; None when the rule has no next
    time."""


def install(
    home: Home,
    project: Project,
    *,
    minutes: int | None,
    kind: str,
    dry_run: bool,
    install_guard: Callable[[Home], object],
) -> TimersMade:
    """Create the timers of a project, and record the environment that its rounds will have.

    The guard, which the timers run, is installed first; then the file is written, then the timers
    are created. A crash between the last two leaves a file that names timers that do not exist, and
    `doctor` reports them. When the system refuses, the file is restored to its earlier form, and
    the timers of another kind are kept.
    """
    require_person(home, whoami(home), "make timers")
    known = load(home.layout, project.name)
    if minutes is not None:
        known = known.with_rules(dict(zip(NAMES, every(minutes), strict=True)))
    chosen = timers.choose(home, kind, must=not dry_run)
    wanted = timers_of(home, project, known)
    written = tuple(timers.entries(home, chosen, wanted))
    if not dry_run:
        install_guard(home)
        files.make_directories(os.path.dirname(wanted[0].log))
        installed = Installed(chosen, recorded(home.environ), home.clock().at)
        before = _record(home, project, known._replace(installed=installed))
        old = before.installed.timer if before.installed is not None else None
        try:
            timers.make(home, chosen, wanted)
        except VyaneError:
            if old is not chosen:
                timers.unmake_what_can_be(home, chosen, wanted)
            _record(home, project, before)
            raise
        if old is not None and old is not chosen:
            timers.unmake(home, old, wanted)
    return TimersMade(project=project.name, timer=chosen, dry_run=dry_run, entries=written)


def _record(home: Home, project: Project, wanted: Schedules) -> Schedules:
    """Save these rules and timers. Return the earlier schedules. A concurrent pause is kept."""
    with home.held((LockKind.SCHEDULES, "")):
        before = load(home.layout, project.name)
        rules = {name: plan.rrule for name, plan in wanted.plans.items()}
        after = before.with_rules(rules)._replace(installed=wanted.installed)
        save(home.layout, project.name, after)
    return before


def remove(home: Home, project: Project, *, kind: str = "") -> TimersRemoved:
    """Remove the timers of a project; the schedules keep their rules and their status."""
    require_person(home, whoami(home), "remove timers")
    known = load(home.layout, project.name)
    given = kind or (known.installed.timer if known.installed is not None else "")
    if not given:
        return TimersRemoved(project=project.name, timer=None, removed=False)
    chosen = timers.choose(home, given)
    timers.unmake(home, chosen, timers_of(home, project, known))
    with home.held((LockKind.SCHEDULES, "")):
        latest = load(home.layout, project.name)
        save(home.layout, project.name, latest._replace(installed=None))
    return TimersRemoved(project=project.name, timer=chosen, removed=True)


def timers_of(home: Home, project: Project, known: Schedules) -> list[Timer]:
    """Return the timers of A and B."""
    layout = home.layout
    program = vyane_path(home)
    return [
        Timer(
            home=layout.root,
            project=project.name,
            schedule=name,
            due=parse_rrule(plan.rrule),
            command=(
                program,
                "--home",
                layout.root,
                "wake",
                "--project",
                project.name,
                "--schedule",
                name,
            ),
            log=layout.round_log,
        )
        for name, plan in known.plans.items()
    ]


def vyane_path(home: Home) -> str:
    """Return the path of this installation's `vyane`, which works without a PATH."""
    return os.path.join(os.path.dirname(home.layout.guard), "vyane")


def set_rule(home: Home, project: Project, name: str, rule: str) -> Schedules:
    """Replace the rule of one schedule. Its timer keeps the old times until the next install."""
    check_schedule(name)
    parse_rrule(rule)
    return _change(home, project, lambda known: known.with_rules({name: rule}))


def set_status(home: Home, project: str, status: ScheduleStatus) -> bool:
    """Pause or resume A and B together, in one rename. Return whether anything changed."""
    with home.held((LockKind.SCHEDULES, "")):
        known = load(home.layout, project)
        changed = known.with_status(status)
        if changed != known:
            save(home.layout, project, changed)
    return changed != known


def paused(home: Home, names: Iterable[str]) -> list[str]:
    """Return the projects whose rounds are paused: changes there wait for a resume."""
    found = []
    for name in dict.fromkeys(names):
        try:
            if name and load(home.layout, name).paused:
                found.append(name)
        except CorruptStateError:
            continue  # a round reports it
    return found


def _change(home: Home, project: Project, change: Callable[[Schedules], Schedules]) -> Schedules:
    with home.held((LockKind.SCHEDULES, "")):
        known = change(load(home.layout, project.name))
        save(home.layout, project.name, known)
    return known


def describe(home: Home, project: Project) -> list[ScheduleReport]:
    """Return the schedules of a project with their next times."""
    known = load(home.layout, project.name)
    now_s = home.clock().at
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
                next_at=due if plan.status is ScheduleStatus.ACTIVE else None,
                due_at=due,
            )
        )
    return found


def describe_all(home: Home) -> list[ScheduleReport]:
    """Return the schedules of every project."""
    return [one for project in projects.list_known(home.layout) for one in describe(home, project)]
