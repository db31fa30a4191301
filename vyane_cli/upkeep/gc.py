"""Garbage collection (`gc`): archive settled mail, expire mail, delete leftovers, step by step.

A message is always archived before it is cut from its inbox. Each step may be repeated: a crash
between two steps leaves work for the next run, never a gap. A locked or damaged inbox does not stop
the work on others.
"""

from __future__ import annotations

import os
from typing import Any

from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of
from vyane_cli.children import cancel
from vyane_cli.children.cancel_rules import mark_orphan, mark_reunited, orphans, reunited
from vyane_cli.children.result import is_lost, settle_lost
from vyane_cli.children.stale import find_stale, mark_stale
from vyane_cli.conversations import bindings
from vyane_cli.conversations.binding import BindingStatus
from vyane_cli.delivery.resume import resume_waiting
from vyane_cli.history.delete import clear_trash
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.mail import archive
from vyane_cli.projects import claims, ledger, projects
from vyane_cli.projects.task import TaskStatus
from vyane_cli.sessions import markers, registry
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import document, files
from vyane_cli.storage.layout import strangers
from vyane_cli.storage.locks import LockKind
from vyane_cli.upkeep.ended_needs import end_calls
from vyane_cli.upkeep.expire import Box, all_boxes, expire, lapse
from vyane_cli.upkeep.retire import (
    remove_blobs,
    remove_leftovers,
    remove_markers,
    remove_sessions,
    retire,
)
from vyane_cli.upkeep.sweep import Sweep, UpkeepStep, run_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyane_cli.home import Home


GRACE_S = 5.0
"""Seconds for which a settled message stays in its inbox, so that `vyane inbox --all` shows it."""
TEMPORARY_S = 3_600.0
"""Age in seconds at which a temporary file counts as left by a crash."""


def collect(
    home: Home,
    *,
    grace_s: float = GRACE_S,
    dry_run: bool = False,
    steps: Sequence[UpkeepStep] | None = None,
) -> tuple[dict[str, Any], int]:
    """Run `gc` once: those of `steps` (default: `STEPS`) that belong to `gc`.

    Returns the counts, and the exit code of the first error that was skipped (0 without one).
    """
    chosen = [step for step in (STEPS if steps is None else steps) if step.in_gc]
    sweep = Sweep(home, grace_s=grace_s, dry_run=dry_run)
    counts: dict[str, Any] = {step.name: 0 for step in chosen if step.counted}
    if os.path.isdir(home.layout.root):
        counts |= run_steps(chosen, sweep)
    return {"dry_run": dry_run, **counts, "skipped": sweep.skipped}, sweep.exit_code


def settle_lost_children(sweep: Sweep) -> int:
    """End children whose process and launcher are gone, and send their parents a result.

    Returns how many.
    """
    workers = registry.Registry(sweep.layout).listing()
    return sum(sweep.guarded(worker.id, _settle_lost, worker) for worker in workers)


def _settle_lost(sweep: Sweep, worker: Worker) -> int:
    settle = is_lost if sweep.dry_run else settle_lost
    return int(settle(sweep.home, worker))


def resume_closed(sweep: Sweep) -> int:
    """Resume closed sessions that have waiting mail, if the settings allow it. Returns how many.

    A dry run returns 0.
    """
    if sweep.dry_run:
        return 0
    return len(resume_waiting(sweep.home, sweep.home.clock()))


def mark_silent(sweep: Sweep) -> int:
    """Mark running workers without recent activity as STALE, and unmark those active again.

    Returns how many are newly marked.
    """
    look = find_stale if sweep.dry_run else mark_stale
    return len(look(sweep.home, sweep.home.clock()).stale)


def end_needless_calls(sweep: Sweep) -> int:
    """Resolve the entries of need-user whose cause is gone. Returns how many."""
    return end_calls(sweep.home, dry_run=sweep.dry_run)


def archive_all(sweep: Sweep) -> int:
    """Archive the settled messages of every inbox, each inbox separately. Returns how many."""
    boxes = all_boxes(sweep.home)
    return sum(sweep.guarded(box.path, archive_settled, box) for box in boxes)


def archive_settled(sweep: Sweep, box: Box, grace_s: float | None = None) -> int:
    """Move the settled messages of one inbox to the archive of their month. Returns how many.

    The inbox lock is held only for the cut, so that no hook waits for the archive. This is safe
    because settled messages no longer change.
    """
    grace_s = sweep.grace_s if grace_s is None else grace_s
    found = archive.settled(box.path, sweep.now_s - grace_s)
    if found and not sweep.dry_run:
        archive.append_settled(sweep.layout, found, sweep.home.deadline())
        with sweep.home.held((LockKind.INBOX, box.lock)):
            archive.cut(box.path, sweep.layout.root, {one.entry.message.id for one in found})
    return len(found)


def forget_keys(sweep: Sweep) -> int:
    """Remove expired idempotency keys. Returns how many."""
    count = 0
    for name in files.listdir(sweep.layout("messages", "keys")):
        digest, _, end = name.rpartition(".")
        if end == "json" and is_safe_id(digest):
            count += sweep.guarded(sweep.layout.key(digest), _forget_key, digest)
    return count


def _forget_key(sweep: Sweep, digest: str) -> int:
    path = sweep.layout.key(digest)
    if not _is_over(path, sweep.now_s):
        return 0
    if not sweep.dry_run:
        with sweep.home.held((LockKind.KEY, digest)):
            if not _is_over(path, sweep.now_s):
                return 0
            files.remove(path)
    return 1


def forget_cancels(sweep: Sweep) -> int:
    """Remove settled cancels that are older than `gc.keep_ended_days`. Returns how many."""
    count = 0
    for name in files.listdir(sweep.layout("queue", "cancels")):
        operation, _, end = name.rpartition(".")
        if end == "json" and is_safe_id(operation):
            count += sweep.guarded(sweep.layout.cancel(operation), _forget_cancel, operation)
    return count


def _forget_cancel(sweep: Sweep, operation: str) -> int:
    known = cancel.load(sweep.layout, operation)
    if known is None or not known.settled or not sweep.is_past(known.at, sweep.keep_s):
        return 0
    return sweep.remove(sweep.layout.cancel(operation))


def forget_bindings(sweep: Sweep) -> int:
    """Remove bindings that ended more than `gc.keep_ended_days` ago, with their conversation state.

    Only bindings whose session has no worker are removed: while a worker exists, a session that a
    person unbound stays unbound. Returns how many.
    """
    return sweep.guarded(sweep.layout.bindings, _forget_bindings)


def _forget_bindings(sweep: Sweep) -> int:
    sessions = {one.logical_session_id for one in registry.Registry(sweep.layout).listing()}
    old = [
        one
        for one in bindings.load(sweep.layout).values()
        if one.status is BindingStatus.ENDED
        and one.target_session not in sessions
        and sweep.is_past(one.ended_at or 0.0, sweep.keep_s)
    ]
    if old and not sweep.dry_run:
        with sweep.home.held((LockKind.BINDINGS, "")):
            bindings.change(sweep.layout, lambda known: [known.pop(one.id, None) for one in old])
        for one in old:
            sweep.remove(sweep.layout.thread_state(*one.conversation.account_key, one.id))
    return len(old)


def forget_claims(sweep: Sweep) -> int:
    """Remove freed claims older than `gc.keep_ended_days` that no count of starts needs.

    Returns how many.
    """
    names = [project.name for project in projects.list_known(sweep.layout)]
    return sum(sweep.guarded(name, _forget_claims, name) for name in names)


def _forget_claims(sweep: Sweep, project: str) -> int:
    """Remove the old freed claims of one project. Returns how many.

    Their tasks are done or gone, or became pending again since. None of these can be undone, so no
    lock is needed.
    """
    books = ledger.read(sweep.layout, project)
    if books.ledger is None:
        return 0
    tasks = {task.id: task for task in books.ledger.tasks if task.status is not TaskStatus.DONE}
    found = claims.all_stale(sweep.layout, project)
    return sum(
        sweep.remove(path)
        for path, claim in found.items()
        if sweep.is_past(claim.renewed_at, sweep.keep_s)
        and (claim.task not in tasks or claim.generation < tasks[claim.task].generation)
    )


def _is_over(key_path: str, now_s: float) -> bool:
    known = document.load(key_path)
    expires = known.get("expires") if known is not None else None
    return isinstance(expires, (int, float)) and expires <= now_s


def remove_trash(sweep: Sweep) -> int:
    """Remove folders that a killed `timeline delete` had set aside. Returns how many.

    A dry run returns 0.
    """
    return 0 if sweep.dry_run else clear_trash(sweep.layout)


def remove_temporary(sweep: Sweep) -> int:
    """Remove temporary files that a crash left, once they are an hour old. Returns how many."""
    count = 0
    root = sweep.layout.root
    others = strangers(root) if os.path.isdir(root) else ()
    for folder, below, names in os.walk(root):
        if folder == root:
            below[:] = [name for name in below if name not in others]
        for name in names:
            path = os.path.join(folder, name)
            if files.is_temporary(name) and sweep.is_past(
                markers.modified(path) or sweep.now_s, TEMPORARY_S
            ):
                count += sweep.guarded(path, Sweep.remove, path)
    return count


def mark_orphans(sweep: Sweep) -> int:
    """Mark children whose parent ended at least 20 minutes ago as INTERRUPTED. Returns how many.

    A parent without a record counts as ended. The person is called for each child. Orphans whose
    parent was reopened are no longer orphans: they become RUNNING.
    """
    workers = registry.Registry(sweep.layout).workers
    over = _over_since(sweep, workers)
    found = orphans(workers, over, sweep.now_s)
    if sweep.dry_run or not (found or reunited(workers, over)):
        return len(found)
    for worker_id in found:
        child = workers[worker_id]
        parent = workers.get(child.parent_worker_id or "")
        name = parent.name if parent is not None else child.parent_worker_id
        call = call_of(NeedKind.ORPHAN, worker=child.id, name=child.name, parent=name)
        call_person(sweep.home, call)
    with sweep.home.held((LockKind.REGISTRY, "")):
        book = registry.Registry(sweep.layout)
        over = _over_since(sweep, book.workers)
        for worker_id in reunited(book.workers, over):
            book.put(mark_reunited(book.workers[worker_id]))
        for worker_id in set(found) & set(orphans(book.workers, over, sweep.now_s)):
            book.put(mark_orphan(book.workers[worker_id]))
        book.save()
    return len(found)


def _over_since(sweep: Sweep, workers: dict[str, Worker]) -> dict[str, float]:
    """Return ended parents: id → the time of the end, in Unix seconds, as far as it is known."""
    parents = {worker.parent_worker_id for worker in workers.values() if worker.parent_worker_id}
    found: dict[str, float] = {}
    for parent_id in parents & set(workers):
        parent = workers[parent_id]
        if parent.final:
            found[parent_id] = parent.ended_at or parent.last_used_at
            continue
        session = registry.current_session(sweep.layout, parent_id)
        since = sweep.over_since(session) if session is not None else None
        if since is not None:
            found[parent_id] = since
    return found


# fmt: off
STEPS: tuple[UpkeepStep, ...] = (
    # name, in a round, in gc, action, the name shown when it fails
    UpkeepStep("lost",       True,  True, settle_lost_children, "registry"),
    UpkeepStep("resumed",    False, True, resume_closed, "registry"),
    UpkeepStep("orphans",    True,  True, mark_orphans, "registry"),
    UpkeepStep("stale",      True,  True, mark_silent, "registry"),
    UpkeepStep("calls",      True,  True, end_needless_calls, "need-user", counted=False),
    UpkeepStep("expired",    True,  True, expire, "registry"),
    UpkeepStep("lapsed",     True,  True, lapse, "registry"),
    UpkeepStep("archived",   True,  True, archive_all),
    UpkeepStep("keys",       False, True, forget_keys),
    UpkeepStep("cancels",    False, True, forget_cancels),
    UpkeepStep("bindings",   False, True, forget_bindings),
    UpkeepStep("claims",     False, True, forget_claims),
    UpkeepStep("retired",    False, True, retire, "registry"),
    UpkeepStep("sessions",   False, True, remove_sessions),
    UpkeepStep("markers",    False, True, remove_markers),
    UpkeepStep("leftovers",  False, True, remove_leftovers, "registry"),
    UpkeepStep("blobs",      False, True, remove_blobs, "messages"),
    UpkeepStep("temporary",  False, True, remove_temporary),
    UpkeepStep("trash",      False, True, remove_trash, "timelines"),
)
# fmt: on
"""The upkeep steps in the order in which they run. A round adds steps for its project."""
