"""Locks: their kinds, the order in which they are taken, and how long a process waits.

A lock is an advisory lock on a file that is never removed. Each kind has a fixed set of files
(stripes), so the number of files does not grow with the sessions. Two targets that share a stripe
wait for each other, which is the only cost. Locks are taken in ascending order, each once, and
data files are opened after locking.

The main thread waits inside the kernel, with a timer as the deadline. It does not poll, so it gets
the lock as soon as the holder releases it. Elsewhere (a thread of a program that uses the library,
Windows) `filelock` polls the same files.
"""

from __future__ import annotations

import os
import time
import zlib

from vyane_cli.errors import LockTimeoutError, StorageError
from vyane_cli.kernel.values import IntEnum
from vyane_cli.storage import files

TICK_S = 0.02
"""Seconds between timer repeats after the deadline, in case it fired between two calls."""


class LockKind(IntEnum):
    """The kinds of locks, by what they guard, in the order in which they are taken."""

    MIRROR = 0
    REGISTRY = 1
    CONFIG = 2
    KEY = 3
    BROADCAST = 4
    INBOX = 5
    TIMELINE = 6
    OUTBOX = 7
    ARCHIVE = 8
    QUEUE = 9
    LEDGER = 10
    BINDINGS = 11
    NOTICES = 12
    SCHEDULES = 13


STRIPES = {
    LockKind.MIRROR: 4,
    LockKind.INBOX: 32,
    LockKind.TIMELINE: 32,
    LockKind.KEY: 8,
    LockKind.OUTBOX: 8,
    LockKind.LEDGER: 8,
    LockKind.NOTICES: 8,
}


class Deadline:
    """The time budget for all locks of one call, in seconds."""

    __slots__ = ("budget_s", "end")

    def __init__(self, budget_s: float) -> None:
        self.budget_s = budget_s
        self.end = time.monotonic() + budget_s

    @property
    def left_s(self) -> float:
        """Return the seconds that are left; never negative."""
        return max(self.end - time.monotonic(), 0.0)


def lock_path(root: str, kind: LockKind, key: str = "") -> str:
    """Return the lock file for a key: `locks/{order}-{kind}-{stripe}.lock`."""
    stripe = zlib.crc32(key.encode("utf-8", "replace")) % STRIPES.get(kind, 1)
    return os.path.join(root, "locks", f"{int(kind)}-{kind.name.lower()}-{stripe:02}.lock")


class held:  # noqa: N801  reads well after `with`
    """Context manager that holds locks of (kind, key) pairs; LockTimeoutError at the deadline.

    This is a class, because a generator would need `contextlib`, a further import in a hook.
    """

    __slots__ = ("deadline", "paths", "taken")

    def __init__(self, root: str, wanted: list[tuple[LockKind, str]], deadline: Deadline) -> None:
        ordered = sorted({(kind, lock_path(root, kind, key)) for kind, key in wanted})
        self.paths = [path for _, path in ordered]
        self.deadline = deadline
        self.taken: list[object] = []

    def __enter__(self) -> None:
        """Take the locks in ascending order. If one cannot be taken, release the others."""
        try:
            for path in self.paths:
                self.taken.append(_take(path, self.deadline))
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exc: object) -> None:
        """Release the locks in reverse order."""
        while self.taken:
            _release(self.taken.pop())


def take_now(path: str) -> object | None:
    """Lock a file without waiting. Return the lock, or None if somebody else holds it."""
    try:
        import fcntl
    except ImportError:
        try:
            return _take_by_filelock(path, Deadline(0))
        except LockTimeoutError:
            return None
    fd = _open(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError as error:
        os.close(fd)
        raise StorageError(path, error) from error
    return fd


def take_soon(path: str, patience_s: float) -> object | None:
    """Lock a file, waiting up to `patience_s`. Return the lock, or None if it stays held."""
    try:
        return _take(path, Deadline(patience_s))
    except LockTimeoutError:
        return None


def give_back(lock: object) -> None:
    """Release a lock of `take_now` or `take_soon`. The file stays."""
    _release(lock)


def _take(path: str, deadline: Deadline) -> object:
    try:
        import fcntl
    except ImportError:
        return _take_by_filelock(path, deadline)
    fd = _open(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not _in_main_thread():
            os.close(fd)
            return _take_by_filelock(path, deadline)
        _wait(fd, path, deadline)
    except OSError as error:
        os.close(fd)
        raise StorageError(path, error) from error
    return fd


def _open(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return files.open_private(path, flags)
    except FileNotFoundError:
        files.make_directories(os.path.dirname(path))
    except OSError as error:
        raise StorageError(path, error) from error
    try:
        return files.open_private(path, flags)
    except OSError as error:
        raise StorageError(path, error) from error


class _AlarmError(Exception):
    pass


def _wait(fd: int, path: str, deadline: Deadline) -> None:
    """Block in the kernel until the lock is taken or the timer fires. Closes fd on failure."""
    import fcntl
    import signal

    ours = False

    def ring(number: int, frame: object) -> None:
        if not ours and deadline.left_s <= 0:  # the lock may arrive with the alarm
            signal.setitimer(
                signal.ITIMER_REAL, 0
            )  # first, so that no second alarm fires during handling
            raise _AlarmError

    before = signal.signal(signal.SIGALRM, ring)
    previous = (0.0, 0.0)
    try:
        previous = signal.setitimer(signal.ITIMER_REAL, max(deadline.left_s, 0.001), TICK_S)
        fcntl.flock(fd, fcntl.LOCK_EX)
        ours = True
    except _AlarmError:
        os.close(fd)
        raise LockTimeoutError(path, deadline.budget_s) from None
    except OSError as error:
        os.close(fd)
        raise StorageError(path, error) from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if previous[0]:
            signal.setitimer(signal.ITIMER_REAL, *previous)


def _in_main_thread() -> bool:
    import sys

    threading = sys.modules.get("threading")  # if it is not imported, only one thread exists
    return threading is None or threading.current_thread() is threading.main_thread()


def _take_by_filelock(path: str, deadline: Deadline) -> object:
    import filelock

    lock = filelock.FileLock(path, mode=files.FILE_MODE)
    try:
        lock.acquire(timeout=deadline.left_s, poll_interval=0.005)
    except filelock.Timeout:
        raise LockTimeoutError(path, deadline.budget_s) from None
    return lock


def _release(lock: object) -> None:
    if isinstance(lock, int):
        os.close(lock)
    else:
        lock.release()  # type: ignore[attr-defined]
