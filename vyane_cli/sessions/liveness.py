"""Liveness of a worker, read from its session's files, process and host. Changes nothing."""

from __future__ import annotations

from typing import NamedTuple

from vyane_cli.errors import CorruptStateError
from vyane_cli.sessions import markers, registry
from vyane_cli.sessions.liveness_rules import Liveness, LivenessEvidence, decide_liveness
from vyane_cli.sessions.session import HostSession
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import processes
from vyane_cli.timeline import log
from vyane_cli.timeline.turns import OpenTurn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


class Look(NamedTuple):
    """The state of one worker at one moment."""

    liveness: Liveness
    session: HostSession | None
    turn: OpenTurn | None
    beat_at: float
    damaged: str = ""


def look(home: Home, worker: Worker) -> Look:
    """Read the worker's liveness from its session's files.

    A damaged timeline counts as no open turn.
    """
    layout = home.layout
    session, damaged = None, ""
    try:
        session = registry.current_session(layout, worker.id)
    except CorruptStateError as error:
        damaged = error.message
    if session is None:
        never = Liveness.UNKNOWN if not worker.final else Liveness.EXITED
        return Look(liveness=never, session=None, turn=None, beat_at=0.0, damaged=damaged)
    try:
        head = log.read_head(layout.timeline(session.logical_session))
    except CorruptStateError as error:
        head, damaged = None, error.message
    turn = head.open if head is not None else None
    if turn is not None and processes.is_present(turn.process) is False:
        turn = None  # the turn ended with its process; the session's next call records that
    present = processes.is_present(session.process)
    host = home.host(session.host)
    idle = (
        turn is not None
        and host is not None
        and session.process is not None
        and host.says_idle(session.config_dir, session.process.pid, session.id, turn.at)
    )
    # a spawned program without hooks records no turns: it counts as busy while its process exists
    works = session.host == "generic" and not session.attended and not worker.final
    evidence = LivenessEvidence(bool(session.ended), present, turn is not None or works, idle)
    liveness = decide_liveness(evidence)
    return Look(
        liveness=liveness,
        session=session,
        turn=turn,
        beat_at=max(markers.modified(layout.beat(session.id)), session.started_at),
        damaged=damaged,
    )


def last_sign(home: Home, worker: Worker, seen: Look) -> float:
    """Return when the worker last left a trace, in Unix seconds.

    Traces are a hook call, an event, a message and a line of log.
    """
    layout, logical = home.layout, worker.logical_session_id
    traces = [layout.outbox(worker.id), layout.output(worker.id), layout.errors(worker.id)]
    if logical:
        traces.append(layout.beat(logical))
    known = (seen.beat_at, worker.last_used_at, worker.created_at)
    return max(*known, *(markers.modified(path) for path in traces))
