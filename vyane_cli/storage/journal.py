"""Journals: append-only files of lines. A line is the atomic unit; the last one carries the head.

Readers take no lock and stop at the last newline. A writer holds the lock of its journal, moves a
torn tail to the quarantine, and appends with one call. Before it returns, it flushes the file and,
if the file was empty, each directory on the path. The quarantine keeps damaged bytes whole.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from zlib import crc32

from vyane_cli.errors import CorruptStateError, DurabilityUnknownError, StorageError, TooNewError
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.storage import document, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


CHUNK = 64 * 1024


class DamagedLine(NamedTuple):
    """A line that does not hold a valid record: where it is, in bytes, and why it was rejected."""

    offset: int
    length: int
    reason: str
    newer: bool = False
    """Whether the line is an intact record of a later version."""


class JournalLine(NamedTuple):
    """One whole line: its byte offset, and either its record or its damage."""

    offset: int
    record: Mapping[str, Any] | None
    damage: DamagedLine | None = None


def open_reader(path: str) -> int:
    """Open a journal for reading and return its descriptor.

    FileNotFoundError if the file is missing; StorageError or CorruptStateError otherwise.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(path, error) from error
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        raise CorruptStateError(path, "a folder is in its place")
    return fd


def read(path: str, start: int = 0, *, end: int | None = None) -> Iterator[JournalLine]:
    """Yield the whole lines from `start` on, in order. A missing file counts as empty.

    `start` and `end` are byte offsets; a line must begin at `start`.
    """
    try:
        fd = open_reader(path)
    except FileNotFoundError:
        return
    try:
        yield from _read_fd(fd, path, start, end)
    finally:
        os.close(fd)


def _read_fd(fd: int, path: str, start: int, end: int | None) -> Iterator[JournalLine]:
    offset, rest = start, b""
    position = start
    while end is None or position < end:
        size = CHUNK if end is None else min(CHUNK, end - position)
        try:
            chunk = os.pread(fd, size, position)
        except OSError as error:
            raise StorageError(path, error) from error
        if not chunk:
            return
        position += len(chunk)
        *lines, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else [rest + chunk]
        for line in lines:
            yield parse_line(offset, line)
            offset += len(line) + 1


def parse_line(offset: int, line: bytes) -> JournalLine:
    """Parse a line, given without its newline, that begins at byte `offset`."""
    try:
        return JournalLine(offset, document.decode_line(line))
    except document.LineError as error:
        newer = isinstance(error, document.NewerError)
        return JournalLine(offset, None, DamagedLine(offset, len(line) + 1, str(error), newer))


def read_last(path: str) -> JournalLine | None:
    """Return the last whole line with a valid record, read from the file's end, or None."""
    try:
        fd = open_reader(path)
    except FileNotFoundError:
        return None
    try:
        return last_line(fd, os.fstat(fd).st_size)[0]
    finally:
        os.close(fd)


def last_line(fd: int, size: int) -> tuple[JournalLine | None, int]:
    """Return the last valid line below `size`, and the end of the last whole line, valid or not.

    Reads backwards, each byte once, even if much of the end is damaged.
    """
    end = 0
    position, held = size, b""
    while position > 0:
        start = max(position - CHUNK, 0)
        held = os.pread(fd, position - start, start) + held
        position = start
        while (cut := held.rfind(b"\n")) >= 0:
            end = end or position + cut + 1  # what follows the last newline is a torn tail
            begin = held.rfind(b"\n", 0, cut)
            if begin < 0 < position:
                held = held[: cut + 1]
                break  # the line begins in an earlier chunk
            line = parse_line(position + begin + 1, held[begin + 1 : cut])
            if line.record is not None:
                return line, end
            held = held[: begin + 1]
    return None, end


class Writer:
    """A journal opened for writing under its lock, by `open_writer`."""

    __slots__ = ("end", "fd", "last", "path", "root", "torn")

    def __init__(self, path: str, root: str, fd: int) -> None:
        self.path, self.root, self.fd = path, root, fd
        size = os.fstat(fd).st_size
        self.last, self.end = last_line(fd, size)
        self.torn = size - self.end

    def append(self, records: Sequence[Mapping[str, Any]], *, durable: bool = True) -> int:
        """Append each record as one line. Return the byte offset of the first one.

        The records are on disk when this returns (if `durable`). A crash keeps a prefix of
        `records`, never part of a record. StorageError: nothing was written.
        DurabilityUnknownError: written, but the disk did not confirm it.
        """
        if self.torn:
            # A crash during an append left a partial line. Its writer never reported success.
            set_aside(self.root, self.path, self.fd, self.end, self.torn, "torn tail")
            files.truncate(self.fd, self.end, self.path)
            self.torn = 0
        start = self.end
        data = b"".join(document.encode_line(record) for record in records)
        if start == 0:
            # before the first byte, so that every file with content has a durable path
            try:
                files.sync_directories(self.path, self.root)
            except OSError as error:
                raise StorageError(self.path, error) from error
        files.write(self.fd, data, start, self.path)
        self.end = start + len(data)
        if durable:
            try:
                files.sync(self.fd, self.path)
            except OSError as error:
                raise DurabilityUnknownError(self.path, error) from error
        return start

    def close(self) -> None:
        """Close the file. The caller releases the lock."""
        os.close(self.fd)


def open_writer(path: str, root: str) -> Writer:
    """Open a journal for writing. The caller holds its lock until the writer is closed."""
    fd = files.open_for_writing(path)
    try:
        return Writer(path, root, fd)
    except BaseException:
        os.close(fd)
        raise


def sound_records(writer: Writer) -> list[Mapping[str, Any]]:
    """Return every record of the file, for a rewrite, and copy all other bytes to the quarantine.

    A rewrite must not lose bytes, so damaged lines and a torn tail are kept whole there.
    TooNewError if a line was written by a later version.
    """
    lines = list(read(writer.path))
    damage = [line.damage for line in lines if line.damage is not None]
    for one in damage:
        if one.newer:
            raise error_of(writer.path, one)
    if writer.torn:
        damage.append(DamagedLine(writer.end, writer.torn, "torn tail"))
    for one in damage:
        set_aside(writer.root, writer.path, writer.fd, one.offset, one.length, one.reason)
    return [line.record for line in lines if line.record is not None]


def contains(path: str, needle: bytes) -> bool:
    """Return whether the bytes occur anywhere in the file: a cheap test before parsing it."""
    try:
        with open(path, "rb") as file:
            tail = b""
            while chunk := file.read(1 << 20):
                if needle in tail + chunk:
                    return True
                tail = chunk[-len(needle) :]
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(path, error) from error
    return False


def has_record(path: str, needle: bytes) -> bool:
    """Return whether a valid record of the file contains these bytes. For rare look-ups by id.

    Partial and damaged lines do not count: their append never reported success.
    """
    try:
        with open(path, "rb", buffering=1 << 20) as file:
            return any(
                needle in line
                and line.endswith(b"\n")
                and parse_line(0, line[:-1]).record is not None
                for line in file
            )
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(path, error) from error


def error_of(path: str, damage: DamagedLine) -> CorruptStateError:
    """Return the error for a damaged line: TooNewError if its version is newer."""
    kind = TooNewError if damage.newer else CorruptStateError
    return kind(path, damage.reason, line=line_number(path, damage.offset))


def line_number(path: str, offset: int) -> int:
    """Return the number, from 1, of the line that begins at `offset`. For error texts only."""
    with open(path, "rb") as file:
        count, left = 1, offset
        while left > 0 and (chunk := file.read(min(left, 1 << 20))):
            count += chunk.count(b"\n")
            left -= len(chunk)
    return count


LIMIT_BYTES = 64 * 1024 * 1024
"""Size of the quarantine, in bytes, above which `doctor` asks a person to look through it.

Nothing is removed from the quarantine automatically.
"""


def set_aside(root: str, path: str, fd: int, offset: int, length: int, reason: str) -> str:
    """Copy these bytes of an open file to the quarantine, durably. Return the copy's path."""
    return save_damaged(root, path, os.pread(fd, length, offset), offset, reason)


def save_damaged(root: str, path: str, data: bytes, offset: int, reason: str) -> str:
    """Save bytes from `path` in the quarantine, durably. Return the path of the copy.

    The same bytes from the same place are saved only once.
    """
    folder = os.path.join(root, "quarantine")
    name = os.path.relpath(path, root).replace(os.sep, "--")[-150:]
    target = os.path.join(folder, f"{name}.{offset}.{crc32(data):08x}.bad")
    there = os.path.exists(target)
    try:
        with files.before_commit():  # if the copy is unconfirmed, the caller must keep the original
            if not there:
                files.make_directories(folder)
                files.replace(target, data)
        files.sync_directories(target, root)  # an earlier writer may have died before flushing
    except OSError as error:
        raise StorageError(target, error) from error
    if not there:
        index = os.path.join(folder, "index.jsonl")
        record = {"file": os.path.relpath(path, root), "offset": offset, "bytes": len(data)}
        _note(index, {**record, "reason": reason, "kept": target})
    return target


def _note(index: str, record: dict[str, Any]) -> None:
    """Append a line to the quarantine's index. Ignore errors: the bytes themselves are saved."""
    try:
        files.add_note(index, document.encode_line(record))
    except StorageError:
        return


def list_quarantined(root: str) -> list[dict[str, Any]]:
    """Return path and size in bytes of each file in the quarantine, sorted by name."""
    folder = os.path.join(root, "quarantine")
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".bad"))
    except FileNotFoundError:
        return []
    return [
        {"file": os.path.join(folder, name), "bytes": os.path.getsize(os.path.join(folder, name))}
        for name in names
    ]
