"""What a worker is doing: liveness from evidence, its session, its transports. Changes nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import NamedTuple

from vyane_cli.conversations import bindings
from vyane_cli.conversations.binding import place_of
from vyane_cli.delivery.resume import may_resume
from vyane_cli.errors import CorruptStateError, NotFoundError
from vyane_cli.kernel.values import OMIT, InJson
from vyane_cli.mail.boxes import waiting
from vyane_cli.sessions import markers, registry
from vyane_cli.sessions.liveness_rules import Evidence, Liveness, decide_liveness
from vyane_cli.sessions.session import HostSession
from vyane_cli.sessions.worker import Worker, WorkerStatus, find_worker, render_worker, shown_status
from vyane_cli.storage import processes
from vyane_cli.timeline import log
from vyane_cli.timeline.turns import OpenTurn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


class Look(NamedTuple):
    """One worker, looked at once."""

    liveness: Liveness
    session: HostSession | None
    turn: OpenTurn | None
    transports: tuple[str, ...]
    beat_at: float
    damaged: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """A worker as it is shown: its record, and over it what its session's own files say."""

    worker: Worker = field(metadata={InJson: InJson(spread=True, form=render_worker)})
    """As it is stored. A field of the same name below takes the place of the stored one."""
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
    """The id of the open turn."""
    progress: str
    ambiguous: tuple[int, ...]
    """Pids of the other processes that may be the session's."""
    damaged: str | None = field(default=None, metadata=OMIT)
    """What cannot be read of its session."""


def look(runtime: Runtime, worker: Worker) -> Look:
    """Read what the session's own files say. A damaged timeline counts as no open turn."""
    layout = runtime.layout
    session, damaged = None, ""
    try:
        session = registry.current_session(layout, worker.id)
    except CorruptStateError as error:
        damaged = error.message
    if session is None:
        never = Liveness.UNKNOWN if not worker.final else Liveness.EXITED
        return Look(never, None, None, (), 0.0, damaged)
    try:
        head = log.read_head(layout.timeline(session.logical_session))
    except CorruptStateError as error:
        head, damaged = None, error.message
    turn = head.open if head is not None else None
    if turn is not None and processes.is_present(turn.process) is False:
        turn = None  # it is over with its process; the session's next call writes that down
    present = processes.is_present(session.process)
    host = runtime.host(session.host)
    idle = (
        turn is not None
        and host is not None
        and session.process is not None
        and host.says_idle(session.config_dir, session.process.pid, session.id, turn.at)
    )
    # a spawned program without hooks records no turns: it works for as long as it is there
    works = session.host == "generic" and not session.attended and not worker.final
    evidence = Evidence(bool(session.ended), present, turn is not None or works, idle)
    liveness = decide_liveness(evidence)
    return Look(
        liveness,
        session,
        turn,
        transports_of(runtime, worker, session, liveness),
        max(markers.modified(layout.beat(session.id)), session.started_at),
        damaged,
    )


def last_sign(runtime: Runtime, worker: Worker, seen: Look) -> float:
    """When it last did something that left a trace: a hook, an event, a message, a line of log."""
    layout, logical = runtime.layout, worker.logical_session_id
    traces = [layout.outbox(worker.id), layout.output(worker.id), layout.errors(worker.id)]
    if logical:
        traces.append(layout.beat(logical))
    known = (seen.beat_at, worker.last_used_at, worker.created_at)
    return max(*known, *(markers.modified(path) for path in traces))


def transports_of(
    runtime: Runtime, worker: Worker, session: HostSession, liveness: Liveness
) -> tuple[str, ...]:
    """By which ways a turn can be made to happen in this session now."""
    if liveness is Liveness.EXITED:
        return ("resume",) if may_resume(runtime, worker) else ()
    found = []
    if session.host == "generic":
        return ("call",)
    if session.attended and os.path.exists(runtime.layout.wake(session.id)):
        found.append("watch")
    found.append("stop")
    if session.attended and session.terminal and runtime.config["delivery.tmux"] != "never":
        found.append("tmux")
    return tuple(found)


def describe_worker(runtime: Runtime, worker: Worker) -> WorkerReport:
    """Look at a worker once, with all that is shown of it."""
    from vyane_cli.delivery.view import progress_of

    seen = look(runtime, worker)
    mail = waiting(runtime, worker.id, worker.logical_session_id)
    session = seen.session
    marked = worker.status is WorkerStatus.STALE
    sign_s = last_sign(runtime, worker, seen) if marked else 0.0  # nobody else is judged by it
    return WorkerReport(
        worker=worker,
        status=shown_status(worker, seen.liveness, sign_s),
        session_id=session.id if session is not None else worker.session_id,
        last_heartbeat=seen.beat_at or None,
        last_used_at=max(worker.last_used_at, seen.beat_at) or None,
        liveness=seen.liveness,
        pending=mail.pending,
        oldest_pending_at=mail.oldest_ts,
        transports=seen.transports,
        pending_takeover_message_id=mail.takeover or None,
        discord_thread_id=_thread_of(runtime, worker.logical_session_id),
        host=session.host if session is not None else None,
        pid=session.process.pid if session is not None and session.process else None,
        turn=seen.turn.id if seen.turn is not None else None,
        progress=progress_of(runtime, worker),
        ambiguous=tuple(process.pid for process in session.others) if session is not None else (),
        damaged=seen.damaged or None,
    )


def _thread_of(runtime: Runtime, session: str) -> str | None:
    """The conversation that the session is bound to: the bindings are the one word on it."""
    place = place_of(bindings.load(runtime.layout).values(), session) if session else None
    return place.conversation.id if place is not None else None


def list_workers(
    runtime: Runtime, *, session: str = "", everything: bool = False
) -> list[WorkerReport]:
    """All workers that are not final, or all; of one logical session if it, or a worker, is named.

    NotFoundError names the nearest workers.
    """
    found = []
    workers = registry.Registry(runtime.layout).listing()
    if session and not session.startswith("vs-"):
        session = find_worker(session, workers).logical_session_id
    elif session and registry.load_logical_session(runtime.layout, session) is None:
        raise NotFoundError("logical session", session)
    for worker in workers:
        if session and worker.logical_session_id != session:
            continue
        if worker.final and not everything:
            continue
        found.append(describe_worker(runtime, worker))
    return found
