"""Every system call that changes a file: the seam where tests stop, fail or replay one.

`step` is called with the call's name and path before each. In production it does nothing.
Directories are made 0700 and files 0600, whatever the umask.
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
    """Make `path` and what is missing above it. Flush with `sync_directories`."""
    try:
        step("mkdir", path)
        os.mkdir(path, DIRECTORY_MODE)
        os.chmod(path, DIRECTORY_MODE)  # mkdir's mode goes through the umask
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
    """Run a call that makes `path`; its folders are made when they are missing."""
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
    """A descriptor; a file that is made is 0600, even if the umask takes that from its owner."""
    fd = os.open(path, flags, FILE_MODE)
    if os.fstat(fd).st_mode & FILE_MODE != FILE_MODE:
        os.fchmod(fd, FILE_MODE)
    return fd


def open_for_writing(path: str) -> int:
    """A descriptor for reading and writing, not truncated; the file and folders are made."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    return _in_folder("open", path, lambda: open_private(path, flags))


def write(fd: int, data: bytes, at: int, path: str) -> None:
    """Write all of `data` at the offset, or cut the file back to it and raise StorageError.

    One call where the kernel takes it whole; a short count (a full disk says no more than that)
    is followed by a second call, which says why.
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
            pass  # the half line stays without its newline: the next append sets it aside
        raise StorageError(path, error) from error


def truncate(fd: int, size: int, path: str) -> None:
    """Cut the file to `size` bytes."""
    try:
        step("ftruncate", path)
        os.ftruncate(fd, size)
    except OSError as error:
        raise StorageError(path, error) from error


def sync(fd: int, path: str) -> None:
    """Flush the file's bytes to the disk. OSError when the disk does not confirm it."""
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
    """Names in a folder, sorted; none when it is not there, or is a file that somebody put there.

    StorageError when what it lies in is no folder either, such as a home that is a file.
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
    """Return the names of the JSON documents in a folder, without `.json`, in their files' order.

    Files whose name begins with a dot are passed over: a writer is at work on them, or died.
    """
    found = [one for one in listdir(folder) if one.endswith(".json") and not one.startswith(".")]
    return [one[: -len(".json")] for one in found]


def is_temporary(name: str) -> bool:
    """Whether `replace` gives such a name, `.NAME.PID.tmp`, to what is not finished."""
    parts = name.split(".")
    return len(parts) >= 4 and not parts[0] and parts[-1] == "tmp" and parts[-2].isdecimal()


def replace(path: str, data: bytes, *, mode: int | None = None, durable: bool = True) -> None:
    """Replace a whole file: a temporary file in the same folder, flush, rename, flush.

    A symbolic link keeps pointing where it did; a file keeps its mode, and its owner if root
    replaces it. A crash leaves the old
    or the new file, and perhaps a temporary one (`.NAME.PID.tmp`) that `gc` removes.
    """
    replace_by(path, (data,), mode=mode, durable=durable)


def replace_by(
    path: str, pieces: Iterable[bytes], *, mode: int | None = None, durable: bool = True
) -> int:
    """The same by pieces, which need not fit into memory; how many bytes.

    An error that comes from them is passed on, and leaves the old file.
    """
    path = os.path.realpath(path)
    try:
        before = os.stat(path)
    except OSError:  # what is wrong with the path, the opening says
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
    """Append a line that decides nothing: one call, without a lock and without a flush.

    A file of more than `most_bytes` (0: of any size) goes aside first, as `NAME.1`.
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


class before_commit:  # noqa: N801  reads as what a `with` says
    """What is written in here comes before a commit point: unsure of it is as good as not written.

    DurabilityUnknownError leaves as StorageError. A class: `contextlib` is one import more.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Turn the one error into the other."""
        if isinstance(error, DurabilityUnknownError):
            cause = error.__cause__
            raise StorageError(
                error.path, cause if isinstance(cause, OSError) else OSError(5, "I/O error")
            ) from error


def touch(path: str, text: str = "") -> None:
    """Make or rewrite a small file in place (its inode stays). Not flushed: it only marks."""
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
    """Give a file the time of now. Not flushed."""
    try:
        step("utime", path)
        os.utime(path)
    except OSError as error:
        raise StorageError(path, error) from error


def remove(path: str) -> None:
    """Remove a file; one that is not there is no error."""
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
    """macOS: fsync alone leaves the bytes in the drive's cache. Untested on a Mac."""
    if os.uname().sysname != "Darwin":
        return None
    import fcntl

    code = getattr(fcntl, "F_FULLFSYNC", 51)
    return lambda fd: fcntl.fcntl(fd, code)


_FULL_SYNC = _find_full_sync() if hasattr(os, "uname") else None


def read_text(path: str) -> str:
    """The text of a small marker file, empty when it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096).strip()
    except OSError:  # not there, not ours, a folder, a link to nothing: no text
        return ""
