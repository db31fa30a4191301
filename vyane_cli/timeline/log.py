"""Timelines on disk: append events, read the head, find a position, check all lines.

`timelines/{vs}/events.jsonl`: each line is one event with its identity (session, epoch, seq) and
the head after it, so the last whole line is enough to continue. Except for a torn tail, damage is
never repaired automatically: the timeline is refused with file and line until `doctor --fix`.

A timeline stopped cleanly if the file ends in a newline, its last line is sound, and that line was
written in this boot. After an unclean stop, the lines of the last line's boot are checked before
the timeline is used. Older lines were already checked in that boot.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from vyane_cli.errors import CorruptStateError, InvalidInputError
from vyane_cli.kernel.ids import span_id
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.storage import journal, processes
from vyane_cli.timeline.events import (
    CATEGORIES,
    DURABLE,
    VERSION,
    CommittedEvent,
    EventKind,
    check_event,
)
from vyane_cli.timeline.turns import (
    TimelineHead,
    Transition,
    parse_timeline_head,
    render_timeline_head,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EXPOSED_BYTES = 4 * 1024 * 1024
"""Bytes at the end of a timeline that are checked before a producer uses it, in any case."""


class Identity(NamedTuple):
    """The identity fields that all events of one writer share."""

    session: str
    worker: str
    trace: str | None = None
    parent_span: str | None = None


class Timeline:
    """A timeline opened for writing under its lock."""

    __slots__ = ("boot", "head", "identity", "path", "writer")

    def __init__(
        self, path: str, root: str, identity: Identity, epoch: str, *, checked: bool = False
    ) -> None:
        """Open the timeline and load its head; CorruptStateError if it is damaged.

        `epoch`: 32 hexadecimal digits, used only if the timeline is new.
        `checked`: check the end even after a clean stop.
        """
        self.path, self.identity = path, identity
        self.boot = processes.boot_id()[:8]
        self.writer = journal.open_writer(path, root)
        try:
            self.head = self._load(epoch, checked)
        except BaseException:
            self.writer.close()
            raise

    def _load(self, epoch: str, checked: bool) -> TimelineHead:
        last, end, fd = self.writer.last, self.writer.end, self.writer.fd
        if last is None or last.record is None:
            if end:
                raise CorruptStateError(self.path, "no line of it is a record", line=1)
            return TimelineHead(epoch)
        head = _head_of(last, self.path)
        if _next_line(fd, last.offset) != end:
            raise CorruptStateError(
                self.path,
                "the last line is damaged",
                line=journal.line_number(self.path, last.offset) + 1,
            )
        boot = str(last.record.get("boot") or "")
        if self.writer.torn or boot != self.boot:
            start = search(self.path, lambda record: record.get("boot") == boot)
            check(self.path, self.identity.session, start, end)
        elif checked:
            start = start_of_line(fd, max(end - EXPOSED_BYTES, 0), 0)
            check(self.path, self.identity.session, start, end)
        return head

    def commit(self, state: Transition, *, flush: bool = False) -> None:
        """Append the events of a transition that started from the current head. See `append`."""
        if state.events:
            self.append(state.events, state.heads, flush=flush)

    def append(
        self,
        events: Sequence[CommittedEvent],
        heads: Sequence[TimelineHead],
        *,
        flush: bool = False,
    ) -> None:
        """Append events, each with the head after it. They are on disk when this returns.

        Events that only observe (tools, usage, deliveries) are not flushed on their own, unless
        `flush` is set. A crash keeps a prefix. If it fails nothing was stored, and no seq is used.
        """
        sound = [_fitting(event) for event in events]
        records = [
            render_event(event, head, self.identity, self.boot, len(sound) - position)
            for position, (event, head) in enumerate(zip(sound, heads, strict=True), 1)
        ]
        durable = flush or any(event.kind in DURABLE for event in events)
        self.writer.append(records, durable=durable)
        self.head = heads[-1]

    def close(self) -> None:
        """Close the file. The caller releases the lock."""
        self.writer.close()


def _fitting(event: CommittedEvent) -> CommittedEvent:
    """Return the event if its payload fits its kind, else a Diagnostic in its place.

    InvalidInputError for a TurnStarted or TurnFinished that does not fit.
    """
    try:
        check_event(event.kind, event.payload)
    except InvalidInputError as error:
        if event.kind in (EventKind.TURN_STARTED, EventKind.TURN_FINISHED):
            raise
        payload = {"code": "event_refused", "text": f"{event.kind}: {error.field}"}
        return event._replace(kind=EventKind.DIAGNOSTIC, payload=payload)
    return event


def render_event(
    event: CommittedEvent, head: TimelineHead, identity: Identity, boot: str = "", left: int = 0
) -> dict[str, Any]:
    """Render the stored form of an event.

    `left`: the number of events after it in the same append.
    """
    span = span_id(event.turn) if event.turn else None
    record = {
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
        "boot": boot,
        "head": render_timeline_head(head),
    }
    if left:
        record["left"] = left
    return record


def read_head(path: str) -> TimelineHead | None:
    """Read the head without the lock. Return None if the timeline does not exist yet."""
    last = journal.read_last(path)
    return None if last is None else _head_of(last, path)


def last_identity(path: str, session: str) -> Identity:
    """Read the identity of the last event, for a writer that knows only the session."""
    last = journal.read_last(path)
    record: Mapping[str, Any] = (last.record if last is not None else None) or {}
    worker, trace = str(record.get("worker") or ""), record.get("trace_id")
    return Identity(session, worker, trace, record.get("parent_span_id"))


def head_of(record: Mapping[str, Any]) -> TimelineHead | None:
    """Return the head stored in a line; None if it is missing or has another seq than the line."""
    at = record.get("at")
    head = parse_timeline_head(
        record.get("head"),
        str(record.get("epoch") or ""),
        at if isinstance(at, (int, float)) else 0.0,
    )
    return head if head is not None and head.seq == record.get("seq") else None


def _head_of(line: journal.JournalLine, path: str) -> TimelineHead:
    record: Mapping[str, Any] = line.record or {}
    head = head_of(record)
    opened = head.open.id if head is not None and head.open is not None else None
    turn, kind = record.get("turn"), record.get("kind")
    wanted = None if kind == EventKind.TURN_FINISHED else turn if turn is not None else opened
    if head is None or opened != wanted:
        raise CorruptStateError(
            path,
            "the head of the last line is not its own",
            line=journal.line_number(path, line.offset),
            slug="invalid_lifecycle",
        )
    return head


def _next_line(fd: int, offset: int) -> int:
    """Return the end of the line that begins at `offset`, including its newline."""
    position = offset
    while chunk := os.pread(fd, journal.CHUNK, position):
        found = chunk.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(chunk)
    return position


def refuse(path: str, offset: int, reason: str, slug: str = "") -> CorruptStateError:
    """Return the error for the damaged line that begins at `offset`."""
    return CorruptStateError(path, reason, line=journal.line_number(path, offset), slug=slug)


def read(path: str, start: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (offset, record) of each event from byte `start` on.

    CorruptStateError at the first damage.
    """
    expected: int | None = None
    for line in journal.read(path, start):
        record = line.record
        if record is None:
            raise refuse(path, line.offset, line.damage.reason if line.damage else "damaged")
        seq = record.get("seq")
        if not isinstance(seq, int) or (expected is not None and seq != expected):
            raise refuse(path, line.offset, f"seq {seq!r} where {expected} belongs", "seq_gap")
        if record.get("kind") not in tuple(EventKind):
            reason = f"unknown kind {record.get('kind')!r}"
            raise refuse(path, line.offset, reason, "unknown_kind")
        expected = seq + 1
        yield line.offset, dict(record)


class Checked(NamedTuple):
    """The result of a check that found no damage: counts, the last head, and the end."""

    events: int
    turns: int
    head: TimelineHead | None
    end: int
    """Byte offset of the end of the last whole line."""


def check(
    path: str,
    session: str,
    start: int = 0,
    end: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Checked:
    """Check every line from `start`, where a line begins; CorruptStateError at the first damage.

    The head of the line before `start` is the initial state. `progress` is called with the offset
    reached, in bytes, about once per MiB.
    """
    from vyane_cli.timeline.check import Checker

    before = line_before(path, start)
    checker = Checker(session, head_of(before) if before is not None else None)
    first, record, position = checker.seq, before, start
    turns = checker.turns
    for line in journal.read(path, start, end=end):
        if line.record is None:
            raise damaged(path, line)
        fault = checker.check(line.record)
        if fault is not None:
            raise refuse(path, line.offset, fault.reason, fault.damage)
        if progress is not None and line.offset - position >= 1 << 20:
            progress(line.offset)
            position = line.offset
        record = line.record
    head = head_of(record) if record is not None else None
    return Checked(checker.seq - first, checker.turns - turns, head, end_of_lines(path))


def damaged(path: str, line: journal.JournalLine) -> CorruptStateError:
    """Return the error for a line without a valid record."""
    reason = line.damage.reason if line.damage else "damaged"
    return refuse(path, line.offset, reason, "unknown_version" if "version" in reason else "")


def end_of_lines(path: str) -> int:
    """Return the offset after the last newline; 0 if the file is missing."""
    try:
        fd = journal.open_reader(path)
    except FileNotFoundError:
        return 0
    try:
        return start_of_line(fd, os.fstat(fd).st_size, 0)
    finally:
        os.close(fd)


def tail(path: str, size: int) -> Iterator[Mapping[str, Any]]:
    """Yield the events of the file's last `size` bytes: whole lines, without damaged ones."""
    end = end_of_lines(path)
    if not end:
        return
    fd = journal.open_reader(path)
    try:
        start = start_of_line(fd, max(end - size, 0), 0)
    finally:
        os.close(fd)
    for line in journal.read(path, start, end=end):
        if line.record is not None:
            yield line.record


def line_before(path: str, offset: int) -> Mapping[str, Any] | None:
    """Return the record of the line that ends at `offset`; None at the start of the file."""
    if not offset:
        return None
    fd = journal.open_reader(path)
    try:
        begin = start_of_line(fd, offset - 1, 0)
        line, _ = _line_at(fd, begin, offset)
    finally:
        os.close(fd)
    if line.record is None:
        raise damaged(path, line)
    return line.record


def search(path: str, fits: Callable[[Mapping[str, Any]], bool]) -> int:
    """Return the offset of the first line that fits, or the end of the lines if none fits.

    Binary search over the bytes: if a line fits, all later lines must fit too. Reads about 25
    lines of a file with a million.
    """
    try:
        fd = journal.open_reader(path)
    except FileNotFoundError:
        return 0
    try:
        low, high = 0, start_of_line(fd, os.fstat(fd).st_size, 0)
        while low < high:
            middle = start_of_line(fd, (low + high) // 2, low)
            line, after = _line_at(fd, middle, high)
            if line.record is None:
                raise damaged(path, line)
            if fits(line.record):
                high = middle
            else:
                low = after
        return low
    finally:
        os.close(fd)


def offset_of(path: str, seq: int) -> int:
    """Return the offset of the line with this seq, or of the first later one, or the end."""

    def fits(record: Mapping[str, Any]) -> bool:
        found = record.get("seq")
        return isinstance(found, int) and found >= seq

    return search(path, fits)


def offset_of_turn(path: str, number: int) -> int:
    """Return the offset of the TurnStarted of the turn with this number, or the end."""

    def fits(record: Mapping[str, Any]) -> bool:
        turns = (record.get("head") or {}).get("turns")
        return isinstance(turns, int) and turns >= number

    return search(path, fits)


def start_of_line(fd: int, position: int, floor: int) -> int:
    """Return the start of the line that contains `position`. The first line begins at `floor`."""
    while position > floor:
        start = max(position - 4096, floor)
        found = os.pread(fd, position - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return floor


def _line_at(fd: int, offset: int, limit: int) -> tuple[journal.JournalLine, int]:
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
    """Return the ids of the tool calls recorded from this seq on."""
    found = set()
    for _, record in read(path, offset_of(path, seq)):
        if record["kind"] == EventKind.TOOL_OBSERVED:
            found.add(str((record.get("payload") or {}).get("tool_use_id") or ""))
    return frozenset(found)


def last_tool(path: str, seq: int) -> str:
    """Return the name of the latest tool observed from this seq on, or an empty string."""
    name = ""
    for _, record in read(path, offset_of(path, seq)):
        if record["kind"] == EventKind.TOOL_OBSERVED:
            name = str((record.get("payload") or {}).get("tool") or "")
    return name
