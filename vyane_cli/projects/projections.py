"""Pages for people and agents that are made from the ledger, and decide nothing."""

from __future__ import annotations

from collections.abc import Sequence

from vyane_cli.projects.books import Books
from vyane_cli.projects.judging import Judgement
from vyane_cli.projects.notice_rules import Item
from vyane_cli.projects.queue_2 import blocked, in_order
from vyane_cli.projects.task import Task, TaskStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def to_main(books: Books, judgement: Judgement, waiting: Sequence[Item]) -> str:
    """`TO_MAIN.md`: how the project stands, and what its main worker has not been told.

    Without a time of its own, so that it changes only when something did.
    """
    title = " ".join(books.goal.title.split()) if books.goal is not None else ""
    goal = f"Goal: {judgement.state}" + (f" — {title}" if title else "")
    lines = [f"# {books.project}", "", goal, ""]
    for one in judgement.evidence:
        left = f"; left: {', '.join(one.items)}" if one.items else ""
        lines.append(" ".join(f"- {one.source}: {one.detail}{left}".split()))
    if books.ledger is None:
        return "\n".join(lines) + "\n"
    untold = [item.task for item in waiting if item.task is not None]
    lines += _section("Not told yet", untold)
    tasks = sorted(books.ledger.tasks, key=in_order)
    for title, status in (
        ("Blocked", TaskStatus.BLOCKED),
        ("Running", TaskStatus.RUNNING),
        ("Pending", TaskStatus.PENDING),
    ):
        lines += _section(title, [task for task in tasks if task.status is status])
    if tasks and not any(t.status in (TaskStatus.RUNNING, TaskStatus.PENDING) for t in tasks):
        stuck = bool(blocked(books.ledger))
        lines += ["", "Everything that is left is blocked." if stuck else "Nothing is queued."]
    return "\n".join(lines) + "\n"


def _section(title: str, tasks: Sequence[Task]) -> list[str]:
    if not tasks:
        return []
    return ["", f"## {title}", "", *(f"- {line_of(task)}" for task in tasks)]


def line_of(task: Task) -> str:
    """A task on one line."""
    why = task.reason or task.artifact or task.no_artifact_reason
    line = f"{task.id} ({task.status}): {task.title}" + (f" — {why}" if why else "")
    return " ".join(line.split())


def blocked_page(books: Books) -> dict[str, Any]:
    """`blocked.json`: the tasks that wait for somebody, with why."""
    tasks = blocked(books.ledger) if books.ledger is not None else ()
    return {
        "project": books.project,
        "readable": books.ledger is not None,
        "blocked": [
            {"id": t.id, "title": t.title, "reason": t.reason, "since": t.changed_at} for t in tasks
        ],
    }
