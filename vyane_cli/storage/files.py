"""File operations: every system call that changes a file, so that tests can stop or fail each.

`step` is called with the call's name and path before each of them. In production it does nothing.
Directories are created with mode 0700 and files with 0600, regardless of the umask.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from vyane_cli.errors import DurabilityUnknownError, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")


FILE_MODE, DIRECTORY_MODE = 0o600, 0o700


def _nothing(name: str, path: str) -> None:
    pass


step = _nothing
"""Called as `step(call, path)` before each changing call. Tests replace it."""


def make_directories(path: str) -> None:
    """Create the folder `path` and its missing parents. Flush them with `sync_directories`."""
    try:
        step("mkdir", path)
        os.mkdir(path, DIRECTORY_MODE)
        os.chmod(path, DIRECTORY_MODE)  # the umask reduces mkdir's mode
        sync_directory(os.path.dirname(path))
    except FileExistsError:
        if not os.path.isdir(path):
            raise StorageError(path, NotADirectoryError(20, "not a directory")) from None
    except FileNotFoundError:
        parent = os.path.dirname(path)
        if parent == path:
            raise
        make_directories(parent)
        make_directories(path)
    except OSError as error:
        raise StorageError(path, error) from error


def _in_folder(name: str, path: str, call: Callable[[], T]) -> T:
    """Run a call that creates `path`. If its folders are missing, create them and retry."""
    try:
        step(name, path)
        try:
            return call()
        except FileNotFoundError:
            make_directories(os.path.dirname(path))
            step(name, path)
            return call()
    except OSError as error:
        raise StorageError(path, error) from error


def open_private(path: str, flags: int) -> int:
    """Open a file and return its descriptor. A new file gets mode 0600 regardless of the umask."""
    fd = os.open(path, flags, FILE_MODE)
    if os.fstat(fd).st_mode & FILE_MODE != FILE_MODE:
        os.fchmod(fd, FILE_MODE)
    return fd


def open_for_writing(path: str) -> int:
    """Open a file for reading and writing, without truncating it. Return its descriptor.

    The file and its folders are created if they are missing.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    return _in_folder("open", path, lambda: open_private(path, flags))


def write(fd: int, data: bytes, at: int, path: str) -> None:
    """Write all of `data` at offset `at`. On failure cut the file to `at` and raise StorageError.

    One call if the kernel accepts all bytes. A full disk shows only as a short count, so a second
    call follows a short count and fails with the reason.
    """
    done = 0
    try:
        while done < len(data):
            step("write", path)
            done += os.pwrite(fd, data[done:], at + done)
    except OSError as error:
        try:
            truncate(fd, at, path)
        except StorageError:
            pass  # the partial line has no newline: the next append moves it to the quarantine
        raise StorageError(path, error) from error


def truncate(fd: int, size: int, path: str) -> None:
    """Cut the file to `size` bytes."""
    try:
        step("ftruncate", path)
        os.ftruncate(fd, size)
    except OSError as error:
        raise StorageError(path, error) from error


def sync(fd: int, path: str) -> None:
    """Flush the file's bytes to the disk. OSError if the disk does not confirm it."""
    step("fsync", path)
    os.fsync(fd)
    if _FULL_SYNC is not None:
        _FULL_SYNC(fd)


def sync_directory(folder: str) -> None:
    """Flush the entries of one directory."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync(fd, folder)
    finally:
        os.close(fd)


def sync_directories(path: str, root: str) -> None:
    """Flush each directory from that of `path` up to and including the parent of `root`."""
    folder = os.path.dirname(path)
    top = os.path.dirname(root)
    while True:
        sync_directory(folder)
        if folder == top or len(folder) <= len(top):
            return
        folder = os.path.dirname(folder)


def listdir(path: str) -> list[str]:
    """Return the names in a folder, sorted. Empty if it is missing, or if it is a file.

    StorageError if its parent is not a folder either, for example a home that is a file.
    """
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return []
    except NotADirectoryError as error:
        if os.path.isdir(os.path.dirname(path)):
            return []
        raise StorageError(path, error) from error


def json_names(folder: str) -> list[str]:
    """Return the names of the JSON documents in a folder, without `.json`, sorted by file name.

    Files whose name begins with a dot are skipped: they belong to a running or dead writer.
    """
    found = [one for one in listdir(folder) if one.endswith(".json") and not one.startswith(".")]
    return [one[: -len(".json")] for one in found]


def is_temporary(name: str) -> bool:
    """Return whether the name is that of an unfinished file of `replace`, `.NAME.PID.tmp`."""
    parts = name.split(".")
    return len(parts) >= 4 and not parts[0] and parts[-1] == "tmp" and parts[-2].isdecimal()


def replace(path: str, data: bytes, *, mode: int | None = None, durable: bool = True) -> None:
    """Replace a whole file: write a temporary file in its folder, flush, rename, flush.

    A symbolic link keeps its target. The file keeps its mode, and its owner if root replaces it.
    A crash leaves the old or the new file, and perhaps a temporary one (`.NAME.PID.tmp`) that `gc`
    removes. With `durable` False nothing is flushed.
    """
    replace_by(path, (data,), mode=mode, durable=durable)


def replace_by(
    path: str, pieces: Iterable[bytes], *, mode: int | None = None, durable: bool = True
) -> int:
    """Replace a whole file like `replace`, with data in pieces. Return the number of bytes.

    The pieces together need not fit into memory. An error raised while iterating over them is
    passed on, and leaves the old file.
    """
    path = os.path.realpath(path)
    try:
        before = os.stat(path)
    except OSError:  # opening the temporary file reports what is wrong with the path
        before = None
    if mode is None:
        mode = before.st_mode & 0o7777 if before is not None else FILE_MODE
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    size = 0
    try:
        fd = open_for_writing(temporary)
        try:
            if before is not None and before.st_uid != os.geteuid() == 0:
                os.fchown(fd, before.st_uid, before.st_gid)
            os.fchmod(fd, mode)
            truncate(fd, 0, temporary)
            for piece in pieces:
                write(fd, piece, size, temporary)
                size += len(piece)
            if durable:
                sync(fd, temporary)
        finally:
            os.close(fd)
        step("rename", path)
        os.replace(temporary, path)
    except BaseException as error:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        if isinstance(error, OSError):
            raise StorageError(path, error) from error
        raise
    if durable:
        try:
            sync_directory(folder)
        except OSError as error:
            raise DurabilityUnknownError(path, error) from error
    return size


def add_note(path: str, line: bytes, most_bytes: int = 0) -> None:
    """Append a line that no decision depends on: one call, without a lock and without a flush.

    A file larger than `most_bytes` is first renamed to `NAME.1`. With 0 it may grow to any size.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    if most_bytes and _size(path) > most_bytes:
        move(path, path + ".1")
    fd = _in_folder("open", path, lambda: open_private(path, flags))
    try:
        step("write", path)
        os.write(fd, line)
    except OSError as error:
        raise StorageError(path, error) from error
    finally:
        os.close(fd)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class before_commit:  # noqa: N801  reads well after `with`
    """Writes before a commit point: an unconfirmed write counts as not written.

    DurabilityUnknownError is converted to StorageError. This is a class because `contextlib` would
    cost a further import.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Convert DurabilityUnknownError to StorageError."""
        if isinstance(error, DurabilityUnknownError):
            cause = error.__cause__
            raise StorageError(
                error.path, cause if isinstance(cause, OSError) else OSError(5, "I/O error")
            ) from error


def touch(path: str, text: str = "") -> None:
    """Create or rewrite a small marker file in place (its inode stays). Not flushed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    fd = _in_folder("touch", path, lambda: open_private(path, flags))
    try:
        if text:
            os.write(fd, text.encode())
        else:
            os.utime(fd)
    except OSError as error:
        raise StorageError(path, error) from error
    finally:
        os.close(fd)


def refresh(path: str) -> None:
    """Set a file's time to now. Not flushed."""
    try:
        step("utime", path)
        os.utime(path)
    except OSError as error:
        raise StorageError(path, error) from error


def remove(path: str) -> None:
    """Remove a file. Do nothing if it is missing."""
    try:
        step("unlink", path)
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StorageError(path, error) from error


def move(source: str, target: str) -> None:
    """Rename a file or folder. Not flushed."""
    _in_folder("rename", target, lambda: os.replace(source, target))


def _find_full_sync() -> Callable[[int], object] | None:
    """Return the call that flushes the drive's cache on macOS, where fsync leaves the bytes there.

    Return None on other systems. Untested on a Mac.
    """
    if os.uname().sysname != "Darwin":
        return None
    import fcntl

    code = getattr(fcntl, "F_FULLFSYNC", 51)
    return lambda fd: fcntl.fcntl(fd, code)


_FULL_SYNC = _find_full_sync() if hasattr(os, "uname") else None


def read_text(path: str) -> str:
    """Return the text of a small marker file (at most 4096 characters). Empty if unreadable."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096).strip()
    except OSError:  # missing, no permission, a folder, a broken link
        return ""
