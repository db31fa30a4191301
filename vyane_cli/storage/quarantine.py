"""Damaged bytes, set aside whole: nothing is thrown away, and `doctor` names each file.

`quarantine/{name}.{offset}.{crc}.bad` holds the bytes; `quarantine/index.jsonl` says where each
came from and why. A crash before the index line leaves the bytes without it: `doctor` lists the
folder, not the index.
"""

from __future__ import annotations

import os
from zlib import crc32

from vyane_cli.errors import StorageError
from vyane_cli.storage import codec, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIMIT_BYTES = 64 * 1024 * 1024
"""Above this `doctor` asks a person to look through the folder. Nothing is removed by itself."""


def set_aside(root: str, path: str, fd: int, offset: int, length: int, reason: str) -> str:
    """Copy these bytes of an open file to the quarantine, durably; return the copy's path."""
    return keep(root, path, os.pread(fd, length, offset), offset, reason)


def keep(root: str, path: str, data: bytes, offset: int, reason: str) -> str:
    """Keep bytes that came from `path`; the same bytes of the same place are kept once."""
    folder = os.path.join(root, "quarantine")
    name = os.path.relpath(path, root).replace(os.sep, "--")[-150:]
    target = os.path.join(folder, f"{name}.{offset}.{crc32(data):08x}.bad")
    there = os.path.exists(target)
    try:
        with files.before_commit():  # not sure of the copy: leave the original alone
            if not there:
                files.make_directories(folder)
                files.replace(target, data)
        files.sync_directories(target, root)  # whoever made it or its folder may have died before
    except OSError as error:
        raise StorageError(target, error) from error
    if not there:
        index = os.path.join(folder, "index.jsonl")
        record = {"file": os.path.relpath(path, root), "offset": offset, "bytes": len(data)}
        _note(index, {**record, "reason": reason, "kept": target})
    return target


def _note(index: str, record: dict[str, Any]) -> None:
    """The bytes are kept by now: a note about them is not worth an error."""
    try:
        files.add_note(index, codec.encode_line(record))
    except StorageError:
        return


def listing(root: str) -> list[dict[str, Any]]:
    """What is kept: name and size of each file, in name order."""
    folder = os.path.join(root, "quarantine")
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".bad"))
    except FileNotFoundError:
        return []
    return [
        {"file": os.path.join(folder, name), "bytes": os.path.getsize(os.path.join(folder, name))}
        for name in names
    ]
