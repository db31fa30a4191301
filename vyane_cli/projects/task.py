"""A task of a project's ledger: its values, its transitions, and its stored form, `tasks.json`.

Other modules use these values: `queue` changes the ledger, orders tasks and graph nodes by their
links, and finds the tasks that may start; `ledger` loads and saves all files of a project, each
with its readability; `claims` keep two rounds from starting one task. A round changes no task: it
takes a claim, and the worker reports.
"""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.kernel.values import NamedTuple, StrEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


TITLE_MAX = 200
TEXT_MAX = 48 * 1024
REASON_MAX = 2_000
LINE_MAX = 40


class TaskStatus(StrEnum):
    """Status of a task."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    BLOCKED = "blocked"


_S = TaskStatus
# fmt: off
TRANSITIONS: Mapping[TaskStatus, frozenset[TaskStatus]] = {
    _S.PENDING: frozenset({_S.RUNNING, _S.DONE, _S.BLOCKED}),
    _S.RUNNING: frozenset({_S.PENDING, _S.DONE, _S.BLOCKED}),
    _S.BLOCKED: frozenset({_S.PENDING, _S.RUNNING, _S.DONE}),
    _S.DONE:    frozenset({_S.PENDING}),  # opened again: it has to be started again
}
# fmt: on


class Task(NamedTuple):
    """One item of the ledger."""

    id: str
    title: str
    text: str = ""
    """Instructions for the worker beside the title."""
    line: str = ""
    """Name of a line: its tasks run one at a time. A task without a line does not wait for
    others."""
    status: TaskStatus = TaskStatus.PENDING
    order: int = 0
    """Lower comes first, then the number of the id."""
    after: tuple[str, ...] = ()
    """Tasks and nodes of the graph that must be done before this task starts."""
    deadline_at: float | None = None
    reason: str = ""
    """Reason why the task is blocked; empty otherwise."""
    artifact: str = ""
    """Path of the result of a done task."""
    no_artifact_reason: str = ""
    """Reason why a done task has no artifact."""
    worker: str = ""
    """Id of the worker that reported last."""
    created_at: float = 0.0
    generation: int = 0
    """How often the task became pending again. Starts of earlier generations do not count."""
    changed_at: float = 0.0
    """Unix seconds of the last change of the status."""
    started_at: float | None = None
    """Unix seconds of the first start."""
    ended_at: float | None = None
    unknown: Mapping[str, Any] = {}
    """Fields of a later version, kept unchanged."""

    def overdue(self, now: float) -> bool:
        """Return whether the deadline has passed and the task is not done."""
        late = self.deadline_at is not None and self.deadline_at <= now
        return late and self.status is not TaskStatus.DONE


class Ledger(NamedTuple):
    """All tasks of a project, in the order of the file."""

    tasks: tuple[Task, ...] = ()
    revision: int = 0
    next: int = 1
    """Number of the next id: numbers are never used twice."""
    unknown: Mapping[str, Any] = {}

    def get(self, task_id: str) -> Task | None:
        """Return the task of this id, or None."""
        return next((task for task in self.tasks if task.id == task_id), None)


class TaskUpdate(NamedTuple):
    """A report about a task."""

    status: TaskStatus
    reason: str = ""
    artifact: str = ""
    no_artifact_reason: str = ""
    worker: str = ""


def check_texts(task: Task) -> Task:
    """Check the texts of the task and return the task. InvalidInputError for a text not allowed."""
    if not task.title.strip() or len(task.title) > TITLE_MAX or not task.title.isprintable():
        raise InvalidInputError("title", task.title, f"one line of 1 to {TITLE_MAX} characters")
    if len(task.text) > TEXT_MAX or "\0" in task.text:
        raise InvalidInputError(
            "text",
            "…",
            f"a text of at most {TEXT_MAX // 1024} KiB without NUL",
            hint="put it into a file, and name the file",
        )
    if task.line and not (is_safe_id(task.line) and len(task.line) <= LINE_MAX):
        raise InvalidInputError("line", task.line, "a short name: A-Z, a-z, 0-9, _ and -")
    return task


def check_change(change: TaskUpdate) -> None:
    """Raise InvalidInputError if a status lacks its details, or has those of another status."""
    status = change.status
    if status is TaskStatus.BLOCKED and not change.reason.strip():
        raise InvalidInputError(
            "reason",
            change.reason,
            "given: who or what blocks it?",
            missing=True,
            hint="--reason TEXT",
        )
    if status is not TaskStatus.BLOCKED and change.reason:
        raise InvalidInputError("reason", change.reason, f"a part of {status}, only of blocked")
    if status is TaskStatus.DONE and not (change.artifact or change.no_artifact_reason.strip()):
        raise InvalidInputError(
            "artifact",
            change.artifact,
            "given: what was made?",
            missing=True,
            hint="--artifact PATH, or --no-artifact-reason TEXT",
        )
    if change.artifact and change.no_artifact_reason:
        raise InvalidInputError(
            "no-artifact-reason", change.no_artifact_reason, "empty, as it is with an artifact"
        )
    if status is not TaskStatus.DONE and (change.artifact or change.no_artifact_reason):
        what = change.artifact or change.no_artifact_reason
        raise InvalidInputError("artifact", what, f"a part of {status}, only of done")
    for field in ("reason", "no_artifact_reason", "artifact"):
        if len(getattr(change, field)) > REASON_MAX:
            raise InvalidInputError(field, "…", f"at most {REASON_MAX} characters")


def number_of(task_id: str) -> int:
    """Return the number in an id that `queue.add` made, 0 for any other id."""
    digits = task_id[1:]
    return int(digits) if task_id[:1] == "T" and digits.isascii() and digits.isdigit() else 0


_TEXTS = ("title", "text", "line", "reason", "artifact", "no_artifact_reason", "worker")
_TIMES = ("created_at", "changed_at", "started_at", "ended_at", "deadline_at")


def parse_ledger(data: Mapping[str, Any]) -> Ledger:
    """Return the ledger of `tasks.json`, which people may edit. ValueError names task and field."""
    raw = data.get("tasks")
    if not isinstance(raw, list):
        raise ValueError('"tasks" is not a list')
    tasks = tuple(_parse_task(f"tasks[{position}]", item) for position, item in enumerate(raw))
    seen: set[str] = set()
    for task in tasks:
        if task.id.casefold() in seen:
            raise ValueError(f"two tasks have the id {task.id}")
        seen.add(task.id.casefold())
    revision = whole("revision", data.get("revision", 0))
    highest = max((number_of(task.id) for task in tasks), default=0)
    following = max(whole("next", data.get("next", 1)), highest + 1)
    rest = {key: value for key, value in data.items() if key not in Ledger._fields and key != "v"}
    return Ledger(tasks, revision, following, rest)


def _parse_task(where: str, data: object) -> Task:
    if not isinstance(data, dict):
        raise ValueError(f"{where} is not an object")
    task_id = data.get("id")
    if not isinstance(task_id, str) or not is_safe_id(task_id):
        raise ValueError(f"{where}.id: {task_id!r} is not an id (A-Z, a-z, 0-9, _ and -)")
    where = f"{where} ({task_id})"
    known: dict[str, Any] = {"id": task_id, "title": ""}
    for field in _TEXTS:
        if field in data:
            known[field] = text_of(f"{where}.{field}", data[field])
    for field in _TIMES:
        if data.get(field) is not None:
            known[field] = time_of(f"{where}.{field}", data[field])
    known["order"] = whole(f"{where}.order", data.get("order", number_of(task_id)))
    known["generation"] = whole(f"{where}.generation", data.get("generation", 0))
    known["after"] = names_of(f"{where}.after", data.get("after", []))
    status = data.get("status", "pending")
    if status not in tuple(TaskStatus):
        raise ValueError(f"{where}.status: {status!r} is not one of {', '.join(TaskStatus)}")
    known["status"] = TaskStatus(status)
    known["unknown"] = {key: value for key, value in data.items() if key not in Task._fields}
    task = Task(**known)
    try:
        check_texts(task)
        check_change(TaskUpdate(task.status, task.reason, task.artifact, task.no_artifact_reason))
    except InvalidInputError as error:
        raise ValueError(f"{where}.{error.message}") from None
    return task


def render_ledger(ledger: Ledger) -> dict[str, Any]:
    """Return the stored form of a ledger."""
    return {
        **ledger.unknown,
        "revision": ledger.revision,
        "next": ledger.next,
        "tasks": [render_task(task) for task in ledger.tasks],
    }


def render_task(task: Task) -> dict[str, Any]:
    """Return the stored form of a task."""
    data = task._asdict()
    unknown = data.pop("unknown")
    data["after"] = list(task.after)
    data["status"] = str(task.status)
    return {**data, **unknown}


def text_of(where: str, value: object) -> str:
    """Return a text from a file that people edit; ValueError names the place."""
    if not isinstance(value, str):
        raise ValueError(f"{where}: {value!r} is not a text")
    return value


def whole(where: str, value: object) -> int:
    """Return a whole number from a file that people edit; ValueError names the place."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{where}: {value!r} is not a whole number")
    return value


def time_of(where: str, value: object) -> float:
    """Return a time from a file that people edit, in Unix seconds; ValueError names the place."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value - value == 0:
        return float(value)
    raise ValueError(f"{where}: {value!r} is not a time in Unix seconds")


def names_of(where: str, value: object) -> tuple[str, ...]:
    """Return a list of ids from a file that people edit; ValueError names the place."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{where}: {value!r} is not a list of ids")
    return tuple(dict.fromkeys(value))
