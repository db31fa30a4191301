"""Blobs: texts too long for a line of an inbox, each in a file named by its digest."""

from __future__ import annotations

import hashlib
import os

from vyane_cli.errors import CorruptStateError, StorageError
from vyane_cli.storage import files
from vyane_cli.storage.layout import Layout


def keep_blob(layout: Layout, digest: str, text: str) -> None:
    """Save a long text under the SHA-256 of its bytes, durably.

    A second save refreshes the same file.

    Under the registry's lock, which `gc` also holds while it removes an old blob that no message
    names.
    """
    path = layout.blob(digest)
    if os.path.exists(path):
        files.refresh(path)
        return
    files.make_directories(os.path.dirname(path))
    files.replace(path, text.encode("utf-8", "replace"))
    try:
        files.sync_directories(path, layout.root)
    except OSError as error:
        raise StorageError(path, error) from error


def read_blob(layout: Layout, digest: str) -> str | None:
    """Return the text of a blob; None when the file is missing.

    CorruptStateError when the text does not match its digest.
    """
    path = layout.blob(digest)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(path, error) from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise CorruptStateError(path, "it is not the text of its name")
    return data.decode("utf-8", "replace")
