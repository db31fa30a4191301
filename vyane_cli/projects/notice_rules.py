"""Notices: messages with which vyane itself informs the main worker of a project, one at a time.

The queue is not stored: it is the difference between the ledger and the book of notices. So a
notice that is refused stays at the head by itself, and a change that is undone before its notice
was sent is no longer in the queue.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.ids import render_ulid
from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.projects.goal import Books, Judgement
from vyane_cli.projects.queue import blocked, in_order
from vyane_cli.projects.task import Ledger, Task, TaskStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


STALL_STEPS_S = (900, 3_600, 14_400, 43_200)
"""Stall durations, in seconds, at which the main worker is notified, once each."""


class NoticeKind(StrEnum):
    """Kind of a notice. Blocked comes first."""

    BLOCKED = "blocked"
    DONE = "done"
    STALL = "stall"


class NoticeItem(NamedTuple):
    """One item of the queue of notices."""

    kind: NoticeKind
    key: str
    """Identity of the event: a task's status with the time of its change, or a stall with its
    length."""
    digest: str
    """Digest of the content."""
    task: Task | None = None


class Book(NamedTuple):
    """The record of sent notices, as stored in `projects/{name}/notices.json`."""

    told: Mapping[str, str] = {}
    """Task → key of the last change for which a notice was sent."""
    digest: str = ""
    message: str = ""
    """Id of the last notice."""
    at: float = 0.0
    boot: str = ""
    boot_ms: int = 0
    stall: str = ""
    """Key of the last stall for which a notice was sent."""
    mark: str = ""
    """Digest of the last progress. The next two fields are its first sighting, on the boot
    clock."""
    mark_boot: str = ""
    mark_boot_ms: int = 0
    mark_age_s: float = 0.0
    """Age of the progress at its first sighting, in seconds."""
    rule: str = ""
    """The last refusal, with its item: each refusal is logged once."""
    stall_moved: float = 0.0
    """Time of the last progress before the last stall notice, in Unix seconds."""
    stall_turn: int = 0
    """Number of turns that the main worker had had when the stall notice was sent."""


def changes(ledger: Ledger, book: Book, main: str) -> tuple[NoticeItem, ...]:
    """Return the changes that the main worker does not know of: blocked first, then done.

    Changes that the main worker reported itself are left out. Changes older than the project are in
    the book from the start.
    """
    found = []
    for task in sorted(ledger.tasks, key=in_order):
        kind = _KINDS.get(task.status)
        if kind is None or (main and task.worker == main):
            continue
        item = item_of(task, kind)
        if book.told.get(task.id) != item.key:
            found.append(item)
    return tuple(sorted(found, key=lambda item: tuple(NoticeKind).index(item.kind)))


_KINDS: Mapping[TaskStatus, NoticeKind] = {
    TaskStatus.BLOCKED: NoticeKind.BLOCKED,
    TaskStatus.DONE: NoticeKind.DONE,
}


def item_of(task: Task, kind: NoticeKind) -> NoticeItem:
    """Return the notice item of a task in its present state."""
    said = (kind, task.id, task.title, task.reason, task.artifact, task.no_artifact_reason)
    return NoticeItem(kind, f"{task.status}:{task.changed_at:.3f}", digest_of(*said), task)


def known(book: Book, ledger: Ledger) -> Book:
    """Return the book of a new project: done and blocked tasks of this ledger count as told."""
    for item in changes(ledger, book, ""):
        book = count(book, item)
    return book


def digest_of(*said: str) -> str:
    """Return a digest of the content of a notice, independent of white space."""
    text = "\0".join(" ".join(part.split()) for part in said)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def stall_of(moved: float, mark: str, seconds: float, left: tuple[str, ...]) -> NoticeItem:
    """Return the notice item of a stall. Its key changes when the stall reaches the next step."""
    step = max([one for one in STALL_STEPS_S if seconds >= one], default=STALL_STEPS_S[0])
    said = digest_of(NoticeKind.STALL, str(step), *left)
    return NoticeItem(NoticeKind.STALL, f"{moved:.3f}:{mark}:{step}", said)


def heard_of_stall(book: Book, mark: str, turns: int) -> float | None:
    """Return the time of the last progress before the stall for which a notice was sent.

    None when a task has changed since, or when the main worker has had more than one turn since.
    One turn reads the notice, which is not progress by itself.
    """
    same = f":{mark}:" in book.stall
    return book.stall_moved if same and turns <= book.stall_turn + 1 else None


def see(book: Book, mark: str, progress_at: float, clock: Clock) -> Book:
    """Return the book with the progress at its first sighting: the boot clock counts from there."""
    if book.mark == mark and book.mark_boot == clock.boot and clock.boot_ms >= book.mark_boot_ms:
        return book
    return book._replace(
        mark=mark,
        mark_boot=clock.boot,
        mark_boot_ms=clock.boot_ms,
        mark_age_s=max(clock.at - progress_at, 0.0),
    )


def stalled_s(book: Book, clock: Clock) -> float:
    """Return the seconds since the last progress.

    Steps of the wall clock after the first sighting of the progress do not count.
    """
    return (clock.boot_ms - book.mark_boot_ms) / 1000 + book.mark_age_s


def notice_id(project: str, target: str, item: NoticeItem, at: float) -> str:
    """Return the id of the one message of an item, so that two ticks send the same message."""
    said = f"notice {project} {target} {item.task.id if item.task else ''} {item.key}"
    entropy = hashlib.sha256(said.encode()).digest()[:10]
    return render_ulid(int(at * 1000), entropy)


def gap_id(project: str, target: str, digest: str, since: float) -> str:
    """Return the id of the one message of a gap: after a killed round, the next sends the same."""
    said = f"gap {project} {target} {digest} {since}"
    return render_ulid(int(since * 1000), hashlib.sha256(said.encode()).digest()[:10])


def count(book: Book, item: NoticeItem) -> Book:
    """Return the book with an item counted as told: the target knows its content."""
    if item.task is None:
        return book._replace(stall=item.key, rule="")
    return book._replace(told={**book.told, item.task.id: item.key}, rule="")


def tell(book: Book, item: NoticeItem, message: str, clock: Clock, turns: int) -> Book:
    """Return the book after an item became a message. `turns`: number of turns of its target."""
    if item.kind is NoticeKind.STALL:
        book = book._replace(stall_moved=float(item.key.partition(":")[0]), stall_turn=turns)
    return count(book, item)._replace(
        digest=item.digest,
        message=message,
        at=clock.at,
        boot=clock.boot,
        boot_ms=clock.boot_ms,
    )


def forget(book: Book, ledger: Ledger) -> Book:
    """Return the book without the tasks that are no longer in the ledger."""
    known = {task.id for task in ledger.tasks}
    kept = {task: key for task, key in book.told.items() if task in known}
    return book if kept == book.told else book._replace(told=kept)


def parse_book(data: Mapping[str, Any]) -> Book:
    """Return the book of a stored form. TypeError or ValueError when it is malformed."""
    known = {key: data[key] for key in Book._fields if key in data}
    told = known.get("told", {})
    if not isinstance(told, dict):
        raise ValueError(f"told: {told!r} is not an object")
    for key in ("boot_ms", "mark_boot_ms", "stall_turn"):
        known[key] = int(known.get(key) or 0)
    for key in ("at", "mark_age_s", "stall_moved"):
        known[key] = float(known.get(key) or 0)
    return Book(**known)


def render_book(book: Book) -> dict[str, Any]:
    """Return the stored form of a book."""
    return {**book._asdict(), "told": dict(book.told)}


def to_main(books: Books, judgement: Judgement, waiting: Sequence[NoticeItem]) -> str:
    """Return the text of `TO_MAIN.md`: the state of the project, and the notices not sent yet.

    The text contains no present time, so that it changes only when the project did.
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
    """Return a task on one line."""
    why = task.reason or task.artifact or task.no_artifact_reason
    line = f"{task.id} ({task.status}): {task.title}" + (f" — {why}" if why else "")
    return " ".join(line.split())


def blocked_page(books: Books) -> dict[str, Any]:
    """Return the content of `blocked.json`: the blocked tasks, with their reasons."""
    tasks = blocked(books.ledger) if books.ledger is not None else ()
    return {
        "project": books.project,
        "readable": books.ledger is not None,
        "blocked": [
            {"id": t.id, "title": t.title, "reason": t.reason, "since": t.changed_at} for t in tasks
        ],
    }
