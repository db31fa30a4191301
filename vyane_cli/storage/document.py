"""Documents: small JSON files, always replaced whole. Unknown fields survive a rewrite.

Also the encoding of journal lines, which `storage.journal` uses.
"""

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
"""Hint for damaged documents: nothing repairs one automatically, its right content is unknown."""


def load(path: str) -> dict[str, Any] | None:
    """Return the object in the file, or None if the file is missing. Damage raises an error."""
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
    """Return line and reason of a JSON error, for people who edited the file.

    Only failed reads call this, so the import of `json` costs other reads nothing.
    """
    import json

    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return error.lineno, f"not JSON: {error.msg} (column {error.colno})"
    except (ValueError, RecursionError):
        pass
    return None, ""


def load_as(path: str, parse: Callable[[Mapping[str, Any]], T], kind: str) -> T | None:
    """Load the document and parse it. Return None if the file is missing.

    CorruptStateError if the parser rejects the object.
    """
    data = load(path)
    if data is None:
        return None
    try:
        return parse(data)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptStateError(path, f"not a {kind}: {error}", hint=BY_HAND) from None


def save(path: str, value: Mapping[str, Any], root: str, *, durable: bool = True) -> None:
    """Replace the document. It is on disk when this returns, unless `durable` is False.

    A crash leaves the old or the new document. StorageError: the old one is still in place.
    DurabilityUnknownError: the new one is in place, but the disk did not confirm it.
    """
    if not os.path.exists(path):
        files.make_directories(os.path.dirname(path))
        if durable:
            # before the file exists, so that every readable document has a durable folder
            try:
                files.sync_directories(path, root)
            except OSError as error:
                raise StorageError(path, error) from error
    files.replace(path, encode_document(value), durable=durable)


VERSION = 1
_CHECK = b',"crc":"'
_TAIL = len(_CHECK) + 8 + 2  # the digits, then `"}`

loads: Callable[[bytes], Any] = json.loads
"""The JSON parser in use. `accelerate` replaces it in commands that read whole journals."""


def accelerate() -> None:
    """Parse with orjson from now on. For commands, whose start-up can afford the import."""
    global loads
    import re

    import orjson

    long_number = re.compile(rb"\d{19}").search

    def exact(data: bytes) -> Any:
        # orjson turns integers over 64 bits into floats
        return json.loads(data) if long_number(data) else orjson.loads(data)

    loads = exact


def dumps(value: object) -> bytes:
    """Render compact JSON in UTF-8. A text with lone surrogates is rendered in escaped ASCII."""
    try:
        return json.dumps(value).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, ascii_only=True).encode("ascii")


def encode_line(record: Mapping[str, Any]) -> bytes:
    """Encode a record as one line with its newline.

    The line's last key is `crc`: the CRC-32 of the bytes before it.
    """
    body = dumps({"v": VERSION, **record})[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


class LineError(ValueError):
    """A line or document that cannot be decoded; the error's text is the reason."""


class NewerError(LineError):
    """An intact record of a later version: not damage, and must not be changed."""


def decode_line(line: bytes) -> dict[str, Any]:
    """Decode a line without its newline. Return its record, or raise LineError with the reason."""
    if line[-_TAIL : -_TAIL + len(_CHECK)] != _CHECK or line[-2:] != b'"}':
        raise LineError("no checksum")
    body = line[:-_TAIL]
    if line[-10:-2] != b"%08x" % crc32(body):
        raise LineError("checksum does not match")
    return _object(body + b"}", versioned=True)


def decode_document(data: bytes) -> dict[str, Any]:
    """Decode a document. Return its object.

    LineError with the reason if it is not an object, NewerError if it is of a later version.
    """
    return _object(data, versioned=False)


def _object(data: bytes, *, versioned: bool) -> dict[str, Any]:
    try:
        value = loads(data)
    except (ValueError, RecursionError):
        try:
            value = json.loads(data)  # orjson is stricter, e.g. on escaped lone surrogates
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
    """Encode a document so that people can read it: indented, UTF-8, with a final newline."""
    import json

    text = json.dumps({"v": VERSION, **value}, ensure_ascii=False, indent=1, allow_nan=False)
    try:
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        return json.dumps({"v": VERSION, **value}, indent=1).encode("ascii") + b"\n"
