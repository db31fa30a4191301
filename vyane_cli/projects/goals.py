"""Goals of projects: set the goal, judge its criteria, report its status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vyane_cli.errors import InvalidInputError, NotFoundError
from vyane_cli.projects import ledger
from vyane_cli.projects.goal import (
    Acceptance,
    Goal,
    GoalEvidence,
    GoalState,
    Source,
    accept,
    judge,
    new_goal,
)
from vyane_cli.projects.project import Project
from vyane_cli.projects.tasks import note
from vyane_cli.sessions.authority import is_authorised, require_person
from vyane_cli.sessions.identity import whoami
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One criterion of a goal, with its state and who judged it."""

    name: str
    state: Acceptance
    by: str | None
    at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalReport:
    """A goal as `goal show` prints it."""

    project: str
    title: str
    set_at: float
    acceptance: tuple[Criterion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalStatus:
    """The state of a goal, with the evidence."""

    project: str
    title: str | None
    state: GoalState
    evidence: tuple[GoalEvidence, ...]


def set_goal(home: Home, project: Project, title: str, names: list[str]) -> Goal:
    """Set the goal of the project. A person who keeps the title keeps the judgements made so far.

    An agent may set a goal, but all its criteria are then unjudged. Otherwise the agent could reach
    the goal by leaving out the criteria that have failed.
    """
    speaker = whoami(home)
    trusted = not speaker.in_host or is_authorised(home, speaker)
    layout = home.layout
    with home.held((LockKind.LEDGER, project.name)):
        stamp = ledger.stamp(layout.goal(project.name))
        reading = ledger.read(layout, project.name)
        if stamp is not None:
            ledger.check(reading.reading(Source.GOAL))
        before = reading.goal
        if before is not None and not trusted:
            before = before._replace(acceptance={}, accepted={})
        goal = new_goal(before, title, names, home.clock().at)
        kept = ledger.save_goal(layout, project.name, goal, stamp)
        note(
            home,
            project,
            [{"op": "goal-set", "title": title, "acceptance": list(goal.acceptance)}],
            kept.revision,
        )
    return kept


def accept_goal(home: Home, project: Project, name: str, state: str) -> Goal:
    """Judge one criterion of the goal. RefusedError for agents."""
    if state not in tuple(Acceptance):
        raise InvalidInputError("state", state, "one of " + ", ".join(Acceptance))
    speaker = whoami(home)
    require_person(home, speaker, "accept a goal")
    layout = home.layout
    with home.held((LockKind.LEDGER, project.name)):
        stamp = ledger.stamp(layout.goal(project.name))
        before = get_goal(home, project)
        at = home.clock().at
        goal = accept(before, name, Acceptance(state), speaker.name, at)
        kept = ledger.save_goal(layout, project.name, goal, stamp)
        note(home, project, [{"op": "goal-accept", "name": name, "to": state}], kept.revision)
    return kept


def get_goal(home: Home, project: Project) -> Goal:
    """Return the goal. NotFoundError when none is set, CorruptStateError for a damaged file."""
    books = ledger.read(home.layout, project.name)
    if books.goal is not None and not books.goal.empty:
        return books.goal
    if ledger.stamp(home.layout.goal(project.name)) is not None:
        ledger.check(books.reading(Source.GOAL))
    raise NotFoundError(
        "goal of project", project.name, hint="vyane goal set TITLE --accept NAME, once for each"
    )


def describe_goal(project: Project, goal: Goal) -> GoalReport:
    """Return a goal with the state of each of its criteria."""
    return GoalReport(
        project=project.name,
        title=goal.title,
        set_at=goal.set_at,
        acceptance=tuple(_criterion(goal, name) for name in goal.acceptance),
    )


def _criterion(goal: Goal, name: str) -> Criterion:
    judged: Mapping[str, Any] = goal.accepted.get(name) or {}
    return Criterion(
        name=name, state=goal.acceptance[name], by=judged.get("by"), at=judged.get("at")
    )


def goal_status(home: Home, project: Project) -> GoalStatus:
    """Return open, complete or unknown, with the evidence. Reads only; no file makes it raise."""
    books = ledger.read(home.layout, project.name)
    judgement = judge(books)
    return GoalStatus(
        project=project.name,
        title=books.goal.title if books.goal is not None else None,
        state=judgement.state,
        evidence=judgement.evidence,
    )
