"""Blobs: texts too long for a line of an inbox, each in a file named by its digest."""

from __future__ import annotations

import hashlib
import os

from vyane_cli.errors import CorruptStateError, StorageError
from vyane_cli.storage import files
from vyane_cli.storage.layout import Layout


def save_blob(layout: Layout, digest: str, text: str) -> None:
    """Keep a long text under the SHA-256 of its bytes, durably. Kept twice it is the same file.

    Under the registry's lock, as `gc` takes one away that no message names and that is old.
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
    """The text of a blob; None when it is gone. CorruptStateError when it is another text."""
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
