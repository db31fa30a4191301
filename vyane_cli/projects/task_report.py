"""Reports of a task's status, from the worker assigned to the task or by a person."""

from __future__ import annotations

import os
from typing import NamedTuple

from vyane_cli.errors import ConflictError, CorruptStateError, InvalidInputError
from vyane_cli.projects import claims
from vyane_cli.projects.catalog import select_project
from vyane_cli.projects.claim_rules import TaskClaim, renew
from vyane_cli.projects.claims import holder_of
from vyane_cli.projects.queue import Graph, find_task, transition
from vyane_cli.projects.task import Ledger, Task, TaskStatus, TaskUpdate, check_change
from vyane_cli.projects.tasks import change_ledger
from vyane_cli.sessions import registry
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.liveness import look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.speaker import FromKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home
    from vyane_cli.sessions.worker import Worker


class TaskReport(NamedTuple):
    """A report about a task, as it was typed."""

    task: str
    state: str
    reason: str = ""
    artifact: str = ""
    """Path of an existing file or folder; relative to `cwd`."""
    no_artifact_reason: str = ""
    project: str = ""
    """Name; if empty, the project of the working folder, else that of the worker."""
    cwd: str = ""


def report_task(home: Home, report: TaskReport) -> Task:
    """Save a report durably. Return the task after the report.

    The worker is the one that runs this command, or the one that `VYANE_WORKER` names; a person has
    no worker. Repeating a report changes nothing. ConflictError (`task_taken`) for a start of a
    task that another live worker has.
    """
    if report.state not in tuple(TaskStatus):
        raise InvalidInputError("state", report.state, "one of " + ", ".join(TaskStatus))
    change = TaskUpdate(
        TaskStatus(report.state),
        report.reason.strip(),
        report.artifact,
        report.no_artifact_reason.strip(),
    )
    check_change(change)
    change = change._replace(artifact=_artifact(report))
    project = select_project(home, report.project, report.cwd)
    worker = _worker(home)
    change = change._replace(worker=worker.id if worker is not None else "")

    def decide(value: Ledger, graph: Graph) -> Ledger:
        task = find_task(value, report.task)
        if change.status is TaskStatus.RUNNING and worker is not None:
            _check_free(home, project.name, task, worker)
        return transition(value, graph, task.id, change, home.clock().at)

    def then(before: Ledger, after: Ledger) -> None:
        if worker is not None:
            was, task = find_task(before, report.task), find_task(after, report.task)
            _settle_claim(home, project.name, was, task, worker)

    return find_task(change_ledger(home, project, decide, then), report.task)


def _artifact(report: TaskReport) -> str:
    """Return the artifact as an absolute path; InvalidInputError when the path does not exist."""
    if not report.artifact:
        return ""
    place = os.path.join(report.cwd or os.getcwd(), os.path.expanduser(report.artifact))
    place = os.path.normpath(place)
    if not os.path.exists(place):
        raise InvalidInputError(
            "artifact",
            report.artifact,
            f"there (no such path: {place})",
            hint="name a file or folder that is, or say --no-artifact-reason TEXT",
        )
    return place


def _worker(home: Home) -> Worker | None:
    """Return the worker that reports. In a child without hooks, `VYANE_WORKER` names the worker."""
    workers = registry.Registry(home.layout).workers
    speaker = whoami(home)
    if speaker.kind is FromKind.WORKER and speaker.id in workers:
        return workers[speaker.id]
    return workers.get(home.environ.get("VYANE_WORKER", ""))


def _check_free(home: Home, project: str, task: Task, worker: Worker) -> None:
    """Raise ConflictError when another live worker has the task, by report or by claim."""
    claim = _claim(home, project, task.id)
    holders = []
    if task.status is TaskStatus.RUNNING and task.worker:
        holders.append((task.worker, _liveness(home, task.worker)))
    elif claim is not None:
        holders.append((claim.worker, holder_of(home, claim)))
    for holder, liveness in holders:
        if holder != worker.id and liveness in (Liveness.BUSY, Liveness.IDLE):
            raise ConflictError(
                f"{holder} has {task.id}",
                slug="task_taken",
                hint=f"take another task, or wait until it reports: `vyane task show {task.id}`",
            )


def _liveness(home: Home, worker_id: str) -> Liveness:
    known = registry.Registry(home.layout).workers.get(worker_id)
    if known is None or known.final:
        return Liveness.EXITED
    return look(home, known).liveness


def _claim(home: Home, project: str, task: str) -> TaskClaim | None:
    try:
        return claims.load(home.layout, project, task)
    except CorruptStateError:
        return None


def _settle_claim(home: Home, project: str, was: Task, task: Task, worker: Worker) -> None:
    """Renew or end the worker's own claim: running renews it, a change to another status ends it.

    A report by anybody else does not end the claim: while the claim's holder may live, a second
    worker would be started beside it. The caller holds the ledger's lock.
    """
    claim = _claim(home, project, task.id)
    if claim is None or claim.worker != worker.id:
        return
    if task.status is TaskStatus.RUNNING:
        claims.save(home.layout, project, renew(claim, home.clock()))
    elif task.status is not was.status:
        claims.free(home.layout, project, claim)
