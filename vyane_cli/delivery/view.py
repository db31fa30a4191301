"""Progress: what a worker said last of its work, or did last. It changes nothing."""

from __future__ import annotations

from vyane_cli.errors import CorruptStateError
from vyane_cli.mail import inbox
from vyane_cli.mail.message import Kind, body_of, first_line
from vyane_cli.sessions.worker import Worker
from vyane_cli.timeline import log
from vyane_cli.timeline.events import EventKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime

PROGRESS_MAX = 80
TAIL_BYTES = 16 * 1024
"""What a worker did last is looked for in so much of its timeline's end."""


def progress_of(runtime: Runtime, worker: Worker) -> str:
    """What it said last of its work, or did last: one line of at most 80 characters."""
    if not worker.logical_session_id:
        return ""
    text, at = "", 0.0
    path = runtime.layout.timeline(worker.logical_session_id)
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
    said = inbox.last_sent(runtime.layout.outbox(worker.id))
    if said is not None and said.kind is Kind.STATUS_UPDATE and said.ts >= at:
        text = body_of(said)
    text = first_line(text)
    return text if len(text) <= PROGRESS_MAX else text[: PROGRESS_MAX - 1] + "…"
