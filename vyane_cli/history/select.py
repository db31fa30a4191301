"""Which timeline a person or program means: by worker, by logical session, or one's own."""

from __future__ import annotations

import os
from typing import NamedTuple

from vyane_cli.errors import InvalidInputError, NotFoundError
from vyane_cli.kernel.ids import is_logical_session_id, is_safe_id
from vyane_cli.sessions import registry
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.session import HostSession
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.sessions.worker import Worker, find_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


class Found(NamedTuple):
    """A timeline's place, and the worker that it is about, if one is known."""

    session: str
    """The logical session."""
    path: str
    worker: Worker | None = None
    host_session: HostSession | None = None

    @property
    def name(self) -> str:
        """What a person calls it."""
        return self.worker.name if self.worker is not None else self.session


def find_timeline(runtime: Runtime, who: str) -> Found:
    """By worker name, worker id or its beginning, vs-id, or host session id; empty: one's own.

    The timeline itself need not exist yet. NotFoundError names the nearest workers.
    """
    layout = runtime.layout
    workers = registry.Registry(layout).listing()
    if not who:
        speaker = whoami(runtime)
        if speaker.kind is not FromKind.WORKER or speaker.session is None:
            raise InvalidInputError(
                "session",
                "",
                "given",
                missing=True,
                hint="outside of a session name one: `vyane workers`",
            )
        worker = next((w for w in workers if w.id == speaker.id), None)
        return _found(runtime, speaker.session.logical_session, worker)
    if is_logical_session_id(who):
        known = registry.load_logical_session(layout, who)
        if known is None and not os.path.isdir(os.path.dirname(layout.timeline(who))):
            raise NotFoundError("session", who)
        of = [w for w in workers if w.logical_session_id == who]
        return _found(runtime, who, of[-1] if of else None)
    try:
        worker = find_worker(who, workers)
    except NotFoundError:
        session = registry.load_session(layout, who) if is_safe_id(who) else None
        if session is None:
            raise
        worker = next((w for w in workers if w.id == session.worker), None)
        return _found(runtime, session.logical_session, worker)
    return _found(runtime, worker.logical_session_id, worker)


def _found(runtime: Runtime, session: str, worker: Worker | None) -> Found:
    layout = runtime.layout
    host = registry.current_session(layout, worker.id) if worker is not None else None
    return Found(session, layout.timeline(session), worker, host)
