"""`tasks.json` as a value and back. People edit it, so each error names its place."""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.projects.task import (
    Change,
    Ledger,
    Task,
    TaskStatus,
    check_change,
    check_texts,
    number_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TEXTS = ("title", "text", "line", "reason", "artifact", "no_artifact_reason", "worker")
_TIMES = ("created_at", "changed_at", "started_at", "ended_at", "deadline_at")


def parse_ledger(data: Mapping[str, Any]) -> Ledger:
    """A ledger from `tasks.json`, which people may edit. ValueError says which task and field."""
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
        check_change(Change(task.status, task.reason, task.artifact, task.no_artifact_reason))
    except InvalidInputError as error:
        raise ValueError(f"{where}.{error.message}") from None
    return task


def render_ledger(ledger: Ledger) -> dict[str, Any]:
    """The stored form of a ledger."""
    return {
        **ledger.unknown,
        "revision": ledger.revision,
        "next": ledger.next,
        "tasks": [render_task(task) for task in ledger.tasks],
    }


def render_task(task: Task) -> dict[str, Any]:
    """The stored form of a task."""
    data = task._asdict()
    unknown = data.pop("unknown")
    data["after"] = list(task.after)
    data["status"] = str(task.status)
    return {**data, **unknown}


def text_of(where: str, value: object) -> str:
    """A text of a file that people edit; ValueError names the place."""
    if not isinstance(value, str):
        raise ValueError(f"{where}: {value!r} is not a text")
    return value


def whole(where: str, value: object) -> int:
    """A whole number of such a file."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{where}: {value!r} is not a whole number")
    return value


def time_of(where: str, value: object) -> float:
    """A time of such a file, in Unix seconds."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value - value == 0:
        return float(value)
    raise ValueError(f"{where}: {value!r} is not a time in Unix seconds")


def names_of(where: str, value: object) -> tuple[str, ...]:
    """A list of ids of such a file."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{where}: {value!r} is not a list of ids")
    return tuple(dict.fromkeys(value))
