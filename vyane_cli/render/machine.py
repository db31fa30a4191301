"""Results for programs: one JSON document, or one a line for streams."""

import json
from enum import Enum


def document(value: object) -> str:
    """One document: compact when piped, as a person would indent it otherwise."""
    import sys

    indent = 2 if sys.stdout.isatty() else None
    return _dump(value, indent)


def line(value: object) -> str:
    """One document on one line."""
    return _dump(value, None)


def _dump(value: object, indent: int | None) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=_plain)
    return text.translate(_HIDDEN).encode("utf-8", "replace").decode()


_HIDDEN = {
    code: f"\\u{code:04x}"
    for start, stop in ((0x7F, 0xA0), (0x200B, 0x2010), (0x2028, 0x202F), (0x2060, 0x2070))
    for code in range(start, stop)
}
"""What a terminal acts on, or hides, although it stands in a JSON text: printed as an escape."""


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
