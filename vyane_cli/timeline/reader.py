"""Timeline readers: follow a growing timeline without a lock, each event once and in order.

A reader never shows an event that a crash could still remove. It flushes the file itself before it
shows what it has read, so a power loss cannot remove these events. It shows the events of one
append only after the last of them was written (or a later append follows), because a writer that
fails in the middle truncates the file again.

Also the stored cursors of consumers, `timelines/{vs}/cursors/`.
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
READ_ONLY = (30, 22, 9)  # EROFS, EINVAL, EBADF: a file that has no unflushed data


class StoredEvent(NamedTuple):
    """One event as stored in the file."""

    record: Mapping[str, Any]
    mark: str
    """The checksum of the event's line."""


class Reader:
    """A reader of one timeline. Its position is before the next event to show."""

    __slots__ = ("checker", "file", "mark", "path", "position", "session")

    def __init__(self, path: str, session: str) -> None:
        self.path, self.session = path, session
        self.position, self.mark = 0, ""
        self.checker = Checker(session)
        self.file: tuple[int, int] | None = None
        self._look()

    @property
    def cursor(self) -> Cursor:
        """Return the cursor after the last event that was shown."""
        return Cursor(self.session, self.checker.epoch, self.checker.seq, self.mark)

    def seek(self, cursor: Cursor) -> None:
        """Move to the position after the cursor's event; InvalidInputError if it fits no event."""
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
        """Move to the position before the turn with this number."""
        offset = log.offset_of_turn(self.path, number)
        before = log.line_before(self.path, offset)
        if before is not None:
            self._continue(offset, before, "")

    def seek_end(self) -> None:
        """Move to the position after the last event that can be shown now."""
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
        """Yield the events that exist now, each once; CorruptStateError at the first damage.

        The iteration may be stopped at any event: the next call continues after the last event
        that was yielded.
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
                    yield from self._show(waiting)  # a later append: the earlier one was cut short
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
        """Read the newest head, without the lock."""
        return log.read_head(self.path)

    def _look(self) -> int:
        """Check the file and return its size; NotFoundError if it was replaced or removed.

        CorruptStateError if the file was cut or others may read it. A file that did not exist yet
        has size 0.
        """
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
    """Context manager for a descriptor for reading, closed at the end."""

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
    """Flush the file's contents to the disk. A descriptor for reading is enough for that."""
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in READ_ONLY:
            raise StorageError(path, error) from error


def _lines(fd: int, start: int, end: int) -> Iterator[tuple[journal.JournalLine, str, int]]:
    """Yield (line, its stored checksum, length in bytes) of each whole line between two offsets."""
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
    """Return the event with this seq; None if it does not exist."""
    offset = log.offset_of(path, seq)
    with _opened(path) as fd:
        line, mark, _ = next(_lines(fd, offset, os.fstat(fd).st_size), (None, "", 0))
    if line is None or line.record is None or line.record.get("seq") != seq:
        return None
    return StoredEvent(line.record, mark)


def load(layout: Layout, session: str, name: str) -> Cursor | None:
    """Load the cursor of a consumer. Return None if none is stored."""
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
    """Save the cursor of a consumer. It is on disk when this returns."""
    data: dict[str, Any] = {
        "consumer": name,
        "session": session,
        "seq": cursor.seq,
        "cursor": render_cursor(cursor),
        "at": at,
    }
    document.save(layout.consumer(session, name), data, layout.root)


def names(layout: Layout, session: str) -> list[str]:
    """Return the names of the consumers with a stored cursor in this timeline."""
    return files.json_names(layout("timelines", session, "cursors"))
