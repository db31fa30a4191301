"""Retirement: remove workers and host sessions that ended long ago, and files that they left.

Timelines stay, because they are the history. A crash after a worker left the registry leaves files
that nothing refers to; `remove_leftovers` removes them.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator

from vyane_cli.errors import CorruptStateError
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.mail import archive, inbox
from vyane_cli.mail.inbox import boxes_of
from vyane_cli.mail.mailbox import Mailbox
from vyane_cli.mail.message import LAUNCHED
from vyane_cli.sessions import markers, registry
from vyane_cli.sessions.session import HostSession
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import files, journal, processes
from vyane_cli.storage.locks import LockKind
from vyane_cli.upkeep.sweep import ENDED_S, Sweep


def retire(sweep: Sweep) -> int:
    """Remove workers from the registry that ended more than `gc.keep_ended_days` ago.

    A worker with unsettled mail stays, at any age. Returns how many were removed.
    """
    return sum(
        sweep.guarded(worker.id, _retire, worker)
        for worker in registry.Registry(sweep.layout).listing()
    )


def _retire(sweep: Sweep, worker: Worker) -> int:
    if not _may_retire(sweep, worker):
        return 0
    if not sweep.dry_run and not _commit(sweep, worker):
        return 0
    return 1


def _may_retire(sweep: Sweep, worker: Worker) -> bool:
    session = registry.current_session(sweep.layout, worker.id)
    if session is not None:
        over = sweep.is_over(session, sweep.keep_s)
    else:
        last = worker.ended_at or worker.last_used_at or worker.created_at
        over = worker.final and sweep.is_past(last, sweep.keep_s)
    paths = boxes_of(sweep.home, worker.id, worker.logical_session_id)
    return over and not any(inbox.read(path).mailbox.unsettled for path in paths)


def _commit(sweep: Sweep, worker: Worker) -> bool:
    """Archive the worker's mail, then remove the worker and its files.

    The commit point is the save of the registry without the worker. Return False when the worker
    was resumed or received mail in the meantime; then only the archive has changed.
    """
    layout, logical = sweep.layout, worker.logical_session_id
    paths = boxes_of(sweep.home, worker.id, logical)
    for path in paths:
        archive.append_settled(layout, archive.settled(path, sweep.now_s), sweep.home.deadline())
    with sweep.home.held(
        (LockKind.REGISTRY, ""), (LockKind.INBOX, worker.id), (LockKind.INBOX, logical)
    ):
        workers = registry.Registry(layout)
        if worker.id not in workers.workers or not _may_retire(sweep, worker):
            return False  # resumed, or received mail
        for path in paths:
            if any(line.damage is not None for line in journal.read(path)):
                archive.cut(path, layout.root, ())  # moves damaged lines to the quarantine
        del workers.workers[worker.id]
        workers.save()
        for session in registry.known_sessions(layout):
            if session.worker == worker.id:
                markers.remove_all(layout, session.id)
                files.remove(layout.beat(session.id))
                files.remove(layout.session(session.id))
        left = (
            layout.current(worker.id),
            layout.due(worker.id),
            layout.outbox(worker.id),
            layout.launch(worker.id),
            layout.prompt(worker.id),
            layout.resume_prompt(worker.id),
            layout.candidate(worker.id),
            layout.output(worker.id),
            layout.errors(worker.id),
        )
        for path in (*left, *paths):
            files.remove(path)
        known = registry.load_logical_session(layout, logical) if logical else None
        if known is not None and known.worker == worker.id:
            files.remove(layout.logical_session(logical))
    return True


def remove_sessions(sweep: Sweep) -> int:
    """Remove host sessions that a later session of their worker replaced. Returns how many.

    They must have ended more than `gc.keep_ended_days` ago.
    """
    return sum(
        sweep.guarded(session.id, _remove_session, session)
        for session in registry.known_sessions(sweep.layout)
    )


def _remove_session(sweep: Sweep, session: HostSession) -> int:
    if not _is_left(sweep, session):
        return 0
    if not sweep.dry_run:
        with sweep.home.held((LockKind.REGISTRY, "")):
            known = registry.load_session(sweep.layout, session.id)
            if known is None or not _is_left(sweep, known):
                return 0
            files.remove(sweep.layout.session(session.id))
            files.remove(sweep.layout.beat(session.id))
    return 1


def _is_left(sweep: Sweep, session: HostSession) -> bool:
    """Return whether a host session can be removed: ended, old, replaced and without a process.

    A live process may still use an id that `/clear` replaced.
    """
    over = sweep.is_over(session, max(sweep.keep_s, ENDED_S))
    return over and not sweep.is_current(session) and not _is_there(session)


def _is_there(session: HostSession) -> bool:
    return processes.is_present(session.process) is True


def remove_markers(sweep: Sweep) -> int:
    """Remove the marker files of ended sessions: watch, heartbeat, process. Returns how many."""
    return sum(
        sweep.guarded(session.id, _remove_markers, session)
        for session in registry.known_sessions(sweep.layout)
    )


def _remove_markers(sweep: Sweep, session: HostSession) -> int:
    if not _marked(sweep, session):
        return 0
    if sweep.dry_run:
        return len(_marked(sweep, session))
    with sweep.home.held((LockKind.REGISTRY, ""), (LockKind.INBOX, session.worker)):
        known = registry.load_session(sweep.layout, session.id)
        return sum(map(sweep.remove, _marked(sweep, known))) if known is not None else 0


def _marked(sweep: Sweep, session: HostSession) -> list[str]:
    """Return the existing marker files to remove: none while the session may still run."""
    layout = sweep.layout
    if not sweep.is_over(session, ENDED_S):
        return []
    paths = [
        layout.armed(session.id),
        layout.pending(session.id),
        layout.control(session.id),
        layout.proof(session.id),
        layout.wake(session.id),
    ]
    if not sweep.is_current(session):  # a current session's heartbeat is the worker's last sign
        paths.append(layout.beat(session.id))
    if session.process is not None and not _is_there(session):
        path = layout.process(session.process.pid)
        if files.read_text(path) == session.id:
            paths.append(path)
    return [path for path in paths if os.path.exists(path)]


AGE_S = 3_600.0
"""Age in seconds at which a file or blob without an owner is removed."""
NAMED = re.compile(rb'"sha256"\s*:\s*"([0-9a-f]{64})"')
"""A message's reference to the blob with its whole text."""


def remove_leftovers(sweep: Sweep) -> int:
    """Remove hour-old files of workers without a record. Returns how many.

    Mail from a sender stays in its inbox.
    """
    known = registry.Registry(sweep.layout).workers
    found = [
        (path, worker)
        for path, worker in _files_of_workers(sweep)
        if worker not in known and _is_old(sweep, path)
    ]
    return sum(sweep.guarded(path, _remove, path, worker) for path, worker in found)


def _files_of_workers(sweep: Sweep) -> Iterator[tuple[str, str]]:
    """Yield each file that belongs to one worker, with the worker's id.

    Inboxes come last, after the documents of their workers.
    """
    layout = sweep.layout
    for folder in ("logs", "launches", "current", "due"):
        for name in files.listdir(layout(folder)):
            yield layout(folder, name), name.partition(".")[0]
    for name in files.listdir(layout("logical-sessions")):
        session, _, end = name.rpartition(".")
        if end == "json" and is_safe_id(session) and not os.path.exists(layout.timeline(session)):
            try:
                known = registry.load_logical_session(layout, session)
            except CorruptStateError:
                continue  # `doctor` reports the file
            if known is not None and known.worker:
                yield layout.logical_session(session), known.worker
    for folder in ("outbox", "inbox"):
        for name in files.listdir(layout("messages", folder)):
            kind, _, rest = name.partition("-")
            worker = rest.removesuffix(".jsonl")
            if kind == "worker" and worker != rest and is_safe_id(worker):
                yield layout("messages", folder, name), worker


def _remove(sweep: Sweep, path: str, worker: str) -> int:
    box = path == sweep.layout.inbox(worker) if is_safe_id(worker) else False
    if box and not _is_nobodys(inbox.read(path).mailbox):
        return 0
    if sweep.dry_run:
        return 1
    with sweep.home.held((LockKind.REGISTRY, ""), (LockKind.INBOX, worker)):
        if worker in registry.Registry(sweep.layout).workers or not _is_old(sweep, path):
            return 0
        if box and not _is_nobodys(inbox.read(path).mailbox):
            return 0
        return sweep.remove(path)


def _is_nobodys(mailbox: Mailbox) -> bool:
    """Return whether an inbox holds at most the dispatch of a child that never started."""
    return all(entry.message.payload.get(LAUNCHED) is True for entry in mailbox.entries)


def _is_old(sweep: Sweep, path: str) -> bool:
    return sweep.is_past(markers.modified(path) or sweep.now_s, AGE_S)


def remove_blobs(sweep: Sweep) -> int:
    """Remove blobs that no message refers to: never sent, or deleted with their session.

    Blobs younger than an hour stay. Returns how many were removed.
    """
    digests = [
        name.removesuffix(".txt")
        for name in files.listdir(sweep.layout("messages", "blobs"))
        if name.endswith(".txt") and not name.startswith(".")
    ]
    old = {digest for digest in digests if _is_old(sweep, sweep.layout.blob(digest))}
    free = old - _named_blobs(sweep) if old else old
    paths = [sweep.layout.blob(digest) for digest in sorted(free)]
    return sum(sweep.guarded(path, _remove_blob, path) for path in paths)


def _remove_blob(sweep: Sweep, path: str) -> int:
    if sweep.dry_run:
        return 1
    with sweep.home.held((LockKind.REGISTRY, "")):  # results store their blobs under it
        return sweep.remove(path) if _is_old(sweep, path) else 0


def _named_blobs(sweep: Sweep) -> set[str]:
    """Return the digests that inboxes, archives and the quarantine refer to.

    Damaged lines count too. One pass without parsing.
    """
    found: set[str] = set()
    for top in (sweep.layout("messages", "inbox"), sweep.layout("messages", "archive"),
                sweep.layout.quarantine):  # fmt: skip
        for folder, _, names in os.walk(top):
            for name in names:
                found |= _named_in(os.path.join(folder, name))
    return found


def _named_in(path: str) -> set[str]:
    try:
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return set()
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return {match[1].decode() for match in NAMED.finditer(data)}
    except OSError:
        return set()
