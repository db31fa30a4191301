"""Outcomes of delivery plans: a durable outbox of calls to the person and notes to senders.

Outcomes are saved before the plan is committed, and sent after it, without the plan's locks. A
crash between the two leaves them to the next call of any session, and to `gc`: those send the
outcomes of ended processes. A note is known by its id and an entry by its key, so neither comes
twice.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence

from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of, kept_call
from vyane_cli.errors import VyaneError, shortened
from vyane_cli.kernel import ids
from vyane_cli.kernel.process import Process, parse_process
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.mail.enqueue import Target, is_stored, store
from vyane_cli.mail.mailbox import parse_message, render_message
from vyane_cli.mail.message import (
    BOUNCED,
    Lane,
    Message,
    MessageKind,
    MessageStatus,
    ToKind,
    body_of,
    first_line,
    from_vyane,
)
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.storage import document, files, processes
from vyane_cli.storage.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from vyane_cli.home import Home
    from vyane_cli.storage.locks import Deadline


LEFT_MAX = 3
"""Most outcomes left by ended processes that one hook call sends."""


def keep_outcomes(
    home: Home, worker: str, name: str, calls: Sequence[str], expired: Sequence[Message]
) -> Untold | None:
    """Save the outcomes of a plan: calls to the person, and messages that expired.

    Call it before the plan is committed. Return the saved outcomes; None for a plan without any. An
    expired message of the quiet lane only informed, so its sender gets no note.
    """
    bounced = [message for message in expired if message.lane is not Lane.QUIET]
    if not calls and not bounced:
        return None
    made = [call_of(NeedKind.DELIVERY, worker=worker, text=text) for text in calls]
    found = Untold(
        home.new_id(home.clock().now_ms),
        home.me(),
        tuple((call.key, call.text) for call in made),
        tuple((message, name) for message in bounced),
    )
    keep(home.layout, found)
    return found


def tell(home: Home, found: Iterable[Untold], deadline: Deadline | None = None) -> None:
    """Send each outcome. One that fails is kept, and a later call sends it."""
    for one in found:
        try:
            for key, text in one.calls:
                call_person(home, kept_call(key, text), deadline=deadline)
            for message, target in one.expired:
                bounce(home, message, target, "ttl")
            done(home.layout, one)
        except VyaneError:
            continue  # a note whose durability is unknown is found by its id, and flushed again


def tell_left(home: Home, deadline: Deadline | None = None, most: int = LEFT_MAX) -> int:
    """Send the outcomes that ended processes left unsent, at most `most`.

    Return how many were tried.
    """
    listed = listing(home.layout)
    left = [one for one in listed if processes.is_present(one.by) is False][:most]
    tell(home, left, deadline)
    return len(left)


EXCERPT = 200


def bounce(home: Home, message: Message, target: str, reason: str) -> None:
    """Notify the sender of a message that it was not delivered.

    A person is called; an external program has no inbox and is not notified. The note's id follows
    from the message's id, so that a note that is already stored is not stored again.
    """
    if message.from_kind is FromKind.HUMAN:
        said = shortened(first_line(body_of(message)), EXCERPT)
        call_person(home, call_of(NeedKind.EXPIRED, message=message.id, target=target, said=said))
        return
    if message.from_kind is not FromKind.WORKER or not ids.is_safe_id(message.from_id):
        return
    clock = home.clock()
    text = home.templates.fill(
        "bounce", id=message.id, target=target, reason=reason, excerpt=first_line(body_of(message))
    )
    about = {BOUNCED: message.id, "status": str(MessageStatus.EXPIRED), "reason": reason}
    note = from_vyane(_note_id(message), clock.at, message.from_id, MessageKind.INFO, text, **about)
    note = note._replace(parent_message_id=message.id)
    path = home.layout.inbox(message.from_id)
    target_box = Target(ToKind.WORKER, message.from_id, path, message.from_id, lock=message.from_id)
    if not is_stored(home, target_box, note):
        store(home, target_box, note, clock)


def _note_id(message: Message) -> str:
    """Return the id of the note about an expired message, timed at the end of its TTL.

    The id is deterministic, so that a message bounces at most once.
    """
    over_ms = int((message.ts + message.ttl_seconds) * 1000)
    return ids.next_ulid(message.id, over_ms, hashlib.sha256(message.id.encode()).digest()[:10])


class Untold(NamedTuple):
    """The unsent outcomes of one plan: calls to the person, and messages that expired."""

    id: str
    by: Process
    calls: tuple[tuple[str, str], ...]
    """(key, text) of each call."""
    expired: tuple[tuple[Message, str], ...]
    """Each message, with the name of its target."""


def keep(layout: Layout, untold: Untold) -> None:
    """Save outcomes. On disk when this returns."""
    data = {
        "id": untold.id,
        "by": untold.by._asdict(),
        "calls": [list(call) for call in untold.calls],
        "expired": [[render_message(message), target] for message, target in untold.expired],
    }
    document.save(layout.untold(untold.id), data, layout.root)


def listing(layout: Layout) -> list[Untold]:
    """Return all saved outcomes, oldest first. Damaged files are skipped; `doctor` names them."""
    found, folder = [], layout("queue", "untold")
    for name in files.json_names(folder):
        try:
            kept = document.load_as(os.path.join(folder, name + ".json"), _parse, "notice")
        except VyaneError:
            continue
        found += [kept] if kept is not None else []
    return found


def _parse(data: Mapping[str, Any]) -> Untold:
    return Untold(
        str(data["id"]),
        parse_process(data["by"]) or Process("", "", 0, 0),
        tuple((str(key), str(text)) for key, text in data["calls"]),
        tuple(
            (message, str(target))
            for raw, target in data["expired"]
            if (message := parse_message(raw)) is not None
        ),
    )


def done(layout: Layout, untold: Untold) -> None:
    """Remove outcomes that were sent completely."""
    files.remove(layout.untold(untold.id))
