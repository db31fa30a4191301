"""Damaged bytes, set aside whole: nothing is thrown away, and `doctor` names each file.

`quarantine/{name}.{offset}.{crc}.bad` holds the bytes; `quarantine/index.jsonl` says where each
came from and why. A crash before the index line leaves the bytes without it: `doctor` lists the
folder, not the index.
"""

import os
from typing import Any
from zlib import crc32

from vyane_cli.store import codec, files

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
    if not os.path.exists(target):
        files.make_directories(folder)
        files.replace(target, data)
        index = os.path.join(folder, "index.jsonl")
        record = {"file": os.path.relpath(path, root), "offset": offset, "bytes": len(data)}
        fd = os.open(index, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, files.FILE_MODE)
        try:
            files.step("write", index)
            os.write(fd, codec.encode_line({**record, "reason": reason, "kept": target}))
        finally:
            os.close(fd)
    return target


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
