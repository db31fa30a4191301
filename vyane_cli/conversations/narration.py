"""What of a session's timeline people read in its conversation: event → post, by verbosity.

Only lifecycle, tool and model events are told, and a person's own takeover or cancel. Prompts are
in no timeline. What looks like a secret is masked, and control characters are made visible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from vyane_cli.conversations.binding import SECRET_TEXT
from vyane_cli.kernel.text import Templates
from vyane_cli.mail.message import first_line
from vyane_cli.sessions.worker import WorkerStatus
from vyane_cli.timeline.events import EventKind, TurnOutcome

PROGRESS_MAX = 80
LINE_MAX = 300
MASK = "•••"


class Verbosity(StrEnum):
    """How much is shown."""

    QUIET = "quiet"  # the end of tasks, and what goes wrong
    SUMMARY = "summary"  # a line for each turn
    FULL = "full"  # whole answers, and which tools run


class UntoldTurn(NamedTuple):
    """What of the open turn is still to be told."""

    text: str = ""
    tools: Mapping[str, int] = {}
    told: bool = False
    """A whole answer of this turn was shown."""


class Said(NamedTuple):
    """One thing to show."""

    text: str
    notify: bool = False
    slot: str = ""
    """Shown in place of what this slot showed before."""
    digest: str = ""
    """Of a whole answer."""


def narrate(
    record: Mapping[str, Any],
    heard: UntoldTurn,
    verbosity: Verbosity,
    texts: Templates,
    answer: Callable[[str], str | None],
) -> tuple[list[Said], UntoldTurn]:
    """What one event adds, and what is still to be told. `answer`: the whole text of a digest."""
    payload: Mapping[str, Any] = record.get("payload") or {}
    full = verbosity is Verbosity.FULL
    match record.get("kind"):
        case EventKind.TURN_STARTED:
            number, trigger = record.get("turn_number") or "", payload.get("trigger") or ""
            started = Said(texts.fill("turn-started", number=number, trigger=trigger))
            return [started] if full else [], UntoldTurn()
        case EventKind.RESULT_OBSERVED:
            excerpt = str(payload.get("excerpt") or "")
            heard = heard._replace(text=excerpt)
            if not full:
                return [], heard
            digest = str(payload.get("digest") or "")
            text = (answer(digest) if digest else None) or _cut(texts, excerpt, payload)
            if not text.strip():
                return [], heard
            return [Said(show(text), digest=digest)], heard._replace(told=True)
        case EventKind.TOOL_OBSERVED:
            name = first_line(show(str(payload.get("tool") or "tool")))
            tools = {**heard.tools, name: heard.tools.get(name, 0) + 1}
            heard = heard._replace(tools=tools)
            listed = ", ".join(f"{one} ×{n}" if n > 1 else one for one, n in tools.items())
            return [Said(texts.fill("tools", tools=listed), slot="tools")] if full else [], heard
        case EventKind.TURN_FINISHED:
            return _finished(record, payload, heard, verbosity, texts), UntoldTurn()
        case EventKind.TAKEOVER_INITIATED if verbosity is not Verbosity.QUIET:
            return [Said(texts.fill("takeover", by=one_line(payload.get("by"))))], heard
        case EventKind.CANCEL_REQUESTED if verbosity is not Verbosity.QUIET:
            reason = one_line(payload.get("reason"))
            by = one_line(payload.get("by"))
            text = texts.fill("cancel", by=by, reason=f": {reason}" if reason else "")
            return [Said(text)], heard
        case _:
            return [], heard


def _finished(
    record: Mapping[str, Any],
    payload: Mapping[str, Any],
    heard: UntoldTurn,
    verbosity: Verbosity,
    texts: Templates,
) -> list[Said]:
    number = record.get("turn_number") or ""
    match payload.get("outcome"):
        case TurnOutcome.SUCCESS if verbosity is Verbosity.QUIET or heard.told:
            return []
        case TurnOutcome.SUCCESS if heard.text.strip():
            return [Said(texts.fill("turn-done", text=one_line(heard.text)))]
        case TurnOutcome.SUCCESS:
            return [Said(texts.fill("turn-done-silent", number=number))]
        case TurnOutcome.ERROR:
            parts = (one_line(payload.get("code")), one_line(payload.get("text")))
            reason = ": ".join(part for part in parts if part) or "error"
            return [Said(texts.fill("turn-error", number=number, text=reason), notify=True)]
        case outcome if verbosity is not Verbosity.QUIET:
            name = "turn-cancelled" if outcome == TurnOutcome.CANCELLED else "turn-interrupted"
            return [Said(texts.fill(name, number=number))]
        case _:
            return []


def _cut(texts: Templates, excerpt: str, payload: Mapping[str, Any]) -> str:
    chars = payload.get("chars") or 0
    if not excerpt or len(excerpt) >= chars:
        return excerpt
    return texts.fill("result-cut", text=excerpt, chars=f"{chars:,}")


# ------------------------------------------------------------------ titles and lines

_S = WorkerStatus
# fmt: off
MARKS: Mapping[WorkerStatus, str] = {
    _S.PENDING:     "⏳",
    _S.RUNNING:     "",
    _S.IDLE:        "💤",
    _S.INTERRUPTED: "⚠️",
    _S.COMPLETED:   "✅",
    _S.FAILED:      "❌",
    _S.KILLED:      "❌",
    _S.STALE:       "",
    _S.RELEASED:    "",
}
"""What stands before a title."""

LINES: Mapping[WorkerStatus, str] = {
    _S.PENDING:     "line-pending",
    _S.RUNNING:     "line-running",
    _S.IDLE:        "line-idle",
    _S.INTERRUPTED: "line-interrupted",
    _S.COMPLETED:   "line-done",
    _S.FAILED:      "line-done",
    _S.KILLED:      "line-done",
    _S.STALE:       "",
    _S.RELEASED:    "",
}
"""A child's line in its parent's overview; empty: it has none."""
# fmt: on
CLOSED = frozenset({_S.COMPLETED, _S.FAILED, _S.KILLED, _S.STALE, _S.RELEASED})
"""Whose conversation is put away; a post brings it back."""


def overview_line(texts: Templates, status: WorkerStatus, child: str, text: str) -> str:
    """One child in the overview; the text cut at 80 characters."""
    name = LINES[status]
    said = one_line(text)[:PROGRESS_MAX]
    return texts.fill(name, child=child, text=said, mark=MARKS[status]).strip() if name else ""


# ------------------------------------------------------------------ texts of others


def show(text: str) -> str:
    """Text of an agent for people: secrets masked, control characters visible."""
    clean = "".join(c if _harmless(c) else f"\\x{ord(c):02x}" for c in _COLOURS.sub("", text))
    return mask(clean)


def mask(text: str) -> str:
    """What looks like a secret is not shown."""
    return SECRET_TEXT.sub(MASK, text)


def one_line(text: object) -> str:
    """The first line with something in it, shown and cut."""
    line = first_line(show(str(text or "")))
    return line if len(line) <= LINE_MAX else line[: LINE_MAX - 1] + "…"


def _harmless(character: str) -> bool:
    code = ord(character)
    return character in "\n\t" or not (
        code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000
    )


_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\r(?=\n)")
