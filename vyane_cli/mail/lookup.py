"""Look-ups: a message by its id, wherever it lies; the records that tell its story."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vyane_cli.children import launches
from vyane_cli.errors import ConflictError, InvalidInputError, NotFoundError
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.kernel.values import InJson
from vyane_cli.mail import inbox
from vyane_cli.mail.mailbox import Entry, brought, fold, render_entry
from vyane_cli.mail.message import Message, body_of
from vyane_cli.storage import files, journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


IDS = "`vyane inbox WORKER --all` lists what a worker got, with ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """A message with its state, as lists show it."""

    entry: Entry = field(metadata={InJson: InJson(spread=True, form=render_entry)})


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageText:
    """All of a message's text."""

    id: str
    text: str


class Found(NamedTuple):
    """A message with its state, and every record about it in file order."""

    entry: Entry
    records: tuple[dict[str, Any], ...]
    path: str

    @property
    def message(self) -> Message:
        """The message itself."""
        return self.entry.message


def find_message(runtime: Runtime, text: str) -> Found:
    """A message by its id, or by a unique beginning or end of it (six characters or more)."""
    typed, text = text, text.strip().upper()
    if not is_safe_id(text) or len(text) < 6:
        raise InvalidInputError(
            "message", typed, "a message id, or six of its characters", hint=IDS
        )
    candidates: dict[str, str] = {}
    for path in message_files(runtime):
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
    return Found(entry, tuple(records), path)


def whole_text(runtime: Runtime, message: Message) -> str:
    """All of a message's text: that of a long result lies in a file of its own."""
    reference = message.payload.get("summary_ref")
    if not isinstance(reference, Mapping):
        return body_of(message)
    text = launches.read_blob(runtime.layout, str(reference.get("sha256")))
    if text is None:
        raise NotFoundError("text of", message.id, hint="its file under messages/blobs is gone")
    return text


def message_files(runtime: Runtime) -> list[str]:
    """Every inbox, then the archives, newest month first."""
    layout = runtime.layout
    boxes = [
        layout("messages", "inbox", name)
        for name in files.listdir(layout("messages", "inbox"))
        if name.endswith(".jsonl") and not name.startswith(".")
    ]
    months = reversed(files.listdir(layout("messages", "archive")))
    return [*boxes, *(layout.archive(month) for month in months)]
