"""Value ↔ JSON: one line with a checksum, or a document with a schema version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from zlib import crc32

from vyane_cli.kernel import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
