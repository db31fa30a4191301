"""The text form of a message as the model sees it: plain, no tags, sender and id first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vyane_cli.core.mailbox import Entry
from vyane_cli.core.messages import FromKind, Kind, body_of
from vyane_cli.core.values import NamedTuple

BUDGET = 9_500
"""Characters (UTF-16 units) of one hook output: hosts cut at 10,000."""

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
"""How an envelope of ours begins. A body line that begins so is quoted when it is rendered."""


class Templates(NamedTuple):
    """The texts of one language, from `state_templates/`: placeholders in braces."""

    texts: Mapping[str, str]

    def fill(self, name: str, /, **values: object) -> str:
        """The named template with its placeholders filled; values are never templates again."""
        parts = self.texts[name].split("{")
        out = [parts[0]]
        for part in parts[1:]:
            key, _, rest = part.partition("}")
            out.append(str(values.get(key, "")) + rest)
        return "".join(out)


class Page(NamedTuple):
    """One output: its text, the messages wholly in it, and how many wait behind it."""

    text: str
    shown: tuple[Entry, ...]
    left: int


def utf16_length(text: str) -> int:
    """Length as hosts written in JavaScript count it."""
    return len(text) + sum(1 for character in text if character > "\uffff")


def neutralise(text: str) -> str:
    """Another agent's text made harmless: control characters visible, our prefixes quoted."""
    clean = "".join(c if _printable(c) else _escape(c) for c in text.replace("\r\n", "\n"))
    return "\n".join(
        "| " + line if _bare(line).startswith(_RESERVED_UPPER) else line
        for line in clean.split("\n")
    )


def render_entry(entry: Entry, templates: Templates, *, last_step: str = "") -> str:
    """The envelope of one message."""
    message = entry.message
    name = "takeover" if message.kind is Kind.TAKEOVER else "message"
    if message.decides:
        name = "decision"
    notes = []
    if entry.marks:
        notes.append(templates.fill("redelivered"))
    if message.note:
        notes.append(neutralise(message.note))
    kind = neutralise(message.kind)
    if message.kind is Kind.TASK_RESULT:
        kind += ", success" if message.payload.get("success") else ", failed"
    reply = ""
    if message.from_kind is FromKind.WORKER and message.kind is not Kind.TAKEOVER:
        reply = templates.fill("reply", id=message.id)
    if message.kind is Kind.TASK_RESULT:
        whole = message.payload.get("summary_ref")
        total = whole.get("tokens", 0) if isinstance(whole, Mapping) else 0
        reply = templates.fill("whole-result", id=message.id, total=total) if total else ""
    return templates.fill(
        name,
        id=message.id,
        sender=sender_of(entry),
        kind=kind,
        notes="".join(f" ({note})" for note in notes),
        body=neutralise(body_of(message)),
        step=neutralise(last_step).replace("\n", " ") or templates.fill("no-step"),
        reply=reply,
    ).rstrip()


def sender_of(entry: Entry) -> str:
    """Who speaks, in words that no name can imitate: the kind comes first."""
    message = entry.message
    name = neutralise(message.from_name or message.from_id).replace("\n", " ")
    return f"{message.from_kind} {name}"


def render_head(entry: Entry, templates: Templates, room: int, *, last_step: str = "") -> str:
    """The beginning of a message that is too long for any output, and how to read the rest."""
    whole = render_entry(entry, templates, last_step=last_step)
    total = utf16_length(body_of(entry.message))
    tail = "\n" + templates.fill("rest", id=entry.message.id, total=total)
    return cut_utf16(whole, room - utf16_length(tail)) + tail


def cut_utf16(text: str, units: int) -> str:
    """The longest prefix of at most `units` UTF-16 units."""
    if utf16_length(text) <= units:
        return text
    kept = 0
    for index, character in enumerate(text):
        kept += 2 if character > "\uffff" else 1
        if kept > units:
            return text[:index]
    return text


def paginate(
    entries: Sequence[Entry], templates: Templates, *, preface: str = "", last_step: str = ""
) -> Page:
    """Whole messages in the given order until one does not fit; the rest is counted.

    A message that would not fit in any output is shown as its head when it is the first.
    """
    parts = [preface] if preface else []
    used = utf16_length(preface)
    shown: list[Entry] = []
    reserve = utf16_length(templates.fill("left", count=99_999)) + 2
    for index, entry in enumerate(entries):
        text = render_entry(entry, templates, last_step=last_step)
        size = utf16_length(text) + 2
        later = reserve if index + 1 < len(entries) else 0
        if used + size + later > BUDGET:
            if shown or size + reserve <= BUDGET:
                break
            text = render_head(entry, templates, BUDGET - used - later - 2, last_step=last_step)
            size = utf16_length(text) + 2
        parts.append(text)
        shown.append(entry)
        used += size
    left = len(entries) - len(shown)
    if left and shown:
        parts.append(templates.fill("left", count=left))
    return Page("\n\n".join(parts), tuple(shown), left)


_RESERVED_UPPER = tuple(prefix.upper() for prefix in RESERVED)
_HIDDEN = frozenset("\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u2028\u2029\ufeff") | frozenset(
    chr(code)
    for start, stop in (
        (0x202A, 0x202F),  # directions
        (0x2060, 0x2070),  # joiners and operators that nobody sees
        (0xFFF9, 0xFFFC),  # annotations
        (0xE0000, 0xE0080),  # tags: letters that a model may read and a person cannot see
        (0xE0100, 0xE01F0),  # further variation selectors
    )
    for code in range(start, stop)
)
"""Format characters, but for those that scripts and emoji need: U+200C, U+200D, U+FE0F."""


def _bare(line: str) -> str:
    """A line as a reader's eye has it: without what stands before its first word."""
    for position, character in enumerate(line):
        if not character.isspace() and character not in "|>*#-`":
            return line[position : position + 40].upper()
    return ""


def _printable(character: str) -> bool:
    code = ord(character)
    if character in "\n\t":
        return True
    return not (code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000) and (
        character not in _HIDDEN
    )


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
