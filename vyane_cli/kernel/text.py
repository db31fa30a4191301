"""Text helpers: templates, names, lengths, and neutralising text from other agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vyane_cli.kernel.values import NamedTuple

RESERVED = (
    "[系统接管]",
    "[接管决定]",
    "[SYSTEM TAKEOVER]",
    "[TAKEOVER DECISION]",
    "[vyane",
    "[SYSTEM NOTIFICATION",
    "Message from",
    "消息来自",
)
"""Prefixes of the envelopes. A body line with such a prefix is quoted when it is rendered."""


class Templates(NamedTuple):
    """The templates of one language, from `state_templates/`, with placeholders in braces."""

    texts: Mapping[str, str]

    def fill(self, name: str, /, **values: object) -> str:
        """Fill the placeholders of the named template. Braces in values are not expanded."""
        parts = self.texts[name].split("{")
        out = [parts[0]]
        for part in parts[1:]:
            key, _, rest = part.partition("}")
            out.append(str(values.get(key, "")) + rest)
        return "".join(out)


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 units, as hosts written in JavaScript count it."""
    return len(text) + sum(1 for character in text if character > "\uffff")


def neutralise(text: str) -> str:
    """Make another agent's text harmless: show control characters, quote reserved prefixes."""
    clean = "".join(
        _escape(c) if is_control(c) or c in _HIDDEN else c for c in text.replace("\r\n", "\n")
    )
    return "\n".join(
        "| " + line if _bare(line).startswith(_RESERVED_UPPER) else line
        for line in clean.split("\n")
    )


def escape_controls(text: str) -> str:
    """Make control characters visible, except line ends and tabs."""
    return "".join(_escape(c) if is_control(c) else c for c in text)


def strip_controls(text: str) -> str:
    """Remove control characters, except line ends and tabs."""
    return "".join(c for c in text if not is_control(c))


def is_control(character: str) -> bool:
    """Return whether a character is a control or a lone surrogate; line ends and tabs are none."""
    code = ord(character)
    return character not in "\n\t" and (
        code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000
    )


def cut(text: str, limit: int) -> str:
    """Return the text, or its beginning and "…" in `limit` characters when it is longer."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut_utf16(text: str, units: int) -> str:
    """Return the longest prefix of at most `units` UTF-16 units."""
    if utf16_length(text) <= units:
        return text
    kept = 0
    for index, character in enumerate(text):
        kept += 2 if character > "\uffff" else 1
        if kept > units:
            return text[:index]
    return text


_RESERVED_UPPER = tuple(prefix.upper() for prefix in RESERVED)
_HIDDEN = frozenset("\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u2028\u2029\ufeff") | frozenset(
    chr(code)
    for start, stop in (
        (0x202A, 0x202F),  # directions
        (0x2060, 0x2070),  # invisible joiners and operators
        (0xFFF9, 0xFFFC),  # annotations
        (0xE0000, 0xE0080),  # tags: letters that a model may read and a person cannot see
        (0xE0100, 0xE01F0),  # further variation selectors
    )
    for code in range(start, stop)
)
"""Invisible format characters, except those that scripts and emoji need: U+200C, U+200D, U+FE0F."""


def _bare(line: str) -> str:
    """Return the line's first 40 characters in upper case, after leading space and markup."""
    for position, character in enumerate(line):
        if not character.isspace() and character not in "|>*#-`":
            return line[position : position + 40].upper()
    return ""


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def slug(text: str, limit: int = 40) -> str:
    """Return the words of a text in lower case, joined by dashes, cut after a word if possible."""
    cleaned = "".join(c if c.isalnum() else " " for c in text.lower()).split()
    out = ""
    for word in cleaned:
        longer = f"{out}-{word}" if out else word
        if len(longer) > limit:
            return out or word[:limit]
        out = longer
    return out


def nearest_names(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return up to three names that look like `text`."""
    import difflib

    by_lower = {name.casefold(): name for name in names}
    found = difflib.get_close_matches(text.strip().casefold(), list(by_lower), 3, 0.5)
    return tuple(by_lower[name] for name in found)
