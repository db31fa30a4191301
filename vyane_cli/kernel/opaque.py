"""Opaque texts that carry a few fields and notice a changed character: cursors, turn tokens."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from zlib import crc32

_SEPARATOR = "\n"


def seal(prefix: str, fields: Sequence[str]) -> str:
    """`prefix` + base64url (RFC 4648, without padding) of the fields and their CRC-32."""
    body = _SEPARATOR.join(fields).encode()
    data = body + crc32(prefix.encode() + body).to_bytes(4, "big")
    return prefix + urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def unseal(prefix: str, text: str) -> list[str] | None:
    """The fields, None for anything that `seal` with this prefix did not make."""
    if not text.startswith(prefix) or not text.isascii():
        return None
    try:
        data = urlsafe_b64decode(text[len(prefix) :] + "=" * (-len(text[len(prefix) :]) % 4))
        fields = data[:-4].decode().split(_SEPARATOR)
    except ValueError:
        return None
    # sealed again: base64 has several spellings of the same bytes, and only one of them is ours
    return fields if seal(prefix, fields) == text else None
