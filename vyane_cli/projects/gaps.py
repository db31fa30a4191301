"""Gaps: feedback of a round that starts no worker, to the main worker or as a call to a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import ROUND_KINDS, NeedKind, call_of
from vyane_cli.errors import VyaneError
from vyane_cli.mail.enqueue import is_stored, store, target_of
from vyane_cli.mail.message import MONTH_S, MessageKind, from_vyane
from vyane_cli.projects.goal import Books, Says
from vyane_cli.projects.notice_rules import digest_of, gap_id
from vyane_cli.projects.project import Project
from vyane_cli.projects.queue import blocked
from vyane_cli.projects.readings import RoundView, located
from vyane_cli.projects.round_rules import Cell, RoundVerdict
from vyane_cli.projects.task import Ledger, Task
from vyane_cli.sessions import registry
from vyane_cli.sessions.liveness import look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import journal, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


OVER = "over"
"""The reason of the note that ends all gaps before it."""

PATIENCE = 3
"""Number of rounds with the same gap after which the person is called, because the main worker
alone is not expected to close it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FedBack:
    """Result of `feed_back`."""

    left: tuple[str, ...]
    why: tuple[str, ...]
    rounds: int
    """Number of rounds that found this gap, including this one."""
    message_id: str | None
    """Id of the message to the main worker; None when no message was needed because an earlier
    round sent it, or when no main worker exists."""
    called: bool
    """True when the person was called."""


def feed_back(home: Home, project: Project, verdict: RoundVerdict, seen: RoundView) -> FedBack:
    """Record the gap, notify the main worker once, call the person if necessary (cells B and E).

    No worker is started, no task is queued, no schedule is paused. The note is the commit point:
    after a kill before it, the next round builds the same message, finds it stored and does not
    store it twice. A gap counts as the same until a task changes or a round has something else to
    do. After that the main worker is notified again.
    """
    assert seen.judgement is not None
    left = tuple(name for one in seen.judgement.evidence for name in one.items)
    why = _why(verdict, seen)
    digest = digest_of(project.name, verdict.reason, *left, *why)
    ledger = seen.books.ledger if seen.books is not None and verdict.cell is Cell.B else None
    revision = ledger.revision if ledger is not None else None
    history = _history(home, project)
    last = _last(history, verdict.reason)
    again = last.get("digest") == digest and last.get("revision") == revision
    rounds = int(last.get("rounds") or 1) + 1 if again else 1
    message_id = ""
    if seen.main is not None and not again:
        since = float(history[-1]["at"]) if history else project.created_at
        message_id = _tell(home, project, verdict, seen.main, left, why, digest, since)
    called = _call(home, project, verdict, seen, left, why, rounds)
    record = {
        "at": home.clock().at,
        "reason": verdict.reason,
        "left": list(left),
        "why": list(why),
        "digest": digest,
        "revision": revision,
        "rounds": rounds,
        "message_id": message_id or (last.get("message_id") if again else None),
    }
    _keep(home, project, record, again=again)
    return FedBack(left=left, why=why, rounds=rounds, message_id=message_id or None, called=called)


def _why(verdict: RoundVerdict, seen: RoundView) -> tuple[str, ...]:
    """Return the readings that were unclear, each with its file."""
    if verdict.cell is not Cell.E or seen.judgement is None:
        return ()
    names = {
        "schedule-unreadable": ("schedule",),
        "unreadable": ("sources",),
        "main-not-declared": ("main",),
        "main-ended": ("main",),
        "executing-unknown": ("executing",),
    }.get(verdict.reason)
    if names is not None:
        return tuple(located(one.file, one.detail) for one in seen.readings if one.name in names)
    silent = [one for one in seen.judgement.evidence if one.says is Says.NOTHING]
    return tuple(located(one.path, one.detail) for one in silent)


def _history(home: Home, project: Project) -> list[dict[str, Any]]:
    """Return the notes so far, oldest first."""
    lines = journal.read(home.layout.gaps(project.name))
    return [dict(line.record) for line in lines if line.record is not None]


def _last(history: Sequence[dict[str, Any]], reason: str) -> dict[str, Any]:
    """Return the last note with this reason since gaps last ended, or an empty dictionary."""
    for note in history[::-1]:
        if note.get("reason") == OVER:
            break
        if note.get("reason") == reason:
            return note
    return {}


def end_gaps(home: Home, project: Project) -> None:
    """End the present gaps, because a round has something to do. A gap found later is a new one."""
    try:
        history = _history(home, project)
        if history and history[-1].get("reason") != OVER:
            _keep(home, project, {"at": home.clock().at, "reason": OVER}, again=False)
    except VyaneError:
        return  # the next round that reports a gap raises this error


def _keep(home: Home, project: Project, record: dict[str, Any], *, again: bool) -> None:
    """Append the note of a gap. Of a repeated gap, only the first `PATIENCE` rounds are noted."""
    if again and record["rounds"] > PATIENCE:
        return
    writer = journal.open_writer(home.layout.gaps(project.name), home.layout.root)
    try:
        writer.append([record])
    finally:
        writer.close()


def _tell(
    home: Home,
    project: Project,
    verdict: RoundVerdict,
    main: Worker,
    left: tuple[str, ...],
    why: tuple[str, ...],
    digest: str,
    since: float,
) -> str:
    """Send one message to the main worker. Return its id.

    `since` is the time of the previous note, or the project's creation.
    """
    clock = home.clock()
    texts = settings.load_templates(home.language, "rounds")
    name = "unclear" if verdict.cell is Cell.E else "gap"
    said = ", ".join(left) or "?"
    text = texts.fill(name, project=project.name, left=said, why="\n".join(why))
    found = gap_id(project.name, main.id, digest, since)
    message = from_vyane(found, clock.at, main.id, MessageKind.CONTEXT_INJECT, text)
    message = message._replace(ttl_seconds=MONTH_S)  # it is sent once, so it must not expire early
    target = target_of(home, main)
    if not is_stored(home, target, message):
        store(home, target, message, clock)
    return message.id


def _call(
    home: Home,
    project: Project,
    verdict: RoundVerdict,
    seen: RoundView,
    left: tuple[str, ...],
    why: tuple[str, ...],
    rounds: int,
) -> bool:
    """Call the person if necessary: for an unclear state, a dead main worker, or a lasting gap.

    Return whether the person was called.
    """
    name = project.name
    main = seen.main
    if verdict.cell is Cell.E:
        kind, digest = ROUND_KINDS[verdict.reason], digest_of(*why)
        call = call_of(kind, project=name, digest=digest, why="; ".join(why))
    elif main is not None and look(home, main).liveness is Liveness.EXITED:
        page = home.layout.to_main(name)
        call = call_of(
            NeedKind.MAIN_EXITED, project=name, worker=main.id, name=main.name, page=page
        )
    elif rounds >= PATIENCE:
        said, digest = ", ".join(left) or "?", digest_of(*left)
        call = call_of(NeedKind.GAP, project=name, digest=digest, rounds=PATIENCE, left=said)
    else:
        return False
    return call_person(home, call)


def call_for_blocked(home: Home, project: Project, books: Books) -> list[str]:
    """Call the person for each blocked task, once each time it became blocked (cell C).

    Return the ids of the blocked tasks.
    """
    assert books.ledger is not None
    tasks = blocked(books.ledger)
    for task in tasks:
        call = call_of(
            NeedKind.BLOCKED,
            who=worker_name(home, task),
            project=project.name,
            task=task.id,
            changed_at=task.changed_at,
            title=task.title,
            why=task.reason,
        )
        call_person(home, call)
    return [task.id for task in tasks]


def worker_name(home: Home, task: Task) -> str:
    """Return the name of the worker that reported a task last; empty when no worker did."""
    worker = registry.Registry(home.layout).workers.get(task.worker)
    return worker.name if worker is not None else ""


def call_for_late(home: Home, project: Project, ledger: Ledger) -> list[str]:
    """Call the person once for each task that is past its deadline. Return the ids of these tasks.

    The person decides what happens to a late task: no task is started, stopped or blocked because
    of its deadline.
    """
    now = home.clock().at
    tasks = [task for task in ledger.tasks if task.overdue(now)]
    workers = registry.Registry(home.layout).workers
    for task in tasks:
        call = call_of(
            NeedKind.LATE,
            who=workers[task.worker].name if task.worker in workers else "",
            project=project.name,
            task=task.id,
            deadline_at=task.deadline_at,
            title=task.title,
            status=task.status,
        )
        call_person(home, call)
    return [task.id for task in tasks]
