"""A timeline on disk: append events, read the head, read from a position.

`timelines/{vs}/events.jsonl`: each line is one event with its identity (session, epoch, seq) and
the head after it, so that the last whole line alone is enough to go on. Damage is never repaired
by itself, a torn tail aside: the timeline is refused with file and line until `doctor --fix`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from vyane_cli.core.events import CATEGORIES, DURABLE, VERSION, Event, EventKind
from vyane_cli.core.ids import span_id
from vyane_cli.core.turns import TimelineHead, parse_timeline_head, render_timeline_head
from vyane_cli.errors import CorruptStateError
from vyane_cli.store import journal


class Identity(NamedTuple):
    """What every event of one writer carries."""

    session: str
    worker: str
    trace: str | None = None
    parent_span: str | None = None


class Timeline:
    """A timeline opened under its lock."""

    __slots__ = ("head", "identity", "path", "writer")

    def __init__(self, path: str, root: str, identity: Identity, epoch: str) -> None:
        """`epoch`: 32 hexadecimal digits, taken only if this timeline is new."""
        self.path, self.identity = path, identity
        self.writer = journal.open_writer(path, root)
        try:
            self.head = self._load(epoch)
        except BaseException:
            self.writer.close()
            raise

    def _load(self, epoch: str) -> TimelineHead:
        last, end = self.writer.last, self.writer.end
        if last is None:
            if end:
                raise CorruptStateError(self.path, "no line of it is a record", line=1)
            return TimelineHead(epoch)
        head = _head_of(last, self.path)
        if _next_line(self.writer.fd, last.offset) != end:
            raise CorruptStateError(
                self.path, "the last line is damaged", line=line_number(self.path, last.offset) + 1
            )
        return head

    def append(self, events: Sequence[Event], heads: Sequence[TimelineHead]) -> None:
        """Append events, each with the head after it; on disk when this returns.

        Events that only observe (tools, usage, deliveries) are not flushed by themselves.
        """
        records = [
            render_event(event, head, self.identity)
            for event, head in zip(events, heads, strict=True)
        ]
        durable = any(event.kind in DURABLE for event in events)
        self.writer.append(records, durable=durable)
        self.head = heads[-1]

    def close(self) -> None:
        """Close the file."""
        self.writer.close()


def render_event(event: Event, head: TimelineHead, identity: Identity) -> dict[str, Any]:
    """The stored form of an event."""
    span = span_id(event.turn) if event.turn else None
    return {
        "v": VERSION,
        "epoch": head.epoch,
        "seq": event.seq,
        "session": identity.session,
        "worker": identity.worker,
        "kind": str(event.kind),
        "category": str(CATEGORIES[event.kind]),
        "turn": event.turn,
        "turn_number": event.turn_number,
        "at": event.at,
        "trace_id": identity.trace or head.epoch,
        "span_id": span,
        "parent_span_id": identity.parent_span,
        "origin": dict(event.origin) if event.origin else None,
        "payload": dict(event.payload),
        "head": render_timeline_head(head),
    }


def read_head(path: str) -> TimelineHead | None:
    """The head without the lock; None when there is no timeline yet."""
    last = journal.read_last(path)
    return None if last is None else _head_of(last, path)


def _head_of(line: journal.Line, path: str) -> TimelineHead:
    record: Mapping[str, Any] = line.record or {}
    head = parse_timeline_head(record.get("head"), str(record.get("epoch") or ""))
    if head is None or head.seq != record.get("seq"):
        raise CorruptStateError(
            path, "the head of the last line is no head", line=line_number(path, line.offset)
        )
    return head


def _next_line(fd: int, offset: int) -> int:
    """The end of the line that begins at `offset`."""
    position = offset
    while chunk := os.pread(fd, journal.CHUNK, position):
        found = chunk.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(chunk)
    return position


def line_number(path: str, offset: int) -> int:
    """The number, from 1, of the line that begins at `offset`: for error texts only."""
    with open(path, "rb") as file:
        count, left = 1, offset
        while left > 0 and (chunk := file.read(min(left, 1 << 20))):
            count += chunk.count(b"\n")
            left -= len(chunk)
    return count


def read(path: str, start: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """(offset, record) of each event from a byte offset; CorruptStateError at the first damage."""
    expected: int | None = None
    for line in journal.read(path, start):
        record = line.record
        if record is None:
            reason = line.damage.reason if line.damage else "damaged"
            raise CorruptStateError(path, reason, line=line_number(path, line.offset))
        seq = record.get("seq")
        if not isinstance(seq, int) or (expected is not None and seq != expected):
            raise CorruptStateError(
                path,
                f"seq {seq!r} where {expected} belongs",
                line=line_number(path, line.offset),
            )
        if record.get("kind") not in tuple(EventKind):
            raise CorruptStateError(
                path,
                f"unknown kind {record.get('kind')!r}",
                line=line_number(path, line.offset),
            )
        expected = seq + 1
        yield line.offset, dict(record)


def offset_of(path: str, seq: int) -> int:
    """The offset of the line with this seq, or of the first later one; the end if there is none.

    Binary search over the bytes: seq grows by one with each line.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        size = os.fstat(fd).st_size
        low, high = 0, journal.last_line(fd, size)[1]
        while low < high:
            middle = _line_start(fd, (low + high) // 2, low)
            line, after = _line_at(fd, middle, high)
            found = line.record.get("seq") if line.record is not None else None
            if not isinstance(found, int):
                reason = line.damage.reason if line.damage else "no seq"
                raise CorruptStateError(path, reason, line=line_number(path, middle))
            if found < seq:
                low = after
            else:
                high = middle
        return low
    finally:
        os.close(fd)


def _line_start(fd: int, position: int, floor: int) -> int:
    """The start of the line that contains `position`; lines begin at `floor`."""
    while position > floor:
        start = max(position - 4096, floor)
        found = os.pread(fd, position - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return floor


def _line_at(fd: int, offset: int, limit: int) -> tuple[journal.Line, int]:
    data = b""
    position = offset
    while position < limit:
        chunk = os.pread(fd, min(8192, limit - position), position)
        if not chunk:
            break
        found = chunk.find(b"\n")
        if found >= 0:
            data += chunk[:found]
            break
        data += chunk
        position += len(chunk)
    return journal.parse_line(offset, data), offset + len(data) + 1


def tools_since(path: str, seq: int) -> frozenset[str]:
    """Ids of the tool calls that the timeline has from this seq on."""
    found = set()
    for _, record in read(path, offset_of(path, seq)):
        if record["kind"] == EventKind.TOOL_OBSERVED:
            found.add(str((record.get("payload") or {}).get("tool_use_id") or ""))
    return frozenset(found)


def last_tool(path: str, seq: int) -> str:
    """The name of the latest tool that was observed from this seq on, or an empty string."""
    name = ""
    for _, record in read(path, offset_of(path, seq)):
        if record["kind"] == EventKind.TOOL_OBSERVED:
            name = str((record.get("payload") or {}).get("tool") or "")
    return name
