"""The archive: settled messages by the month in which they were sent, with all their records.

The file is `messages/archive/YYYY-MM/messages.jsonl` (month of the message's `ts`, in UTC). Each
line is a record as the inbox had it, without its head and about one message only, so that a fold of
the lines of one id gives that message. Only `gc` writes the archive, under the archive's lock, and
flushes it before the inbox is rewritten. A crash in between leaves a message in both; its next
archiving appends the missing records, which are then none.

A purge removes the text from archived messages (and from the copies in outboxes): one rewrite of a
file, under its lock, that keeps every id and every step of every message.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from vyane_cli.mail import inbox
from vyane_cli.mail.mailbox import MailEntry, Op, brought, fold, ids_of
from vyane_cli.mail.message import MessageStatus
from vyane_cli.storage import document, files, journal, locks
from vyane_cli.storage.layout import Layout

Records = Sequence[Mapping[str, Any]]


class SettledMessage(NamedTuple):
    """A settled message, which can no longer change, and its records in file order."""

    entry: MailEntry
    records: Records

    @property
    def month(self) -> str:
        """Return the month (`YYYY-MM`) of the archive that the message belongs to."""
        return time.strftime("%Y-%m", time.gmtime(max(self.entry.message.ts, 0)))

    @property
    def at(self) -> float:
        """Return when the message was settled, in Unix seconds; if expired, the end of its TTL."""
        message = self.entry.message
        if self.entry.status is MessageStatus.EXPIRED:
            return message.ts + message.ttl_seconds
        at = self.records[-1].get("at")
        return float(at) if isinstance(at, int | float) else message.ts


def settled(path: str, before_s: float) -> list[SettledMessage]:
    """Return the messages of an inbox that were settled before a moment. Takes no lock.

    One pass: the cost depends on the size of the file, not on the number of messages.
    """
    own: dict[str, list[dict[str, Any]]] = {}
    for line in journal.read(path):
        for message_id, record in _about(line.record or {}):
            own.setdefault(message_id, []).append(record)
    found = []
    for message_id, records in own.items():
        entry = fold((0, record) for record in records).find(message_id)
        if entry is not None and entry.settled:
            one = SettledMessage(entry, records)
            if one.at <= before_s:
                found.append(one)
    return found


def _about(record: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (id, record without the other ids) for each message that the record is about."""
    plain = {key: value for key, value in record.items() if key not in ("v", "crc", "head")}
    if record.get("op") == Op.MESSAGE:
        yield str(brought(record).get("id")), plain
        return
    for message_id in ids_of(record):
        yield message_id, {**plain, "ids": [message_id]}


def keep(layout: Layout, messages: Sequence[SettledMessage], deadline: locks.Deadline) -> None:
    """Append settled messages to the archive. On disk when this returns.

    Records that are already archived are not written again. A crash keeps a prefix of the records;
    the next call adds the rest.
    """
    months: dict[str, list[SettledMessage]] = {}
    for one in messages:
        months.setdefault(one.month, []).append(one)
    with locks.held(layout.root, [(locks.LockKind.ARCHIVE, "")], deadline):
        for month, ones in sorted(months.items()):
            path = layout.archive(month)
            there = _count(path, {one.entry.message.id for one in ones})
            missing: list[Mapping[str, Any]] = []
            for one in ones:
                missing += one.records[there.get(one.entry.message.id, 0) :]
            writer = journal.open_writer(path, layout.root)
            try:
                writer.append(missing)  # without records: it still flushes what a crash left
            finally:
                writer.close()


def _count(path: str, ids: Collection[str]) -> dict[str, int]:
    """Return how many records of each of these messages the archive has."""
    counts: dict[str, int] = {}
    for line in journal.read(path):
        for message_id, _ in _about(line.record or {}):
            if message_id in ids:
                counts[message_id] = counts.get(message_id, 0) + 1
    return counts


def cut(path: str, root: str, ids: Collection[str]) -> None:
    """Remove archived messages from their inbox. The caller holds the inbox's lock.

    Damaged lines are quarantined first, because a rewrite must not lose them. A crash leaves the
    old or the new file.
    """
    box = inbox.Inbox(path, root)
    try:
        box.drop(frozenset(ids))
    finally:
        box.close()


class Purged(NamedTuple):
    """The messages and blobs that a purge of one file affected."""

    ids: tuple[str, ...] = ()
    blobs: tuple[str, ...] = ()
    """Digests of the blobs that held the rest of long results."""


def purge(path: str, root: str, chosen: Callable[[Mapping[str, Any]], bool]) -> Purged:
    """Empty the payload and summary of the chosen messages. The caller holds the file's lock.

    `chosen` is called with each message in its stored form. A file without such a message is left
    untouched; damaged lines are quarantined. A crash leaves the old or the new file.
    """
    if not os.path.exists(path):
        return Purged()
    ids: list[str] = []
    blobs: list[str] = []
    writer = journal.open_writer(path, root)
    try:
        lines: list[bytes] = []
        for record in journal.sound_records(writer):
            message = record.get("message")
            if isinstance(message, Mapping) and chosen(message) and _has_text(message):
                ids.append(str(message.get("id")))
                reference = (message.get("payload") or {}).get("summary_ref")
                if isinstance(reference, Mapping):
                    blobs.append(str(reference.get("sha256")))
                record = {**record, "message": {**message, "payload": {}, "summary": ""}}
            plain = {key: value for key, value in record.items() if key not in ("v", "crc")}
            lines.append(document.encode_line(plain))
        if ids:
            files.replace(path, b"".join(lines))
    finally:
        writer.close()
    return Purged(tuple(ids), tuple(blobs))


def _has_text(message: Mapping[str, Any]) -> bool:
    return bool(message.get("payload") or message.get("summary"))
