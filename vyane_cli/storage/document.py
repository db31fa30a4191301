"""A small JSON file that is replaced whole. Fields that we do not know survive a rewrite."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Mapping

from vyane_cli.errors import CorruptStateError, StorageError, TooNewError
from vyane_cli.storage import codec, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")

BY_HAND = "mend it by hand, or put it back from a copy: `vyane doctor` names every such file"
"""Nothing mends a document by itself: what it should say is not known."""


def load(path: str) -> dict[str, Any] | None:
    """The object in the file, None when there is no file. Damage is an error, never a guess."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise CorruptStateError(path, "a folder is in its place", hint=BY_HAND) from None
    except OSError as error:
        raise StorageError(path, error) from error
    try:
        return codec.decode_document(data.removeprefix(codecs.BOM_UTF8))
    except codec.NewerError as error:
        raise TooNewError(path, str(error)) from None
    except codec.LineError as error:
        line, reason = _place(data)
        raise CorruptStateError(path, reason or str(error), line=line, hint=BY_HAND) from None


def _place(data: bytes) -> tuple[int | None, str]:
    """Line and reason of what is no JSON, for people who edited it; a read that failed may ask."""
    import json

    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return error.lineno, f"not JSON: {error.msg} (column {error.colno})"
    except (ValueError, RecursionError):
        pass
    return None, ""


def load_as(path: str, parse: Callable[[Mapping[str, Any]], T], kind: str) -> T | None:
    """What the document says, by its parser; None when there is no file. Another form is damage."""
    data = load(path)
    if data is None:
        return None
    try:
        return parse(data)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptStateError(path, f"not a {kind}: {error}", hint=BY_HAND) from None


def save(path: str, value: Mapping[str, Any], root: str, *, durable: bool = True) -> None:
    """Replace the document. On disk when this returns; a crash leaves the old or the new one.

    StorageError: it is the old one. DurabilityUnknownError: it is the new one, not confirmed.
    """
    if not os.path.exists(path):
        files.make_directories(os.path.dirname(path))
        if durable:
            # before it is there: so that a document that can be read has a durable folder
            try:
                files.sync_directories(path, root)
            except OSError as error:
                raise StorageError(path, error) from error
    files.replace(path, codec.encode_document(value), durable=durable)
