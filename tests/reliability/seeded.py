"""Eight faults, planted in a running vyane by test code alone: each must make the rig go red (R20).

`with planted("no_lock"): …` in this process and its forks; `python -m tests.reliability.seeded
no_fsync send bob hello` in one of its own.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vyane_cli.delivery.transaction import Desk
from vyane_cli.mail import inbox
from vyane_cli.storage import files, journal, locks
from vyane_cli.timeline import log, reader

Patch = tuple[Any, str, Any]


def no_lock() -> list[Patch]:
    """Nobody waits for anybody."""
    return [
        (locks.held, "__enter__", lambda self: None),
        (locks.held, "__exit__", lambda self, *exc: None),
    ]


def no_fsync() -> list[Patch]:
    """A file's bytes stay in memory; folders are flushed."""
    return [(files, "sync", lambda fd, path: None), (files, "sync_directory", _really_sync)]


def _really_sync(folder: str) -> None:
    import os

    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def no_directory_fsync() -> list[Patch]:
    """A file's name stays in memory; its bytes are flushed."""
    return [(files, "sync_directory", lambda folder: None)]


def acknowledge_before_write() -> list[Patch]:
    """`send` says that it is done, and the message is written at the next one or at the end."""
    import atexit

    waiting: list[tuple[Any, ...]] = []
    append = inbox.append

    def late() -> None:
        while waiting:
            append(*waiting.pop(0))

    def soon(*words: Any) -> None:
        late()
        waiting.append(words)

    atexit.register(late)
    return [(inbox, "append", soon)]


def two_writes_per_record() -> list[Patch]:
    """A line, and then its newline."""
    write = files.write

    def twice(fd: int, data: bytes, at: int, path: str) -> None:
        if data.endswith(b"\n") and path.endswith(".jsonl"):
            write(fd, data[:-1], at, path)
            write(fd, b"\n", at + len(data) - 1, path)
        else:
            write(fd, data, at, path)

    return [(files, "write", twice)]


def lock_file_unlinked() -> list[Patch]:
    """The lock file goes when the lock does."""
    import os

    leave = locks.held.__exit__

    def unlinking(self: Any, *exc: object) -> None:
        taken = bool(self.taken)
        leave(self, *exc)
        if taken:
            for path in self.paths:
                if os.path.exists(path):
                    os.unlink(path)

    return [(locks.held, "__exit__", unlinking)]


def cursor_by_time() -> list[Patch]:
    """A reader goes on after the moment of the last event that it has seen."""
    seek = reader.Reader.seek

    def by_time(self: Any, cursor: Any) -> None:
        seek(self, cursor)
        if not cursor.seq:
            return
        seen = reader.event_at(self.path, cursor.seq)
        moment = seen.record["at"] if seen is not None else 0.0
        for line in journal.read(self.path, self.position):
            record = line.record or {}
            if record.get("at", 0.0) > moment:
                before = log.line_before(self.path, line.offset)
                self._continue(line.offset, before, "")
                return
        self.seek_end()

    return [(reader.Reader, "seek", by_time)]


def mark_read_before_print() -> list[Patch]:
    """`delivered` is recorded with the claim, and the output comes after it."""
    claim, settle = Desk.claim, Desk.settle

    def early(self: Any) -> Any:
        plan = claim(self)
        if plan.showing is not None:
            settle(self, plan.showing, shown=True)
        return plan

    def nothing(self: Any, showing: Any, *, shown: bool) -> None:
        return None

    return [(Desk, "claim", early), (Desk, "settle", nothing)]


FAULTS: dict[str, Callable[[], list[Patch]]] = {
    made.__name__: made
    for made in (
        no_lock,
        no_fsync,
        no_directory_fsync,
        acknowledge_before_write,
        two_writes_per_record,
        lock_file_unlinked,
        cursor_by_time,
        mark_read_before_print,
    )
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The fault is there, and gone again at the end."""
    before = []
    try:
        for owner, attribute, fault in FAULTS[name]():
            before.append((owner, attribute, getattr(owner, attribute)))
            setattr(owner, attribute, fault)
        yield
    finally:
        for owner, attribute, good in reversed(before):
            setattr(owner, attribute, good)


def main() -> None:
    fault, *words = sys.argv[1:]
    sys.argv = ["vyane", *words]
    from vyane_cli.__main__ import main as vyane

    with planted(fault):
        vyane()


if __name__ == "__main__":
    main()
