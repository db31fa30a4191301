"""Look-up of messages: one by its id in any inbox or archive, or a list of a session's messages."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vyane_cli.errors import (
    ConflictError,
    CorruptStateError,
    InvalidInputError,
    NotFoundError,
    TooNewError,
)
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.kernel.values import InJson
from vyane_cli.mail import blobs, inbox
from vyane_cli.mail.address import check_channel
from vyane_cli.mail.inbox import boxes_of
from vyane_cli.mail.mailbox import MailEntry, brought, fold, render_entry
from vyane_cli.mail.message import Message, body_of
from vyane_cli.mail.routing import CHANNEL
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import find_worker
from vyane_cli.storage import files, journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


IDS = "`vyane inbox WORKER --all` lists what a worker got, with ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """A message with its state, as lists show it."""

    entry: MailEntry = field(metadata={InJson: InJson(spread=True, form=render_entry)})


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageText:
    """The whole text of a message."""

    id: str
    text: str


class FoundMessage(NamedTuple):
    """A message with its state, and every record about it in file order."""

    entry: MailEntry
    records: tuple[dict[str, Any], ...]
    path: str

    @property
    def message(self) -> Message:
        """Return the message itself."""
        return self.entry.message


def find_message(home: Home, text: str) -> FoundMessage:
    """Find a message by its id, or by a unique beginning or end of it (six characters or more)."""
    typed, text = text, text.strip().upper()
    if not is_safe_id(text) or len(text) < 6:
        raise InvalidInputError(
            "message", typed, "a message id, or six of its characters", hint=IDS
        )
    candidates: dict[str, str] = {}
    for path in message_files(home):
        if not journal.contains(path, text.encode()):
            continue
        for line in journal.read(path):
            record = line.record
            if record is None or record.get("op") != "message":
                continue
            message_id = str(brought(record).get("id"))
            if message_id.startswith(text) or message_id.endswith(text):
                candidates.setdefault(message_id, path)
    if not candidates:
        raise NotFoundError("message", typed, hint=IDS)
    if len(candidates) > 1:
        raise ConflictError(
            f"{text!r} may be {', '.join(sorted(candidates)[:5])}",
            slug="ambiguous",
            hint="type more of the id",
        )
    message_id, path = next(iter(candidates.items()))
    records = inbox.records_of(path, message_id)
    entry = fold((0, record) for record in records).find(message_id)
    if entry is None:
        raise NotFoundError("message", text)
    return FoundMessage(entry, tuple(records), path)


def whole_text(home: Home, message: Message) -> str:
    """Return the whole text of a message; that of a long result is read from its blob."""
    reference = message.payload.get("summary_ref")
    if not isinstance(reference, Mapping):
        return body_of(message)
    text = blobs.read_blob(home.layout, str(reference.get("sha256")))
    if text is None:
        raise NotFoundError("text of", message.id, hint="its file under messages/blobs is gone")
    return text


def message_files(home: Home) -> list[str]:
    """Return the paths of every inbox, then of the archives, newest month first."""
    layout = home.layout
    boxes = [
        layout("messages", "inbox", name)
        for name in files.listdir(layout("messages", "inbox"))
        if name.endswith(".jsonl") and not name.startswith(".")
    ]
    months = reversed(files.listdir(layout("messages", "archive")))
    return [*boxes, *(layout.archive(month) for month in months)]


LIMIT_MAX = 1000


class Listing(NamedTuple):
    """Messages by time, and the damaged lines, whose messages are missing from the rows."""

    rows: tuple[ShownMessage, ...]
    damaged: list[CorruptStateError]


def list_messages(
    home: Home,
    who: str,
    *,
    kind: str = "",
    status: str = "",
    since_s: float | None = None,
    limit: int = 100,
    everything: bool = False,
) -> Listing:
    """Return the messages of a worker or logical session by time, the newest `limit` of them.

    By default these are the unsettled messages, and the last settled ones that are still in the
    inbox.
    """
    if not 1 <= limit <= LIMIT_MAX:
        raise InvalidInputError("limit", limit, f"between 1 and {LIMIT_MAX}")
    entries: list[MailEntry] = []
    damaged: list[CorruptStateError] = []
    for path in _paths(home, who):
        reading = inbox.read(path, whole=everything or bool(since_s))
        for offset, name in reading.unknown:
            line = journal.line_number(path, offset)
            raise TooNewError(path, f"a message of the unknown kind {name!r}", line=line)
        damaged += [journal.error_of(path, damage) for damage in reading.damage]
        entries += reading.mailbox.entries
    entries = [
        entry
        for entry in entries
        if (not kind or entry.message.kind == kind)
        and (not status or entry.status == status)
        and (since_s is None or entry.message.ts >= since_s)
    ]
    entries.sort(key=lambda entry: (entry.message.ts, entry.message.id))
    return Listing(tuple(ShownMessage(entry=entry) for entry in entries[-limit:]), damaged)


def _paths(home: Home, who: str) -> Sequence[str]:
    if who.startswith(CHANNEL):
        name = who.removeprefix(CHANNEL)
        path = home.layout.channel_inbox(name)
        if not os.path.exists(path):
            check_channel(home, name)
        return [path]
    if who.startswith("vs-"):
        logical = registry.load_logical_session(home.layout, who)
        if logical is None:
            raise NotFoundError("logical session", who)
        return boxes_of(home, logical.worker, logical.id)
    worker = find_worker(who, registry.Registry(home.layout).listing())
    return boxes_of(home, worker.id, worker.logical_session_id)
