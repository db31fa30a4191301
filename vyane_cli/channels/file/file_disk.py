"""How a thread file changes on disk, while a person may be appending to it at the same time."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

FILE_MAX = 16 * 1024 * 1024


def _nothing(name: str, path: str) -> None:
    pass


step: Callable[[str, str], None] = _nothing
"""Called as `step(call, path)` before each call that changes a file. Tests replace it."""


def append(path: str, data: bytes, unfinished: int, block: str) -> None:
    """Put a block at the end, wherever the end is by then: a person may be appending too.

    A crash leaves the block, none of it, or its beginning, which the next one takes away.
    """
    if unfinished:
        rewrite(path, data, data[:-unfinished].decode("utf-8", "surrogateescape"))
        data = data[:-unfinished]
    last = data[-2:]
    gap = "" if last in (b"", b"\n\n") else "\n" if last.endswith(b"\n") else "\n\n"
    text = (gap + block).encode("utf-8", "replace")
    step("open", path)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        step("write", path)
        if os.write(fd, text) < len(text):  # the rest would stand behind what others append
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        step("fsync", path)
        os.fsync(fd)
    finally:
        os.close(fd)


def rewrite(path: str, data: bytes, text: str) -> None:
    """Replace the file; what a person appended since it was read is kept."""
    changed = text.encode("utf-8", "surrogateescape")
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_size < len(data) or os.pread(fd, len(data), 0) != data:
            raise BlockingIOError(11, "it was changed at this moment")
        changed += os.pread(fd, FILE_MAX, len(data))
        seen = os.fstat(fd).st_size
        replace(path, changed)
        late = os.pread(fd, FILE_MAX, seen)  # appended between the reading and the rename
        if late:
            step("append", path)
            with open(path, "ab") as file:
                file.write(late)
    finally:
        os.close(fd)


def replace(path: str, data: bytes) -> None:
    """Write a file anew. A crash leaves the old or the new one."""
    temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.tmp")
    try:
        mode = os.stat(path).st_mode & 0o7777
    except FileNotFoundError:
        mode = 0o600
    step("open", temporary)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        os.fchmod(fd, mode)
        while data:
            step("write", temporary)
            data = data[os.write(fd, data) :]
        step("fsync", temporary)
        os.fsync(fd)
    finally:
        os.close(fd)
    step("rename", path)
    os.replace(temporary, path)
    step("fsync", os.path.dirname(path))
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
