"""Blobs: texts too long for a line of an inbox, each in a file named by its digest."""

from __future__ import annotations

import hashlib
import os

from vyane_cli.errors import CorruptStateError, StorageError
from vyane_cli.storage import files
from vyane_cli.storage.layout import Layout


def save_blob(layout: Layout, digest: str, text: str) -> None:
    """Save a long text as a blob under `digest`, the SHA-256 of its bytes. On disk on return.

    A text that is saved twice is one file. The caller holds the registry's lock, because `gc`
    removes old blobs that no message refers to.
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


def load_blob(layout: Layout, digest: str) -> str | None:
    """Return the text of a blob; None if it is missing.

    CorruptStateError if the digest of the text differs from the blob's name.
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
