"""The goal of a project: set it, judge what it asks for, say whether it is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vyane_cli.errors import InvalidInputError, NotFoundError
from vyane_cli.projects import ledger
from vyane_cli.projects.books import Source
from vyane_cli.projects.goal import Acceptance, Goal, accept, new_goal
from vyane_cli.projects.judging import Evidence, GoalState, judge
from vyane_cli.projects.project import Project
from vyane_cli.projects.tasks import note
from vyane_cli.sessions.identity import is_authorised, require_person, whoami
from vyane_cli.storage.locks import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One thing that a goal asks for, and who judged it."""

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
    """Whether a goal is reached, with the evidence."""

    project: str
    title: str | None
    state: GoalState
    evidence: tuple[Evidence, ...]


def set_goal(runtime: Runtime, project: Project, title: str, names: list[str]) -> Goal:
    """Set what the project is for. Under the same title a person keeps what was judged so far.

    An agent may set a goal, and then nothing of it is judged: else it could reach the goal by
    leaving out what has failed.
    """
    speaker = whoami(runtime)
    trusted = not speaker.in_host or is_authorised(runtime, speaker)
    layout = runtime.layout
    with runtime.held((Kind.LEDGER, project.name)):
        stamp = ledger.stamp(layout.goal(project.name))
        reading = ledger.read(layout, project.name)
        if stamp is not None:
            ledger.check(reading.reading(Source.GOAL))
        before = reading.goal
        if before is not None and not trusted:
            before = before._replace(acceptance={}, accepted={})
        goal = new_goal(before, title, names, runtime.clock().at)
        kept = ledger.save_goal(layout, project.name, goal, stamp)
        note(
            runtime,
            project,
            [{"op": "goal-set", "title": title, "acceptance": list(goal.acceptance)}],
            kept.revision,
        )
    return kept


def accept_goal(runtime: Runtime, project: Project, name: str, state: str) -> Goal:
    """Judge one thing that the goal asks for. An agent may not: RefusedError."""
    if state not in tuple(Acceptance):
        raise InvalidInputError("state", state, "one of " + ", ".join(Acceptance))
    speaker = whoami(runtime)
    require_person(runtime, speaker, "accept a goal")
    layout = runtime.layout
    with runtime.held((Kind.LEDGER, project.name)):
        stamp = ledger.stamp(layout.goal(project.name))
        before = get_goal(runtime, project)
        at = runtime.clock().at
        goal = accept(before, name, Acceptance(state), speaker.name, at)
        kept = ledger.save_goal(layout, project.name, goal, stamp)
        note(runtime, project, [{"op": "goal-accept", "name": name, "to": state}], kept.revision)
    return kept


def get_goal(runtime: Runtime, project: Project) -> Goal:
    """The goal that is set. NotFoundError when none is, CorruptStateError for a damaged file."""
    books = ledger.read(runtime.layout, project.name)
    if books.goal is not None and not books.goal.empty:
        return books.goal
    if ledger.stamp(runtime.layout.goal(project.name)) is not None:
        ledger.check(books.reading(Source.GOAL))
    raise NotFoundError(
        "goal of project", project.name, hint="vyane goal set TITLE --accept NAME, once for each"
    )


def describe_goal(project: Project, goal: Goal) -> GoalReport:
    """Return a goal with what is known of each thing that it asks for."""
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


def goal_status(runtime: Runtime, project: Project) -> GoalStatus:
    """Return open, complete or unknown, with the evidence. Reads only; never fails on a file."""
    books = ledger.read(runtime.layout, project.name)
    judgement = judge(books)
    return GoalStatus(
        project=project.name,
        title=books.goal.title if books.goal is not None else None,
        state=judgement.state,
        evidence=judgement.evidence,
    )
