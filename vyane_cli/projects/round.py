"""A round of a project: lock the domain, do the upkeep, read, decide by the matrix, act once.

A round never edits the ledger and never advances the queue of notices. After a kill, the earlier
steps are done and the later ones are not: doing a step twice changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of, is_of
from vyane_cli.delivery.ring import nudge_all
from vyane_cli.errors import CorruptStateError, VyaneError
from vyane_cli.projects import schedule
from vyane_cli.projects.claims import held_tasks
from vyane_cli.projects.dispatch import NOTHING, Dispatched, call_for_waiting, dispatch, preview
from vyane_cli.projects.gaps import FedBack, call_for_blocked, call_for_late, end_gaps, feed_back
from vyane_cli.projects.need_user import list_needs
from vyane_cli.projects.notice_rules import digest_of
from vyane_cli.projects.project import Project
from vyane_cli.projects.readings import (
    RoundReading,
    RoundView,
    read_project,
    read_schedule,
    with_lock,
)
from vyane_cli.projects.retries import call_for_stuck
from vyane_cli.projects.round_rules import Action, Cell, Lock, RoundVerdict, Schedule, decide_round
from vyane_cli.projects.schedule import set_status, vyane_path
from vyane_cli.projects.schedule_rules import ScheduleStatus, check_schedule, completed
from vyane_cli.projects.stalled import call_for_each
from vyane_cli.storage import journal, locks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


LOOK_S = 0.05
"""Longest wait for the domain lock, in seconds: a dry run or `vyane status` holds it for a
moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingDone:
    """Result of a round without an action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """Result of a round that paused A and B."""

    paused: bool
    """False when A and B were paused already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledAndPaused:
    """Result of a round that called the person and paused A and B."""

    called_for: tuple[str, ...]
    """Ids of blocked tasks, and of the entries in which somebody asks for the person."""
    paused: bool


Done = NothingDone | Dispatched | CalledAndPaused | Paused | FedBack
"""Result of the action of a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFailure:
    """The error that kept a round from its action."""

    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """A round as `wake` prints it."""

    round: str
    project: str
    schedule: str | None
    cell: Cell
    reason: str
    action: Action
    readings: tuple[RoundReading, ...]
    dry_run: bool
    maintenance: dict[str, Any] | None
    done: Done | None
    would: str | None
    error: RoundFailure | None


class Round(NamedTuple):
    """One round: its verdict, the readings behind it, and its results."""

    id: str
    project: str
    schedule: str | None
    verdict: RoundVerdict
    seen: RoundView
    dry_run: bool = False
    maintenance: dict[str, Any] | None = None
    done: Done | None = None
    would: str = ""
    """For a dry run that would start a worker: the task, or what would happen if none can start."""
    error: VyaneError | None = None
    """The error that kept the round from its action: it sets the exit code."""

    def report(self) -> RoundReport:
        """Return the round as `wake` prints it."""
        error = self.error
        return RoundReport(
            round=self.id,
            project=self.project,
            schedule=self.schedule,
            cell=self.verdict.cell,
            reason=self.verdict.reason,
            action=self.verdict.action,
            readings=self.seen.readings,
            dry_run=self.dry_run,
            maintenance=self.maintenance,
            done=self.done,
            would=self.would or None,
            error=RoundFailure(code=error.slug, message=error.message, hint=error.hint)
            if error is not None
            else None,
        )


class Upkeep(NamedTuple):
    """The steps of a round around its decision, implemented in `upkeep.rounds`."""

    keep_house: Callable[[Home, Project], dict[str, Any]]
    """Put mail, workers and claims in order before the project is read. Returns the work done, by
    part."""
    end_calls: Callable[[Home, Project, Round], None]
    """Close the calls to the person whose cause is gone, according to the findings of the round."""


def preview_round(home: Home, project: Project, schedule: str) -> Round:
    """Return the round that would run now: it reads and decides, and changes nothing."""
    return wake(home, project, schedule, None)


def wake(home: Home, project: Project, schedule: str, upkeep: Upkeep | None) -> Round:
    """Run one round of a project. Without `upkeep` it is a dry run, which changes nothing.

    `schedule`: A or B, or empty for a round by hand, which no pause stops.
    """
    if schedule:
        check_schedule(schedule)
    dry_run = upkeep is None
    clock = home.clock()
    made = Round(
        id=home.new_id(clock.now_ms),
        project=project.name,
        schedule=schedule or None,
        verdict=RoundVerdict(Cell.E, "", Action.NOTHING),
        seen=read_schedule(home, project.name, schedule),
        dry_run=dry_run,
    )
    if made.seen.inputs.schedule is Schedule.PAUSED:
        return made._replace(verdict=decide_round(made.seen.inputs))
    path = home.layout.domain(project.name)
    if dry_run:
        held = Lock.HELD if _is_locked(path) else Lock.OURS
        made = made._replace(seen=with_lock(made.seen, path, held))
        if held is Lock.HELD:
            return made._replace(verdict=decide_round(made.seen.inputs))
        return _run_locked(home, project, made, upkeep)
    lock = locks.take_soon(path, LOOK_S)
    if lock is None:
        made = made._replace(seen=with_lock(made.seen, path, Lock.HELD))
        return made._replace(verdict=decide_round(made.seen.inputs))
    try:
        ours = made._replace(seen=with_lock(made.seen, path, Lock.OURS))
        made = _run_locked(home, project, ours, upkeep)
    finally:
        locks.give_back(lock)
    return made


def _is_locked(path: str) -> bool:
    """Return whether another round holds the domain lock. No file is created.

    The check takes the lock for a moment; a round that starts in that moment waits for it.
    """
    lock = locks.take_now(path) if os.path.exists(path) else path
    if lock is None:
        return True
    if lock is not path:
        locks.give_back(lock)
    return False


def _run_locked(home: Home, project: Project, made: Round, upkeep: Upkeep | None) -> Round:
    """Run the part of a round that needs the lock on the project's domain."""
    _complete_environment(home, project)
    if upkeep is not None:
        made = made._replace(maintenance=upkeep.keep_house(home, project))
    seen = read_project(home, project, made.seen)
    made = made._replace(seen=seen, verdict=decide_round(seen.inputs))
    if upkeep is None:
        if made.verdict.action is Action.DISPATCH and seen.books is not None:
            try:
                return made._replace(would=preview(home, project, seen.books))
            except VyaneError as error:
                return made._replace(error=error)
        return made
    try:
        made = made._replace(done=_act(home, project, made))
        if seen.books is not None and seen.books.ledger is not None:
            call_for_late(home, project, seen.books.ledger)
        if made.verdict.cell is not Cell.SKIP:
            upkeep.end_calls(home, project, made)
    except VyaneError as error:
        made = made._replace(error=error)
        _call_about(home, project, error)
    _note(home, project, made)
    call_for_each(home)
    nudge_all(home)
    return made


def _complete_environment(home: Home, project: Project) -> None:
    """Add the environment of the installing shell, as recorded: a timer provides almost none."""
    try:
        installed = schedule.load(home.layout, project.name).installed
    except CorruptStateError:
        installed = None
    kept = installed.environment if installed is not None else {}
    home.environ = completed(home.environ, kept, os.path.dirname(vyane_path(home)))


def _act(home: Home, project: Project, made: Round) -> Done:
    """Run the action of the cell. It starts one worker at most; cell E never pauses."""
    seen = made.seen
    if made.verdict.action not in (Action.NOTHING, Action.FEED_BACK):
        end_gaps(home, project)
    match made.verdict.action:
        case Action.NOTHING:
            return NothingDone()
        case Action.DISPATCH:
            assert seen.main is not None
            assert seen.books is not None
            came = dispatch(home, project, seen.main, made.id)
            held = held_tasks(home, project.name)
            stuck = call_for_stuck(home, project, seen.books, held)
            waiting = came.outcome == NOTHING and not held and not stuck
            if waiting:
                call_for_waiting(home, project, seen.books)
            return replace(came, stuck=tuple(stuck), called=waiting)
        case Action.CALL_AND_PAUSE:
            assert seen.books is not None
            called = call_for_blocked(home, project, seen.books)
            open_ones = list_needs(home, project.name)
            called += [one["id"] for one in open_ones if is_of(NeedKind.ASK, one["key"])]
            paused = set_status(home, project.name, _PAUSED)
            return CalledAndPaused(called_for=tuple(called), paused=paused)
        case Action.PAUSE:
            return Paused(paused=set_status(home, project.name, _PAUSED))
        case Action.FEED_BACK:
            return feed_back(home, project, made.verdict, seen)


_PAUSED = ScheduleStatus.PAUSED


def _call_about(home: Home, project: Project, error: VyaneError) -> None:
    """Call the person about an error that no round can resolve, once for each cause."""
    call = call_of(
        NeedKind.ROUND,
        project=project.name,
        slug=error.slug,
        digest=digest_of(error.message),
        message=error.message,
        hint=error.hint,
    )
    try:
        call_person(home, call)
    except VyaneError:
        return  # the exit code reports the error


def _note(home: Home, project: Project, made: Round) -> None:
    """Append one line for the round, for people who ask later. No decision uses it: not flushed."""
    clock = home.clock()
    record = {
        "round": made.id,
        "at": clock.at,
        "boot": clock.boot,
        "awake_ms": clock.awake_ms,
        "schedule": made.schedule,
        "cell": str(made.verdict.cell),
        "reason": made.verdict.reason,
        "action": str(made.verdict.action),
        "done": asdict(made.done) if made.done is not None else None,
        "error": made.error.slug if made.error is not None else None,
    }
    try:
        writer = journal.open_writer(home.layout.rounds(project.name), home.layout.root)
        try:
            writer.append([record], durable=False)
        finally:
            writer.close()
    except VyaneError:
        return


def last_round(home: Home, project: str) -> dict[str, Any] | None:
    """Return the line of the last round that held the domain lock, or None."""
    last = journal.read_last(home.layout.rounds(project))
    return dict(last.record) if last is not None and last.record is not None else None
