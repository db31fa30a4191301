"""Orphans: children whose parent has been over for long. Marked and told of, never signalled.

The person is told first, then the registry says INTERRUPTED: a kill in between tells nobody twice.
"""

from __future__ import annotations

from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of
from vyane_cli.children.cancel_rules import mark_orphan, mark_reunited, orphans, reunited
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage.locks import Kind
from vyane_cli.upkeep.sweep import Sweep


def mark_orphans(sweep: Sweep) -> int:
    """Children of parents that were over for 20 minutes become INTERRUPTED; how many.

    Those whose parent was opened again are none any more.
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
        call_person(sweep.runtime, call)
    with sweep.runtime.held((Kind.REGISTRY, "")):
        book = registry.Registry(sweep.layout)
        over = _over_since(sweep, book.workers)
        for worker_id in reunited(book.workers, over):
            book.put(mark_reunited(book.workers[worker_id]))
        for worker_id in set(found) & set(orphans(book.workers, over, sweep.now_s)):
            book.put(mark_orphan(book.workers[worker_id]))
        book.save()
    return len(found)


def _over_since(sweep: Sweep, workers: dict[str, Worker]) -> dict[str, float]:
    """Parents that are over, and since when as far as it is known."""
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
