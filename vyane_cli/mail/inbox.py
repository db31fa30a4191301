"""An inbox on disk: fold the unsettled messages, append changes, compact.

The head in the last line has the offset of the oldest unsettled message, so that the cost of
reading depends on the unsettled messages, not on all that were ever sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.mail.mailbox import (
    Head,
    Mailbox,
    MailEntry,
    Op,
    advance,
    brought,
    fold,
    ids_of,
    parse_head,
    parse_message,
    render_head,
    render_message,
    takeover_of,
)
from vyane_cli.mail.message import Message
from vyane_cli.storage import document, files, journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vyane_cli.home import Home
    from vyane_cli.mail.mailbox import InboxChange


class InboxReading(NamedTuple):
    """An inbox as read without its lock."""

    mailbox: Mailbox
    damage: tuple[journal.DamagedLine, ...] = ()
    unknown: tuple[tuple[int, str], ...] = ()
    """(byte offset, kind) of messages whose kind this version does not know."""


def read(path: str, *, whole: bool = False) -> InboxReading:
    """Fold an inbox without its lock: from the oldest unsettled message, or the `whole` file."""
    start = 0
    if not whole:
        start = read_head(path).open
    return _fold(path, start)


def read_head(path: str) -> Head:
    """Return the head of an inbox from its last line, without its lock."""
    last = journal.read_last(path)
    return parse_head(last.record.get("head")) if last is not None and last.record else Head()


def _fold(path: str, start: int) -> InboxReading:
    lines = list(journal.read(path, start))
    damage = tuple(line.damage for line in lines if line.damage is not None)
    good = [(line.offset, line.record) for line in lines if line.record is not None]
    mailbox = fold(good)
    messages = sum(1 for _, record in good if record.get("op") == Op.MESSAGE)
    unknown = _unknown(good) if messages > len(mailbox.entries) else ()
    return InboxReading(mailbox, damage, unknown)


def _unknown(records: Sequence[tuple[int, Mapping[str, Any]]]) -> tuple[tuple[int, str], ...]:
    return tuple(
        (offset, str(brought(record).get("kind")))
        for offset, record in records
        if record.get("op") == Op.MESSAGE and parse_message(record.get("message")) is None
    )


def records_of(path: str, message_id: str) -> list[dict[str, Any]]:
    """Return every record that names the message, in file order, for `why`."""
    found = []
    for line in journal.read(path):
        record = line.record
        if record is None:
            continue
        own = brought(record).get("id") if record.get("op") == Op.MESSAGE else None
        if own == message_id or message_id in ids_of(record):
            found.append(dict(record))
    return found


def last_sent(outbox: str) -> Message | None:
    """Return the last message copied to a worker's outbox; None when it has none."""
    last = journal.read_last(outbox)
    return parse_message(last.record.get("message")) if last is not None and last.record else None


def append(path: str, root: str, message: Message, clock: Clock) -> None:
    """Append a pending message, under the inbox's lock. On disk when this returns.

    Nothing is folded: the head of the last line is copied, so that the cost of a send does not
    depend on the waiting mail. The head's `open` may name a message that is already settled; the
    next change moves it. StorageError: nothing was stored. DurabilityUnknownError: stored, not
    confirmed.
    """
    writer = journal.open_writer(path, root)
    try:
        last = writer.last.record if writer.last is not None else None
        record = {
            "op": Op.MESSAGE,
            "message": render_message(message),
            "boot": clock.boot,
            "boot_ms": clock.boot_ms,
            "head": render_head(parse_head(last.get("head")) if last is not None else Head()),
        }
        writer.append([record])
    finally:
        writer.close()


class InboxStep(NamedTuple):
    """One record about some messages, and the head after it."""

    op: Op
    ids: Sequence[str]
    fields: Mapping[str, Any]
    head: Head


def steps_of(changes: Iterable[InboxChange]) -> list[InboxStep]:
    """Return the steps that planned changes of one inbox write to it."""
    return [InboxStep(one.op, one.ids, one.fields, one.head) for one in changes]


class Inbox:
    """An inbox opened under its lock: folded, ready for changes."""

    __slots__ = ("entries", "head", "path", "root", "writer")

    def __init__(self, path: str, root: str) -> None:
        self.path, self.root = path, root
        self.writer = journal.open_writer(path, root)
        self.entries: dict[str, MailEntry] = {}
        self.head = Head()
        try:
            self._load()
        except BaseException:
            self.writer.close()
            raise

    def _load(self) -> None:
        last = self.writer.last
        if last is None or last.record is None:
            if self.writer.end:
                self.repair()
            return
        start = parse_head(last.record.get("head")).open
        reading = _fold(self.path, start)
        if reading.damage:
            self.repair()
            return
        self.head = reading.mailbox.head
        self.entries = {entry.message.id: entry for entry in reading.mailbox.entries}

    @property
    def mailbox(self) -> Mailbox:
        """Return the current head and messages of the inbox."""
        return Mailbox(self.head, tuple(self.entries.values()))

    def close(self) -> None:
        """Close the file."""
        self.writer.close()

    def change(
        self,
        op: Op,
        ids: Sequence[str],
        fields: Mapping[str, Any],
        head: Head,
        *,
        durable: bool = True,
    ) -> None:
        """Append one record about these messages, with the head after it."""
        self.change_all([InboxStep(op, ids, fields, head)], durable=durable)

    def change_all(self, steps: Sequence[InboxStep], *, durable: bool = True) -> None:
        """Append a record for each step, with one call and one flush. A crash keeps a prefix."""
        records = []
        for op, ids, fields, head in steps:
            for message_id in ids:
                if message_id in self.entries:
                    self.entries[message_id] = advance(self.entries[message_id], op, fields)
            self.head = head
            record = {"op": op, "ids": list(ids), **fields, "head": render_head(self._head(head))}
            records.append(record)
        self.writer.append(records, durable=durable)

    def _head(self, head: Head) -> Head:
        """Return `head` with the offset of the oldest unsettled message.

        When every message is settled, it is the offset of the record about to be appended: to begin
        at a settled record is harmless.
        """
        offsets = [e.offset for e in self.entries.values() if not e.settled]
        return head._replace(open=min(offsets, default=self.writer.end))

    def repair(self) -> None:
        """Quarantine damaged lines whole; the sound records become the new file."""
        self._rewrite(journal.sound_records(self.writer))

    def _rewrite(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Replace the file by these records with recomputed heads.

        A crash leaves the old or the new file.
        """
        lines: list[bytes] = []
        offset = 0
        entries: dict[str, MailEntry] = {}
        waiting: dict[str, MailEntry] = {}  # in file order
        head = Head()
        for record in records:
            box = fold([(offset, record)])
            head = box.head
            for entry in box.entries:
                if entry.message.id not in entries:
                    entries[entry.message.id] = waiting[entry.message.id] = entry
            for message_id in ids_of(record):
                if message_id in entries and record.get("op") in tuple(Op):
                    entry = advance(entries[message_id], Op(record["op"]), record)
                    entries[message_id] = entry
                    if entry.settled:
                        waiting.pop(message_id, None)
            oldest = next(iter(waiting.values())).offset if waiting else offset
            plain = {k: v for k, v in record.items() if k not in ("v", "crc")}
            lines.append(
                document.encode_line({**plain, "head": render_head(head._replace(open=oldest))})
            )
            offset += len(lines[-1])
        files.replace(self.path, b"".join(lines), mode=files.FILE_MODE)
        before, self.writer = self.writer, journal.open_writer(self.path, self.root)
        before.close()
        self.head, self.entries = head, entries

    def drop(self, ids: frozenset[str]) -> None:
        """Rewrite the file without these messages, which are already in the archive."""
        kept: list[Mapping[str, Any]] = []
        for record in journal.sound_records(self.writer):
            if record.get("op") == Op.MESSAGE:
                if brought(record).get("id") not in ids:
                    kept.append(record)
                continue
            left = [one for one in ids_of(record) if one not in ids]
            if left:
                kept.append({**record, "ids": left})
        last = self.head
        if not kept or parse_head(kept[-1].get("head")) != last:
            # the head (handshake, rate guard) outlives the messages that made it
            kept.append({"op": Op.RELEASED, "ids": [], "head": render_head(last)})
        self._rewrite(kept)


def exists(path: str) -> bool:
    """Return whether the inbox file exists."""
    return os.path.exists(path)


def boxes_of(home: Home, worker_id: str, logical: str) -> list[str]:
    """Return the paths of the inboxes that a worker reads."""
    layout = home.layout
    paths = [layout.inbox(worker_id)]
    if logical and exists(layout.session_inbox(logical)):
        paths.append(layout.session_inbox(logical))
    return paths


class Waiting(NamedTuple):
    """The mail that waits in the inboxes of a worker."""

    pending: int
    oldest_ts: float | None
    takeover: str = ""
    """Id of the open takeover; empty when none is open."""


def waiting(home: Home, worker_id: str, logical: str) -> Waiting:
    """Return how many messages are pending, the time of the oldest, and the open takeover."""
    boxes = [read(path).mailbox for path in boxes_of(home, worker_id, logical)]
    pending = [entry.message.ts for box in boxes for entry in box.pending]
    return Waiting(len(pending), min(pending, default=None), takeover_of(boxes))
