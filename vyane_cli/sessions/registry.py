"""The worker registry and the documents of sessions: identity and links, under one lock.

The registry is `worker-registry.json`. Only register, spawn, rename and end write these files; a
prompt or a Stop never rewrites any of them. Commit point: the rename of the registry. The documents
of a session are written before it, so that a crash leaves documents that no worker names, never a
worker without its documents.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from vyane_cli.errors import CorruptStateError, StorageError
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.sessions.session import (
    HostSession,
    LogicalSession,
    parse_logical_session,
    parse_session,
    render_logical_session,
    render_session,
)
from vyane_cli.sessions.worker import Worker, parse_worker, render_worker
from vyane_cli.storage import document, files, processes
from vyane_cli.storage.files import read_text
from vyane_cli.storage.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_LAST_READ: dict[str, tuple[object, dict[str, Any], dict[str, Worker]]] = {}
"""Path of a registry → its content when this process last read it. Values are never mutated."""


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Return a stamp that changes with every replacement: a new file has another inode."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _parse(path: str, raw: object) -> dict[str, Worker]:
    if not isinstance(raw, Mapping):
        raise CorruptStateError(path, "`workers` is not an object", hint=document.BY_HAND)
    workers = {}
    for worker_id, data in raw.items():
        try:
            workers[worker_id] = parse_worker(worker_id, data)
        except (TypeError, ValueError) as error:
            reason = f"worker {worker_id}: {error}"
            raise CorruptStateError(path, reason, hint=document.BY_HAND) from None
    return workers


class Registry:
    """All workers, as read. `save` writes changes, under the registry's lock."""

    __slots__ = ("_data", "layout", "revision", "workers")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        stamp = _stamp(layout.registry)
        known = _LAST_READ.get(layout.registry)
        if known is None or known[0] != stamp or stamp is None:
            data = document.load(layout.registry) or {}
            known = (stamp, data, _parse(layout.registry, data.get("workers") or {}))
            _LAST_READ[layout.registry] = known
        self._data = known[1]
        self.workers: dict[str, Worker] = dict(known[2])
        self.revision = int(self._data.get("revision") or 0)

    def put(self, worker: Worker) -> None:
        """Add or replace one worker, in memory; `save` writes it."""
        self.workers[worker.id] = worker

    def save(self) -> None:
        """Replace the registry file, then the list of names for shell completion."""
        self.revision += 1
        rendered = {worker.id: render_worker(worker) for worker in self.workers.values()}
        document.save(
            self.layout.registry,
            {**self._data, "revision": self.revision, "workers": rendered},
            self.layout.root,
        )
        names = sorted({w.name for w in self.workers.values() if not w.final})
        text = "".join(f"{name}\n" for name in names)
        try:
            files.replace(self.layout.names, text.encode("utf-8", "replace"), durable=False)
        except StorageError:
            return  # the workers are saved: the next save rewrites the completion names

    def listing(self) -> Sequence[Worker]:
        """Return all workers in order of registration."""
        return tuple(self.workers.values())


def load_session(layout: Layout, session_id: str) -> HostSession | None:
    """Load the host session by its id. Return None when vyane does not know it."""
    return document.load_as(layout.session(session_id), parse_session, "session")


def save_session(layout: Layout, session: HostSession) -> None:
    """Save a host session, durably."""
    document.save(layout.session(session.id), render_session(session), layout.root)


def load_logical_session(layout: Layout, session_id: str) -> LogicalSession | None:
    """Load the logical session by its id. Return None when vyane does not know it."""
    path = layout.logical_session(session_id)
    return document.load_as(path, parse_logical_session, "logical session")


def save_logical_session(layout: Layout, session: LogicalSession) -> None:
    """Save a logical session, durably."""
    document.save(layout.logical_session(session.id), render_logical_session(session), layout.root)


def read_current(layout: Layout, worker: str) -> str:
    """Return the id of the worker's present host session; an empty string when the worker has none.

    A file that holds no valid id is damaged; the session's next event rewrites it.
    """
    found = read_text(layout.current(worker))
    return found if is_safe_id(found) else ""


def current_session(layout: Layout, worker: str) -> HostSession | None:
    """Return the record of the worker's present host session; None when it has none."""
    session_id = read_current(layout, worker)
    return load_session(layout, session_id) if session_id else None


def has_ended(session: HostSession | None) -> bool:
    """Return whether a host session has ended: no record, a recorded end, or no process.

    A process counts as ended only when that is proven; one in an unknown state may still run.
    """
    if session is None or session.ended:
        return True
    return processes.is_present(session.process) is False


def write_current(layout: Layout, worker: str, session_id: str) -> None:
    """Publish the worker's present host session. Under the worker's inbox lock, before any fold."""
    files.make_directories(layout("current"))
    files.replace(layout.current(worker), session_id.encode())


def session_of_process(layout: Layout, pids: Iterable[int]) -> str:
    """Return the session recorded for the first of these processes that has one; empty if none has.

    The caller compares the process with that session's record: a pid alone proves nothing.
    """
    for pid in pids:
        found = read_text(layout.process(pid))
        if found:
            return found
    return ""


def write_process(layout: Layout, pid: int, session_id: str) -> None:
    """Record which host session a process runs. A hint that readers check, so it is not flushed."""
    files.touch(layout.process(pid), session_id)


def known_sessions(layout: Layout) -> list[HostSession]:
    """Return every recorded host session. Unreadable documents are skipped; `doctor` names them."""
    found = []
    for name in files.json_names(layout("sessions")):
        try:
            session = load_session(layout, name)
        except CorruptStateError:
            continue
        if session is not None:
            found.append(session)
    return found


def plain(worker: Worker) -> dict[str, Any]:
    """Return a worker as `workers --json` prints it, before liveness is added."""
    return render_worker(worker)
