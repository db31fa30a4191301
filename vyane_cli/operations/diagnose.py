"""Diagnose: put a session-level Diagnostic into a session's timeline."""

from vyane_cli.core import turns
from vyane_cli.core.events import EventKind
from vyane_cli.core.sessions import HostSession
from vyane_cli.store import timeline
from vyane_cli.store.locks import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.runtime import Runtime


def diagnose(runtime: "Runtime", session: HostSession, code: str, text: str) -> None:
    """Append a Diagnostic, in the open turn if there is one. On disk when this returns."""
    layout = runtime.layout
    identity = timeline.Identity(
        session.logical_session, session.worker, session.trace, session.parent_span
    )
    path = layout.timeline(session.logical_session)
    with runtime.held((Kind.TIMELINE, session.logical_session)):
        opened = timeline.Timeline(path, layout.root, identity, runtime.entropy(16).hex())
        try:
            state = turns.emit(
                turns.Transition(opened.head),
                EventKind.DIAGNOSTIC,
                {"code": code, "text": text},
                runtime.clock(),
            )
            opened.commit(state)
        finally:
            opened.close()
