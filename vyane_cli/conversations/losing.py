"""Losing: a conversation that is gone ends its binding, and the session's lead is told of it once.

A crash after the end leaves a lead that was not told; the timeline and `doctor` say it in any case.
"""

from __future__ import annotations

from contextlib import suppress

from vyane_cli.conversations.binding import Binding, BindingStatus, EndReason
from vyane_cli.conversations.bindings_2 import end_one
from vyane_cli.conversations.run import Run
from vyane_cli.errors import VyaneError
from vyane_cli.mail.message import VYANE, Kind
from vyane_cli.mail.send import Draft, send
from vyane_cli.sessions import registry
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.sessions.worker import Worker

SPEAKER = Speaker(FromKind.EXTERNAL, VYANE, VYANE)


def lose(run: Run, binding: Binding) -> Binding | None:
    """End it without last words, for nobody could read them. None: it had ended before."""
    ended = end_one(run.runtime, binding, EndReason.GONE, status=BindingStatus.ENDED)
    if ended is not None and not run.settings.recreate:  # else another is made at once
        with suppress(VyaneError):
            _tell(run, ended)
    return ended


def _tell(run: Run, binding: Binding) -> None:
    """A quiet message: it starts no turn."""
    layout = run.runtime.layout
    workers = registry.Registry(layout).workers
    session = registry.load_logical_session(layout, binding.target_session)
    worker = workers.get(session.worker) if session is not None else None
    lead = _lead_of(worker, workers.get((worker and worker.parent_worker_id) or ""))
    if worker is None or lead is None:
        return
    text = run.texts.fill(
        "gone", name=worker.name, channel=run.name, place=binding.conversation.id
    ).rstrip()
    key = f"gone:{binding.generation}"
    send(run.runtime, Draft(lead.id, text, Kind.INFO, idempotency_key=key), SPEAKER)


def _lead_of(worker: Worker | None, parent: Worker | None) -> Worker | None:
    """The parent, where it is there; else the session itself."""
    return next((one for one in (parent, worker) if one is not None and not one.final), None)
