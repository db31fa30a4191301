"""Read a timeline as it grows, without a lock: each event once, in order, and none that can vanish.

What a crash may take away again is never shown. A reader flushes the file itself before it shows
what it has read, so that a power loss cannot remove it; and of an append that holds several events
it shows none before the last of them is there (or a later append follows), because a writer that
fails in the middle cuts back what it wrote.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from vyane_cli.errors import CorruptStateError, InvalidInputError, NotFoundError, StorageError
from vyane_cli.storage import document, files, journal
from vyane_cli.storage.layout import Layout
from vyane_cli.timeline import log
from vyane_cli.timeline.check import Checker
from vyane_cli.timeline.cursors import Cursor, check_cursor, parse_cursor, render_cursor
from vyane_cli.timeline.turns import TimelineHead

CHUNK = 256 * 1024
READ_ONLY = (30, 22, 9)  # EROFS, EINVAL, EBADF: nothing there that could be unflushed


class StoredEvent(NamedTuple):
    """One event as it lies in the file."""

    record: Mapping[str, Any]
    mark: str
    """The checksum of its line."""


class Reader:
    """A position in one timeline, before the next event that will be shown."""

    __slots__ = ("checker", "file", "mark", "path", "position", "session")

    def __init__(self, path: str, session: str) -> None:
        self.path, self.session = path, session
        self.position, self.mark = 0, ""
        self.checker = Checker(session)
        self.file: tuple[int, int] | None = None
        self._look()

    @property
    def cursor(self) -> Cursor:
        """After the last event that was shown."""
        return Cursor(self.session, self.checker.epoch, self.checker.seq, self.mark)

    def seek(self, cursor: Cursor) -> None:
        """Go to the position after the cursor's event; InvalidInputError when it fits no event."""
        last = journal.read_last(self.path)
        head = log.head_of(last.record) if last is not None and last.record else None
        epoch, seq = (head.epoch, head.seq) if head is not None else ("", 0)
        check_cursor(cursor, self.session, epoch, seq)
        if not cursor.seq:
            self.position, self.mark, self.checker = 0, "", Checker(self.session)
            return
        offset = log.offset_of(self.path, cursor.seq)
        with _opened(self.path) as fd:
            found = next(_lines(fd, offset, os.fstat(fd).st_size), None)
        if found is None or found[0].record is None or found[1] != cursor.mark:
            raise InvalidInputError(
                "cursor",
                str(cursor.seq),
                "of an event that is there: that seq belongs to another event now",
                slug="cursor_lost",
                hint="the timeline was cut and went on; `vyane timeline verify` and start over",
            )
        self._continue(offset + found[2], found[0].record, found[1])

    def seek_turn(self, number: int) -> None:
        """Go to the position before the turn with this number."""
        offset = log.offset_of_turn(self.path, number)
        before = log.line_before(self.path, offset)
        if before is not None:
            self._continue(offset, before, "")

    def seek_end(self) -> None:
        """Go to the position after the last event that can be shown now."""
        end = log.end_of_lines(self.path)
        if not end:
            return
        with _opened(self.path) as fd:
            _flush(fd, self.path)
            while end:
                begin = log.start_of_line(fd, end - 1, 0)
                line, mark, _ = next(_lines(fd, begin, end))
                if line.record is None:
                    raise log.damaged(self.path, line)
                if not line.record.get("left"):
                    self._continue(end, line.record, mark)
                    return
                end = begin

    def _continue(self, position: int, record: Mapping[str, Any], mark: str) -> None:
        head = log.head_of(record)
        if head is None:
            raise log.refuse(self.path, position, "the head of the line before is not its own")
        self.position, self.mark = position, mark
        self.checker = Checker(self.session, head)

    def read(self) -> Iterator[StoredEvent]:
        """The events that are there now, each once; CorruptStateError at the first damage.

        Iterate to the end, or drop the rest and call it again: the position is after the last
        event that was yielded.
        """
        size = self._look()
        if size <= self.position:
            return
        with _opened(self.path) as fd:
            _flush(fd, self.path)
            waiting: list[tuple[journal.JournalLine, str, int]] = []
            for line, mark, length in _lines(fd, self.position, size):
                if line.record is None:
                    yield from self._show(waiting)
                    raise log.damaged(self.path, line)
                left = line.record.get("left") or 0
                if waiting and (waiting[-1][0].record or {}).get("left") != left + 1:
                    yield from self._show(waiting)  # a later append: the one before was cut short
                    waiting = []
                waiting.append((line, mark, length))
                if not left:
                    yield from self._show(waiting)
                    waiting = []

    def _show(self, lines: list[tuple[journal.JournalLine, str, int]]) -> Iterator[StoredEvent]:
        for line, mark, length in lines:
            record: Mapping[str, Any] = line.record or {}
            fault = self.checker.check(record)
            if fault is not None:
                raise log.refuse(self.path, line.offset, fault.reason, fault.damage)
            self.position, self.mark = line.offset + length, mark
            yield StoredEvent(record, mark)

    def head(self) -> TimelineHead | None:
        """The newest head, without the lock."""
        return log.read_head(self.path)

    def _look(self) -> int:
        """The size of the file; NotFoundError when it is another one now, or gone."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            if self.file is not None:
                raise NotFoundError("timeline any more of", self.session) from None
            return 0
        except OSError as error:
            raise StorageError(self.path, error) from error
        file = (status.st_dev, status.st_ino)
        if self.file is not None and file != self.file:
            raise NotFoundError("such timeline any more of", self.session, hint="it was begun anew")
        if self.position > status.st_size:
            raise CorruptStateError(self.path, f"cut to {status.st_size} bytes while it was read")
        if status.st_mode & 0o077:
            raise CorruptStateError(
                self.path,
                f"others may read it (mode {status.st_mode & 0o777:o})",
                slug="insecure_mode",
                hint=f"chmod 600 {self.path}",
            )
        self.file = file
        return status.st_size


class _opened:  # noqa: N801 - used as a function
    """A descriptor for reading, closed at the end."""

    def __init__(self, path: str) -> None:
        try:
            self.fd = journal.open_reader(path)
        except FileNotFoundError as error:
            raise StorageError(path, error) from error

    def __enter__(self) -> int:
        return self.fd

    def __exit__(self, *exc: object) -> None:
        os.close(self.fd)


def _flush(fd: int, path: str) -> None:
    """Make what is in the file durable: a descriptor for reading is enough."""
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in READ_ONLY:
            raise StorageError(path, error) from error


def _lines(fd: int, start: int, end: int) -> Iterator[tuple[journal.JournalLine, str, int]]:
    """(line, checksum as it stands there, length) of each whole line between two offsets."""
    offset = position = start
    rest = b""
    while position < end:
        chunk = os.pread(fd, min(CHUNK, end - position), position)
        if not chunk:
            return
        position += len(chunk)
        if b"\n" not in chunk:
            rest += chunk
            continue
        *lines, rest = (rest + chunk).split(b"\n")
        for data in lines:
            mark = data[-10:-2].decode("ascii", "replace")
            yield journal.parse_line(offset, data), mark, len(data) + 1
            offset += len(data) + 1


def event_at(path: str, seq: int) -> StoredEvent | None:
    """The event with this seq; None when there is none."""
    offset = log.offset_of(path, seq)
    with _opened(path) as fd:
        line, mark, _ = next(_lines(fd, offset, os.fstat(fd).st_size), (None, "", 0))
    if line is None or line.record is None or line.record.get("seq") != seq:
        return None
    return StoredEvent(line.record, mark)


def load(layout: Layout, session: str, name: str) -> Cursor | None:
    """The stored cursor; None for a consumer that has none."""
    path = layout.consumer(session, name)
    data = document.load(path)
    if data is None:
        return None
    try:
        return parse_cursor(str(data.get("cursor") or ""))
    except InvalidInputError:
        raise CorruptStateError(
            path, "it holds no cursor", hint="start over with --reset earliest or latest"
        ) from None


def save(layout: Layout, session: str, name: str, cursor: Cursor, at: float) -> None:
    """Store the cursor; on disk when this returns."""
    data: dict[str, Any] = {
        "consumer": name,
        "session": session,
        "seq": cursor.seq,
        "cursor": render_cursor(cursor),
        "at": at,
    }
    document.save(layout.consumer(session, name), data, layout.root)


def names(layout: Layout, session: str) -> list[str]:
    """The consumers that this timeline has."""
    return files.json_names(layout("timelines", session, "cursors"))
