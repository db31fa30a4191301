"""A small JSON file that is replaced whole. Fields that we do not know survive a rewrite."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Mapping
from zlib import crc32

from vyane_cli.errors import CorruptStateError, StorageError, TooNewError
from vyane_cli.kernel import json
from vyane_cli.storage import files

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
        return decode_document(data.removeprefix(codecs.BOM_UTF8))
    except NewerError as error:
        raise TooNewError(path, str(error)) from None
    except LineError as error:
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
    files.replace(path, encode_document(value), durable=durable)


VERSION = 1
_CHECK = b',"crc":"'
_TAIL = len(_CHECK) + 8 + 2  # the digits, then `"}`

loads: Callable[[bytes], Any] = json.loads
"""How text becomes a value. `accelerate` replaces it in commands that read whole journals."""


def accelerate() -> None:
    """Read with orjson from here on: for commands, whose start-up can bear the import."""
    global loads
    import re

    import orjson

    long_number = re.compile(rb"\d{19}").search

    def exact(data: bytes) -> Any:
        # orjson makes a float of an integer that 64 bits do not hold
        return json.loads(data) if long_number(data) else orjson.loads(data)

    loads = exact


def dumps(value: object) -> bytes:
    """Compact JSON in UTF-8; what UTF-8 cannot say (a lone surrogate) is escaped."""
    try:
        return json.dumps(value).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, ascii_only=True).encode("ascii")


def encode_line(record: Mapping[str, Any]) -> bytes:
    """One line with its newline. Its last key is `crc`: CRC-32 of the bytes before it."""
    body = dumps({"v": VERSION, **record})[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


class LineError(ValueError):
    """A line that is no record of ours; its text is the reason."""


class NewerError(LineError):
    """A whole record of a later version: not damage, and not ours to touch."""


def decode_line(line: bytes) -> dict[str, Any]:
    """The record of a line without its newline; LineError with the reason otherwise."""
    if line[-_TAIL : -_TAIL + len(_CHECK)] != _CHECK or line[-2:] != b'"}':
        raise LineError("no checksum")
    body = line[:-_TAIL]
    if line[-10:-2] != b"%08x" % crc32(body):
        raise LineError("checksum does not match")
    return _object(body + b"}", versioned=True)


def decode_document(data: bytes) -> dict[str, Any]:
    """A document's object; LineError with the reason when it is none, or of a later version."""
    return _object(data, versioned=False)


def _object(data: bytes, *, versioned: bool) -> dict[str, Any]:
    try:
        value = loads(data)
    except (ValueError, RecursionError):
        try:
            value = json.loads(data)  # orjson is stricter: an escaped lone surrogate, say
        except (ValueError, RecursionError):
            raise LineError("not JSON") from None
    if not isinstance(value, dict):
        raise LineError("not an object")
    version = value.get("v", None if versioned else VERSION)
    if not isinstance(version, int):
        raise LineError("no version")
    if version > VERSION:
        raise NewerError(f"version {version} is newer than this program")
    return value


def encode_document(value: Mapping[str, Any]) -> bytes:
    """A document for people to read: indented, UTF-8, with a final newline."""
    import json

    text = json.dumps({"v": VERSION, **value}, ensure_ascii=False, indent=1, allow_nan=False)
    try:
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        return json.dumps({"v": VERSION, **value}, indent=1).encode("ascii") + b"\n"
