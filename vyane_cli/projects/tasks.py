"""Tasks of a project: add, edit, list and show them. A change replaces one file, under the lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from typing import Any, NamedTuple

from vyane_cli.errors import InvalidInputError, VyaneError
from vyane_cli.kernel.durations import parse_duration_s
from vyane_cli.kernel.values import OMIT, InJson
from vyane_cli.projects import ledger
from vyane_cli.projects.claims import held_tasks
from vyane_cli.projects.goal import Books
from vyane_cli.projects.project import Project
from vyane_cli.projects.queue import (
    Graph,
    add,
    check_links,
    critical,
    dependencies,
    find_task,
    in_order,
    open_links,
    put,
    startable,
    waiting_for,
)
from vyane_cli.projects.retries import stuck_tasks
from vyane_cli.projects.retry_rules import Fate
from vyane_cli.projects.task import Ledger, Task, TaskStatus, check_texts, render_task
from vyane_cli.sessions import registry
from vyane_cli.sessions.identity import whoami
from vyane_cli.storage import journal
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


class Edit(NamedTuple):
    """The changes to a task; a field of None stays unchanged."""

    title: str | None = None
    text: str | None = None
    line: str | None = None
    after: tuple[str, ...] | None = None
    deadline_at: float | None = None
    no_deadline: bool = False
    order: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChange:
    """One change of a task, as the audit has it."""

    op: str
    """`add`, `edit` or `report`."""
    before: str | None = field(default=None, metadata={InJson: InJson(omit=True, key="from")})
    """The status before the change; None when the task was added."""
    after: str | None = field(default=None, metadata={InJson: InJson(omit=True, key="to")})
    set: Mapping[str, Any] | None = field(default=None, metadata=OMIT)
    """The changed fields in their stored form; None when the task was added."""
    by: str
    at: float
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A task with its present situation."""

    task: Task = field(metadata={InJson: InJson(spread=True, form=render_task)})
    project: str
    worker_name: str | None
    waits_for: tuple[str, ...]
    startable: bool
    critical: bool
    claimed: bool
    stuck: Fate | None
    """Reason why rounds do not start the task again; None when they do."""
    overdue: bool
    history: tuple[TaskChange, ...] | None = field(default=None, metadata=OMIT)
    """None in lists of tasks."""


def add_task(home: Home, project: Project, task: Task) -> Task:
    """Add a pending task, durably. Return the task with its new id.

    NotFoundError for a link to a missing name, InvalidInputError for a text that is not allowed.
    """
    made: list[Task] = []

    def decide(value: Ledger, graph: Graph) -> Ledger:
        linked = task._replace(after=exact_names(task.after, value, graph))
        after, one = add(value, linked, home.clock().at)
        made.append(one)
        return after

    change_ledger(home, project, decide)
    return made[-1]


def edit_task(home: Home, project: Project, task_id: str, edit: Edit) -> Task:
    """Change the fields of a task. Its status changes only by a report."""

    def decide(value: Ledger, graph: Graph) -> Ledger:
        task = find_task(value, task_id)
        given = {
            "title": edit.title,
            "text": edit.text,
            "line": edit.line,
            "after": exact_names(edit.after, value, graph) if edit.after is not None else None,
            "deadline_at": edit.deadline_at,
            "order": edit.order,
        }
        changed: dict[str, Any] = {k: one for k, one in given.items() if one is not None}
        if edit.no_deadline:
            changed["deadline_at"] = None
        return put(value, check_texts(task._replace(**changed)))

    return find_task(change_ledger(home, project, decide), task_id)


def exact_names(names: Iterable[str], value: Ledger, graph: Graph) -> tuple[str, ...]:
    """Return the names as the files spell them: people type `t1` for T1."""
    known = {name.casefold(): name for name in dependencies(links_of(value), graph)}
    return tuple(dict.fromkeys(known.get(name.casefold(), name) for name in names))


def links_of(value: Ledger) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Return the id and the links of each task."""
    return ((task.id, task.after) for task in value.tasks)


def change_ledger(
    home: Home,
    project: Project,
    decide: Callable[[Ledger, Graph], Ledger],
    then: Callable[[Ledger, Ledger], None] | None = None,
) -> Ledger:
    """Change the ledger under the project's lock: decide, check the links, save, note, call `then`.

    `then` gets the ledger before and after the change. A decision that changes nothing writes
    nothing. CorruptStateError when the ledger or the graph cannot be read, ConflictError (`edited`)
    when an editor saved the file in the meantime.
    """
    layout = home.layout
    with home.held((LockKind.LEDGER, project.name)):
        stamp = ledger.stamp(layout.tasks(project.name))
        books = ledger.load(layout, project.name)
        before, graph = both(books)
        after = decide(before, graph)
        if after != before:
            check_links(dependencies(links_of(after), graph))
            after = ledger.save_ledger(layout, project.name, after, stamp)
            note(home, project, differences(before, after), after.revision)
        if then is not None:
            then(before, after)
    return after


def both(books: Books) -> tuple[Ledger, Graph]:
    """Return the ledger and the graph of books that `ledger.load` has checked."""
    assert books.ledger is not None
    assert books.graph is not None
    return books.ledger, books.graph


def differences(before: Ledger, after: Ledger) -> list[dict[str, Any]]:
    """Return one stored record for each changed task: for the audit."""
    known = {task.id: task for task in before.tasks}
    found: list[dict[str, Any]] = []
    for task in after.tasks:
        old = known.get(task.id)
        if old == task:
            continue
        record: dict[str, Any] = {"op": "add", "task": task.id, "to": str(task.status)}
        if old is not None:
            was = render_task(old)
            fields = {key: now for key, now in render_task(task).items() if was.get(key) != now}
            reported = old.status is not task.status or "worker" in fields
            record["op"] = "report" if reported else "edit"
            record["from"] = str(old.status)
            record["set"] = fields
        found.append(record)
    return found


def note(home: Home, project: Project, records: Iterable[dict[str, Any]], revision: int) -> None:
    """Append to the audit a change that is already on disk. Errors are ignored."""
    by, at = whoami(home), home.clock().at
    lines = [
        {**record, "by": by.name, "by_id": by.id, "at": at, "revision": revision}
        for record in records
    ]
    try:
        ledger.note(home.layout, project.name, lines)
    except VyaneError:
        return  # the missing revision in the audit shows the error


# ------------------------------------------------------------------ what is shown


def list_tasks(home: Home, project: Project, *, status: str = "", line: str = "") -> list[TaskRow]:
    """Return the tasks: running ones first, then those that may start next, done ones last."""
    books = ledger.load(home.layout, project.name)
    rows = describe_tasks(home, project, books)
    return [
        row
        for row in rows
        if (not status or row.task.status == status) and (not line or row.task.line == line)
    ]


def describe_tasks(home: Home, project: Project, books: Books) -> list[TaskRow]:
    """Return every task with its present situation."""
    value, graph = both(books)
    now = home.clock().at
    held = held_tasks(home, project.name)
    ready = [task.id for task in startable(value, graph, held)]
    on_path = critical(open_links(value, graph))
    workers = registry.Registry(home.layout).workers
    stuck = stuck_tasks(home, project, books, held)
    ranks = {TaskStatus.RUNNING: 0, TaskStatus.PENDING: 1, TaskStatus.BLOCKED: 2}

    def place(task: Task) -> tuple[object, ...]:
        first = ready.index(task.id) if task.id in ready else len(ready)
        return ranks.get(task.status, 3), first, *in_order(task)

    return [
        TaskRow(
            task=task,
            project=project.name,
            worker_name=workers[task.worker].name if task.worker in workers else None,
            waits_for=tuple(waiting_for(value, graph, task)),
            startable=task.id in ready,
            critical=task.id in on_path,
            claimed=task.id in held,
            stuck=stuck[task.id].start.fate if task.id in stuck else None,
            overdue=task.overdue(now),
        )
        for task in sorted(value.tasks, key=place)
    ]


def show_task(home: Home, project: Project, task_id: str) -> TaskRow:
    """Return one task with its history."""
    books = ledger.load(home.layout, project.name)
    task = find_task(both(books)[0], task_id)
    (row,) = [one for one in describe_tasks(home, project, books) if one.task.id == task.id]
    history = tuple(
        _change(line.record)
        for line in journal.read(home.layout.tasks_events(project.name))
        if line.record is not None and line.record.get("task") == task.id
    )
    return replace(row, history=history)


def _change(record: Mapping[str, Any]) -> TaskChange:
    return TaskChange(
        op=record["op"],
        before=record.get("from"),
        after=record.get("to"),
        set=record.get("set"),
        by=record["by"],
        at=record["at"],
        revision=record["revision"],
    )


EXPECTED = "a duration such as 2h or 3d, a day such as 2031-05-04, or 2031-05-04T18:00"


def parse_deadline(now: float, text: str) -> float:
    """Return the deadline in Unix seconds. A day alone means its last second.

    InvalidInputError for a text that is not understood, or a time that has passed.
    """
    text = text.strip()
    if text[4:5] != "-":
        try:
            return now + parse_duration_s("deadline", text)
        except InvalidInputError as error:
            if "more than zero" in error.message:
                raise
            raise InvalidInputError("deadline", text, EXPECTED) from None
    try:
        moment = datetime.fromisoformat(text)
        if len(text) == len("2031-05-04"):
            moment = datetime.combine(moment.date(), time(23, 59, 59))
        at = moment.astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise InvalidInputError("deadline", text, EXPECTED) from None
    if at <= now:
        raise InvalidInputError("deadline", text, "still to come")
    return at
