"""A host without hooks: which worker's mail a call is for."""

from __future__ import annotations

from vyane_cli.delivery.transaction import Desk
from vyane_cli.errors import InvalidInputError, NotFoundError, RefusedError, VyaneError
from vyane_cli.hosts.port import Event, HookCall
from vyane_cli.mail.outcomes import tell
from vyane_cli.sessions import registry
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.session import HostSession
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.sessions.worker import find_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


def prove(runtime: Runtime, session: HostSession) -> None:
    """An answer proves that the worker has read what it got: consumed, as by its next call."""
    host = runtime.host(session.host)
    if host is None:
        return
    call = HookCall(session.host, Event.CALL, "reply", session.id, cwd=session.cwd)
    try:
        deadline = runtime.deadline()
        desk = Desk(runtime, session, call, host, deadline, rerun=True)
        desk.claim()
        tell(runtime, desk.untold, deadline)
    except VyaneError:
        return  # the answer is stored; its next call proves it


def call_for_worker(runtime: Runtime, who: str, *, looking: bool = False) -> HookCall:
    """The call of a worker for its mail; its own when `who` is empty and it runs in a session."""
    workers = registry.Registry(runtime.layout)
    if not who:
        speaker = whoami(runtime)
        if speaker.kind is not FromKind.WORKER:
            raise InvalidInputError("worker", who, "given", missing=True, hint="--worker NAME")
        who = speaker.id
    worker = find_worker(who, workers.listing())
    session_id = registry.read_current(runtime.layout, worker.id) or worker.session_id or ""
    session = registry.load_session(runtime.layout, session_id) if session_id else None
    if session is None:
        raise NotFoundError("session of worker", worker.name)
    if session.host != "generic" and not looking:
        raise RefusedError(
            f"{worker.name} is a session of {session.host}: its own hooks read its mail",
            slug="hooked",
            hint="`vyane inbox` shows it, `tick --dry-run` what its next call would do",
        )
    return HookCall(session.host, Event.CALL, "call", session.id, cwd=session.cwd)
