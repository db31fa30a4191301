"""Envelopes: messages as the model sees them, in plain text without tags, sender and id first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vyane_cli.kernel.text import Templates, cut_utf16, neutralise, utf16_length
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.mail.mailbox import MailEntry
from vyane_cli.mail.message import MessageKind, body_of
from vyane_cli.sessions.speaker import FromKind

BUDGET = 9_500
"""Most characters (UTF-16 units) of one hook output: hosts cut at 10,000."""


class EnvelopePage(NamedTuple):
    """One hook output: its text, the messages wholly in it, and how many wait behind them."""

    text: str
    shown: tuple[MailEntry, ...]
    left: int


def render_entry(entry: MailEntry, templates: Templates, *, last_step: str = "") -> str:
    """Return the envelope of one message."""
    message = entry.message
    name = "takeover" if message.kind is MessageKind.TAKEOVER else "message"
    if message.decides:
        name = "decision"
    notes = []
    if entry.marks:
        notes.append(templates.fill("redelivered"))
    if message.note:
        notes.append(neutralise(message.note))
    kind = neutralise(message.kind)
    if message.kind is MessageKind.TASK_RESULT:
        kind += ", success" if message.payload.get("success") else ", failed"
    reply = ""
    if message.from_kind is FromKind.WORKER and message.kind is not MessageKind.TAKEOVER:
        reply = templates.fill("reply", id=message.id)
    if message.kind is MessageKind.TASK_RESULT:
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


def sender_of(entry: MailEntry) -> str:
    """Return the sender in words that no name can imitate: the kind comes first."""
    message = entry.message
    name = neutralise(message.from_name or message.from_id).replace("\n", " ")
    return f"{message.from_kind} {name}"


def render_head(entry: MailEntry, templates: Templates, room: int, *, last_step: str = "") -> str:
    """Return the beginning of a message too long for any output, and how to read the rest."""
    whole = render_entry(entry, templates, last_step=last_step)
    total = utf16_length(body_of(entry.message))
    tail = "\n" + templates.fill("rest", id=entry.message.id, total=total)
    return cut_utf16(whole, room - utf16_length(tail)) + tail


def paginate(
    entries: Sequence[MailEntry], templates: Templates, *, preface: str = "", last_step: str = ""
) -> EnvelopePage:
    """Return a page of whole messages, in the given order, up to the first that does not fit.

    The messages left are counted.

    A message that would not fit in any output is shown as its head when it comes first.
    """
    parts = [preface] if preface else []
    used = utf16_length(preface)
    shown: list[MailEntry] = []
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
    return EnvelopePage("\n\n".join(parts), tuple(shown), left)
