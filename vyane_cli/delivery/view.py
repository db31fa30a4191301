"""Worker reports for lists: liveness, mail, transports, progress. Read-only."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from vyane_cli.delivery.resume import may_resume
from vyane_cli.errors import CorruptStateError, NotFoundError
from vyane_cli.kernel.text import cut
from vyane_cli.kernel.values import OMIT, InJson
from vyane_cli.mail import inbox
from vyane_cli.mail.inbox import waiting
from vyane_cli.mail.message import MessageKind, body_of, first_line
from vyane_cli.sessions import registry
from vyane_cli.sessions.liveness import Look, last_sign, look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import Worker, WorkerStatus, find_worker, render_worker, shown_status
from vyane_cli.timeline import log
from vyane_cli.timeline.events import EventKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


PROGRESS_MAX = 80
TAIL_BYTES = 16 * 1024
"""Bytes at the end of a timeline in which the worker's last activity is searched."""


def progress_of(home: Home, worker: Worker) -> str:
    """Return the worker's last status or activity, as one line of at most 80 characters."""
    if not worker.logical_session_id:
        return ""
    text, at = "", 0.0
    path = home.layout.timeline(worker.logical_session_id)
    try:
        for record in log.tail(path, TAIL_BYTES):
            payload = record.get("payload") or {}
            match record.get("kind"):
                case EventKind.RESULT_OBSERVED if payload.get("excerpt"):
                    text = str(payload["excerpt"])
                case EventKind.TOOL_OBSERVED:
                    text = str(payload.get("tool") or "")
                case _:
                    continue
            at = float(record.get("at") or 0)
    except CorruptStateError:
        text = ""
    said = inbox.last_sent(home.layout.outbox(worker.id))
    if said is not None and said.kind is MessageKind.STATUS_UPDATE and said.ts >= at:
        text = body_of(said)
    text = first_line(text)
    return cut(text, PROGRESS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """A worker as it is shown: its stored record, updated from its session's own files."""

    worker: Worker = field(metadata={InJson: InJson(spread=True, form=render_worker)})
    """The stored record. A field of the same name below takes the place of the stored one."""
    status: WorkerStatus
    session_id: str | None
    last_heartbeat: float | None
    last_used_at: float | None
    liveness: Liveness
    pending: int
    oldest_pending_at: float | None
    transports: tuple[str, ...]
    pending_takeover_message_id: str | None
    discord_thread_id: str | None
    host: str | None
    pid: int | None
    turn: str | None
    """Id of the open turn."""
    progress: str
    ambiguous: tuple[int, ...]
    """Pids of other processes that may be the session's process."""
    damaged: str | None = field(default=None, metadata=OMIT)
    """Error message about the part of the session that cannot be read."""


def transports_of(home: Home, worker: Worker, seen: Look) -> tuple[str, ...]:
    """Return the ways by which a turn can be started in the worker's session now."""
    session = seen.session
    if session is None:
        return ()
    if seen.liveness is Liveness.EXITED:
        return ("resume",) if may_resume(home, worker) else ()
    found = []
    if session.host == "generic":
        return ("call",)
    if session.attended and os.path.exists(home.layout.wake(session.id)):
        found.append("watch")
    found.append("stop")
    if session.attended and session.terminal and home.config["delivery.tmux"] != "never":
        found.append("tmux")
    return tuple(found)


FindConversation = Callable[[str], "str | None"]
"""Function from a logical session's id to the id of its bound conversation; None: unbound."""


def _unbound(session: str) -> None:
    return None


def describe_worker(
    home: Home, worker: Worker, conversation_of: FindConversation = _unbound
) -> WorkerReport:
    """Look at a worker once, and return its report."""
    seen = look(home, worker)
    mail = waiting(home, worker.id, worker.logical_session_id)
    session = seen.session
    marked = worker.status is WorkerStatus.STALE
    sign_s = last_sign(home, worker, seen) if marked else 0.0  # only a STALE worker needs it
    return WorkerReport(
        worker=worker,
        status=shown_status(worker, seen.liveness, sign_s),
        session_id=session.id if session is not None else worker.session_id,
        last_heartbeat=seen.beat_at or None,
        last_used_at=max(worker.last_used_at, seen.beat_at) or None,
        liveness=seen.liveness,
        pending=mail.pending,
        oldest_pending_at=mail.oldest_ts,
        transports=transports_of(home, worker, seen),
        pending_takeover_message_id=mail.takeover or None,
        discord_thread_id=conversation_of(worker.logical_session_id),
        host=session.host if session is not None else None,
        pid=session.process.pid if session is not None and session.process else None,
        turn=seen.turn.id if seen.turn is not None else None,
        progress=progress_of(home, worker),
        ambiguous=tuple(process.pid for process in session.others) if session is not None else (),
        damaged=seen.damaged or None,
    )


def list_workers(
    home: Home,
    *,
    session: str = "",
    everything: bool = False,
    conversation_of: FindConversation = _unbound,
) -> list[WorkerReport]:
    """Return the reports of all workers that are not final; with `everything`, of final ones too.

    `session` limits the list to one logical session: its id, or a worker in it. NotFoundError names
    the nearest workers.
    """
    found = []
    workers = registry.Registry(home.layout).listing()
    if session and not session.startswith("vs-"):
        session = find_worker(session, workers).logical_session_id
    elif session and registry.load_logical_session(home.layout, session) is None:
        raise NotFoundError("logical session", session)
    for worker in workers:
        if session and worker.logical_session_id != session:
            continue
        if worker.final and not everything:
            continue
        found.append(describe_worker(home, worker, conversation_of))
    return found
