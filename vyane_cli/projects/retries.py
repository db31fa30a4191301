"""Retries: how the starts of a task ended, and whether a round starts the task again.

No state is stored for retries: the freed claims count the starts, the workers' records say how each
worker ended, and the person's resolved entries say that somebody has looked.
"""

from __future__ import annotations

from vyane_cli.attention import needs
from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of, key_of
from vyane_cli.children import launches
from vyane_cli.errors import CorruptStateError
from vyane_cli.projects import claims
from vyane_cli.projects.goal import Books
from vyane_cli.projects.project import Project
from vyane_cli.projects.retry_rules import End, Refusal, Start, ask_again, fate_of
from vyane_cli.projects.task import Task, TaskStatus
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import Worker, WorkerStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


def why_not_again(home: Home, project: Project, task: Task) -> Refusal | None:
    """Return why a round may not start a task again after its failed starts; None if it may."""
    return ask_again(starts_of(home, project, task), int(home.config["wake.attempts"]))


def starts_of(home: Home, project: Project, task: Task) -> tuple[Start, ...]:
    """Return the failed starts of a task since it last became pending, oldest first."""
    found = [
        claim
        for claim in claims.stale(home.layout, project.name, task.id)
        if claim.generation == task.generation
    ]
    workers = registry.Registry(home.layout).workers
    return tuple(
        Start(
            claim.worker,
            fate_of(end_of(home, workers.get(claim.worker))),
            needs.was_resolved(
                home.layout,
                key_of(NeedKind.START, project=project.name, task=task.id, worker=claim.worker),
            ),
        )
        for claim in sorted(found, key=lambda claim: claim.number)
    )


def end_of(home: Home, worker: Worker | None) -> End:
    """Return the known facts about the end of a worker that was started for a task."""
    if worker is None:
        return End(False)
    try:
        launch = launches.load(home.layout, worker.id)
    except CorruptStateError:
        launch = None
    if launch is None:
        return End(True, worker.status is WorkerStatus.KILLED)
    session = registry.read_current(home.layout, worker.id)
    return End(
        on_record=True,
        cancelled=worker.status is WorkerStatus.KILLED,
        spawned=True,
        launched=launch.launcher is not None,
        had_process=launch.process is not None or bool(session),
        exit_status=launch.exit_status,
    )


def stuck_tasks(
    home: Home, project: Project, books: Books, held: frozenset[str]
) -> dict[str, Refusal]:
    """Return the tasks that rounds do not start again, each with the reason. Changes nothing."""
    assert books.ledger is not None
    tried = {claim.task for claim in claims.all_stale(home.layout, project.name).values()}
    refusals = {
        task.id: why_not_again(home, project, task)
        for task in books.ledger.tasks
        if task.status in (TaskStatus.PENDING, TaskStatus.RUNNING) and task.id in tried - held
    }
    return {name: refusal for name, refusal in refusals.items() if refusal is not None}


def call_for_stuck(home: Home, project: Project, books: Books, held: frozenset[str]) -> list[str]:
    """Call the person once for each task that rounds do not start again. Return the tasks' ids."""
    assert books.ledger is not None
    stuck = stuck_tasks(home, project, books, held)
    for task in books.ledger.tasks:
        refusal = stuck.get(task.id)
        if refusal is None:
            continue
        call = call_of(
            NeedKind.START,
            "again",
            project=project.name,
            task=task.id,
            worker=refusal.start.worker,
            title=task.title,
            attempts=refusal.attempts,
            fate=refusal.start.fate,
        )
        call_person(home, call)
    return list(stuck)
