"""Opaque texts for cursors and turn tokens: a few fields with a checksum against changes."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from zlib import crc32

_SEPARATOR = "\n"


def seal(prefix: str, fields: Sequence[str]) -> str:
    """Return `prefix` + base64url (RFC 4648, without padding) of the fields and their CRC-32."""
    body = _SEPARATOR.join(fields).encode()
    data = body + crc32(prefix.encode() + body).to_bytes(4, "big")
    return prefix + urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def unseal(prefix: str, text: str) -> list[str] | None:
    """Return the fields, or None for any text that `seal` did not make with this prefix."""
    if not text.startswith(prefix) or not text.isascii():
        return None
    try:
        data = urlsafe_b64decode(text[len(prefix) :] + "=" * (-len(text[len(prefix) :]) % 4))
        fields = data[:-4].decode().split(_SEPARATOR)
    except ValueError:
        return None
    # Seal again and compare: base64 can spell the same bytes in several ways, `seal` uses one.
    return fields if seal(prefix, fields) == text else None
