"""Facts that vyane itself appends to a session's timeline: diagnostics and control facts."""

from __future__ import annotations

from vyane_cli.kernel.clock import Clock
from vyane_cli.sessions import registry
from vyane_cli.sessions.session import HostSession
from vyane_cli.storage.locks import LockKind
from vyane_cli.timeline import log, turns
from vyane_cli.timeline.events import EventKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from vyane_cli.home import Home
    from vyane_cli.sessions.worker import Worker


def diagnose(home: Home, session: HostSession, code: str, text: str) -> None:
    """Append a Diagnostic, in the open turn if one exists. On disk when this returns."""
    identity = log.Identity(
        session.logical_session, session.worker, session.trace, session.parent_span
    )
    with home.held((LockKind.TIMELINE, session.logical_session)):
        payload = {"code": code, "text": text}
        _append(home, identity, EventKind.DIAGNOSTIC, payload, home.clock())


def append_fact(
    home: Home,
    worker: str,
    logical: str,
    kind: EventKind,
    payload: Mapping[str, Any],
    clock: Clock,
) -> None:
    """Append one control fact to a worker's timeline. The caller holds the timeline's lock.

    On disk when this returns.
    """
    session = registry.current_session(home.layout, worker)
    known = session is not None and session.logical_session == logical
    identity = log.Identity(logical, worker)
    if session is not None and known:
        identity = identity._replace(trace=session.trace, parent_span=session.parent_span)
    _append(home, identity, kind, payload, clock)


def note_in_timeline(
    home: Home, worker: Worker, kind: EventKind, payload: Mapping[str, Any]
) -> None:
    """Append one event to a worker's timeline, in its open turn if one exists."""
    logical = worker.logical_session_id
    if not logical:
        return
    session = registry.current_session(home.layout, worker.id)
    span = session.parent_span if session is not None else worker.span_id
    identity = log.Identity(logical, worker.id, worker.trace_id, span)
    with home.held((LockKind.TIMELINE, logical)):
        _append(home, identity, kind, payload, home.clock())


def _append(
    home: Home,
    identity: log.Identity,
    kind: EventKind,
    payload: Mapping[str, Any],
    clock: Clock,
) -> None:
    layout = home.layout
    path = layout.timeline(identity.session)
    opened = log.Timeline(path, layout.root, identity, home.entropy(16).hex())
    try:
        opened.commit(turns.emit(turns.Transition(opened.head), kind, payload, clock))
    finally:
        opened.close()
