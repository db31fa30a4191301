"""Bounce: tell the sender of a message that it was not delivered, and why."""

from __future__ import annotations

import hashlib

from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of
from vyane_cli.errors import shortened
from vyane_cli.kernel import ids
from vyane_cli.mail.enqueue import Target, is_stored, store
from vyane_cli.mail.message import (
    BOUNCED,
    Kind,
    Message,
    Status,
    ToKind,
    body_of,
    first_line,
    from_vyane,
)
from vyane_cli.sessions.speaker import FromKind

EXCERPT = 200

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


def bounce(runtime: Runtime, message: Message, target: str, reason: str) -> None:
    """Tell the sender of a message that it was not delivered. A program outside has no inbox.

    A person is called. The note's id follows from the message's: one that is there is not stored
    again.
    """
    if message.from_kind is FromKind.HUMAN:
        said = shortened(first_line(body_of(message)), EXCERPT)
        call_person(
            runtime, call_of(NeedKind.EXPIRED, message=message.id, target=target, said=said)
        )
        return
    if message.from_kind is not FromKind.WORKER or not ids.is_safe_id(message.from_id):
        return
    clock = runtime.clock()
    text = runtime.templates.fill(
        "bounce", id=message.id, target=target, reason=reason, excerpt=first_line(body_of(message))
    )
    about = {BOUNCED: message.id, "status": str(Status.EXPIRED), "reason": reason}
    note = from_vyane(_note_id(message), clock.at, message.from_id, Kind.INFO, text, **about)
    note = note._replace(parent_message_id=message.id)
    path = runtime.layout.inbox(message.from_id)
    target_box = Target(ToKind.WORKER, message.from_id, path, message.from_id, lock=message.from_id)
    if not is_stored(runtime, target_box, note):
        store(runtime, target_box, note, clock)


def _note_id(message: Message) -> str:
    """One message, one note: of the moment at which its time was over."""
    over_ms = int((message.ts + message.ttl_seconds) * 1000)
    return ids.next_ulid(message.id, over_ms, hashlib.sha256(message.id.encode()).digest()[:10])
