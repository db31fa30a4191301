"""Ids as text: ULIDs for messages and turns, short random ids for the ones that people type."""

from __future__ import annotations

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID_MAX = (1 << 128) - 1

ID_MAX = 128
"""The longest id that may become part of a file name, in characters."""


def render_ulid(now_ms: int, entropy: bytes) -> str:
    """Render a ULID (github.com/ulid/spec): 48 bits of Unix ms, then 80 bits of `entropy`."""
    return _render(((now_ms & ((1 << 48) - 1)) << 80) | int.from_bytes(entropy[:10], "big"))


def next_ulid(previous: str, now_ms: int, entropy: bytes) -> str:
    """Return a ULID that sorts after `previous`, even in the same ms or after a clock step."""
    fresh = render_ulid(now_ms, entropy)
    if fresh > previous:
        return fresh
    return _render(min(parse_ulid(previous) + 1, _ULID_MAX))


def parse_ulid(text: str) -> int:
    """Parse a ULID. Return its 128-bit number; ValueError for anything that is not a ULID."""
    if not is_ulid(text):
        raise ValueError(f"{text!r} is not a ULID")
    number = 0
    for character in text:
        number = number << 5 | _CROCKFORD.index(character)
    return number


def is_ulid(text: str) -> bool:
    """Return whether `text` is a ULID in canonical (upper) case."""
    return len(text) == 26 and text[0] <= "7" and all(character in _CROCKFORD for character in text)


def worker_id(entropy: bytes) -> str:
    """Return a worker id: `w-` and 12 hex digits. A prefix of 4 or 5 digits is enough to type."""
    return "w-" + entropy[:6].hex()


def logical_session_id(entropy: bytes) -> str:
    """Return the id of a logical session: `vs-` and 12 hexadecimal digits."""
    return "vs-" + entropy[:6].hex()


def is_logical_session_id(text: str) -> bool:
    """Return whether `text` has the form of a logical session's id."""
    return len(text) == 15 and text[:3] == "vs-" and all(c in "0123456789abcdef" for c in text[3:])


def is_safe_id(text: str) -> bool:
    """Return whether a file name may contain `text`: 1 to 128 of A-Z, a-z, 0-9, `_`, `-`."""
    return (
        0 < len(text) <= ID_MAX
        and text.isascii()
        and all(character.isalnum() or character in "_-" for character in text)
    )


def _render(number: int) -> str:
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))


def span_id(turn: str) -> str:
    """Return the span id of a turn for tracing: the low 64 bits of its ULID as 16 hex digits.

    Return an empty string if the turn's id is not a ULID.
    """
    return f"{parse_ulid(turn) & ((1 << 64) - 1):016x}" if is_ulid(turn) else ""
