"""Changes of a ledger: one more task, another text, a report. Each gives the next value.

`transition` is the only way of a status; its table is `core.tasks.TRANSITIONS`.
"""

from __future__ import annotations

from vyane_cli.errors import ConflictError, NotFoundError, RefusedError
from vyane_cli.kernel.text import nearest_names
from vyane_cli.projects.queue import Graph
from vyane_cli.projects.queue_2 import line_holder, waiting_for
from vyane_cli.projects.task import (
    TRANSITIONS,
    Change,
    Ledger,
    Task,
    TaskStatus,
    check_change,
    check_texts,
)


def find_task(ledger: Ledger, text: str) -> Task:
    """The task of this id, whatever its case; NotFoundError names the nearest."""
    wanted = text.strip().casefold()
    for task in ledger.tasks:
        if task.id.casefold() == wanted:
            return task
    names = [task.id for task in ledger.tasks]
    hint = "" if nearest_names(text, names) else "`vyane task list` shows them"
    raise NotFoundError("task", text, nearest_names(text, names), hint)


def add(ledger: Ledger, task: Task, at: float) -> tuple[Ledger, Task]:
    """The ledger with one more pending task, and that task with its id.

    Its links are not looked at here: `taskgraph.check_links` does, with the graph.
    """
    number = ledger.next
    made = check_texts(
        task._replace(
            id=f"T{number}",
            status=TaskStatus.PENDING,
            generation=0,
            created_at=at,
            changed_at=at,
            order=task.order or number,
        )
    )
    return ledger._replace(tasks=(*ledger.tasks, made), next=number + 1), made


def put(ledger: Ledger, task: Task) -> Ledger:
    """The ledger with this task in the place of the one of its id."""
    return ledger._replace(tasks=tuple(task if t.id == task.id else t for t in ledger.tasks))


def transition(ledger: Ledger, graph: Graph, task_id: str, change: Change, at: float) -> Ledger:
    """The ledger after a report. Reporting the status that it has only brings the details up.

    InvalidInputError for blocked without a reason and for done without an artifact or a reason;
    ConflictError for a way that the table does not have; RefusedError (`not_ready`, `line_busy`)
    for a start that must wait.
    """
    task = find_task(ledger, task_id)
    check_change(change)
    before, after = task.status, change.status
    if before is not after and after not in TRANSITIONS[before]:
        hint = "report it pending first: it is opened again" if before is TaskStatus.DONE else ""
        raise ConflictError(f"{task.id} is {before} and does not become {after}", hint=hint)
    if after is TaskStatus.RUNNING and before is not after:
        check_start(ledger, graph, task)
    done = after is TaskStatus.DONE
    moved = before is not after
    return put(
        ledger,
        task._replace(
            status=after,
            reason=change.reason if after is TaskStatus.BLOCKED else "",
            artifact=change.artifact if done else "",
            no_artifact_reason=change.no_artifact_reason if done else "",
            worker=change.worker or task.worker,
            generation=task.generation + (moved and after is TaskStatus.PENDING),
            changed_at=at if moved else task.changed_at,
            started_at=at
            if after is TaskStatus.RUNNING and not task.started_at
            else task.started_at,
            ended_at=(at if moved else task.ended_at) if done else None,
        ),
    )


def check_start(ledger: Ledger, graph: Graph, task: Task) -> None:
    """RefusedError when it must wait: for what it comes after, or for its line."""
    waits = waiting_for(ledger, graph, task)
    if waits:
        raise RefusedError(
            f"{task.id} comes after {', '.join(waits)}, not done yet",
            slug="not_ready",
            hint="`vyane taskgraph` shows what comes first",
        )
    runs = line_holder(ledger, task)
    if runs is not None:
        raise RefusedError(
            f"{runs.id} of line {task.line!r} is running, and a line runs one at a time",
            slug="line_busy",
            hint=f"wait for it, or `vyane task report {runs.id} --state pending`",
        )
