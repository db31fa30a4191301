"""Value ↔ JSON: one line with a checksum, or a document with a schema version."""

import json
from collections.abc import Callable, Mapping
from typing import Any
from zlib import crc32

VERSION = 1
_CHECK = b',"crc":"'
_TAIL = len(_CHECK) + 8 + 2  # the digits, then `"}`

loads: "Callable[[bytes], Any]" = json.loads
"""How text becomes a value. `accelerate` replaces it in commands that read whole journals."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def accelerate() -> None:
    """Read with orjson from here on: for commands, whose start-up can bear the import."""
    global loads
    import orjson

    loads = orjson.loads


def dumps(value: object) -> bytes:
    """Compact JSON in UTF-8; what UTF-8 cannot say (a lone surrogate) is escaped."""
    try:
        return _encode(value).encode("utf-8")
    except UnicodeEncodeError:
        return _encode_ascii(value).encode("ascii")


def encode_line(record: Mapping[str, Any]) -> bytes:
    """One line with its newline. Its last key is `crc`: CRC-32 of the bytes before it."""
    body = dumps({"v": VERSION, **record})[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


class LineError(ValueError):
    """A line that is no record of ours; its text is the reason."""


def decode_line(line: bytes) -> dict[str, Any]:
    """The record of a line without its newline; LineError with the reason otherwise."""
    if line[-_TAIL : -_TAIL + len(_CHECK)] != _CHECK or line[-2:] != b'"}':
        raise LineError("no checksum")
    body = line[:-_TAIL]
    if line[-10:-2] != b"%08x" % crc32(body):
        raise LineError("checksum does not match")
    try:
        record = loads(body + b"}")
    except (ValueError, RecursionError):
        raise LineError("not JSON") from None
    if not isinstance(record, dict):
        raise LineError("not an object")
    version = record.get("v")
    if not isinstance(version, int) or version > VERSION:
        raise LineError(f"version {version!r} is newer than this program")
    return record


def decode_document(data: bytes) -> dict[str, Any]:
    """A document's object; LineError with the reason when it is none, or of a later version."""
    try:
        value = loads(data)
    except (ValueError, RecursionError):
        raise LineError("not JSON") from None
    if not isinstance(value, dict):
        raise LineError("not an object")
    version = value.get("v", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise LineError(f"version {version!r} is newer than this program")
    return value


def encode_document(value: Mapping[str, Any]) -> bytes:
    """A document for people to read: indented, UTF-8, with a final newline."""
    text = json.dumps({"v": VERSION, **value}, ensure_ascii=False, indent=1, allow_nan=False)
    try:
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        return json.dumps({"v": VERSION, **value}, indent=1).encode("ascii") + b"\n"
