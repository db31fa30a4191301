"""Narration: the posts that an event of a session's timeline becomes, by verbosity.

Only lifecycle, tool and model events become posts, and a person's own takeover or cancel. Prompts
are not in any timeline. Texts that look like a secret are masked, and control characters are made
visible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from vyane_cli.conversations.binding import SECRET_TEXT
from vyane_cli.kernel.text import Templates, cut, escape_controls
from vyane_cli.mail.message import first_line
from vyane_cli.sessions.worker import WorkerStatus
from vyane_cli.timeline.events import EventKind, TurnOutcome

PROGRESS_MAX = 80
LINE_MAX = 300
MASK = "•••"


class Verbosity(StrEnum):
    """The amount of a timeline that is shown."""

    QUIET = "quiet"  # the end of tasks, and errors
    SUMMARY = "summary"  # a line for each turn
    FULL = "full"  # whole answers, and which tools run


class UntoldTurn(NamedTuple):
    """The part of the open turn that has yet to be shown."""

    text: str = ""
    tools: Mapping[str, int] = {}
    told: bool = False
    """True if a whole answer of this turn was shown."""


class Said(NamedTuple):
    """One text to show."""

    text: str
    notify: bool = False
    slot: str = ""
    """Name of the post that this text replaces; empty for a post of its own."""
    digest: str = ""
    """Digest of the whole answer that the text is; empty for any other text."""


def narrate(
    record: Mapping[str, Any],
    heard: UntoldTurn,
    verbosity: Verbosity,
    texts: Templates,
    answer: Callable[[str], str | None],
) -> tuple[list[Said], UntoldTurn]:
    """Return what one event adds to the conversation, and what of the turn has yet to be shown.

    `answer` returns the whole text of a digest.
    """
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
"""The mark before a title, by status."""

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
"""Template of a child's line in its parent's overview, by status; empty if it has no line."""
# fmt: on
CLOSED = frozenset({_S.COMPLETED, _S.FAILED, _S.KILLED, _S.STALE, _S.RELEASED})
"""Statuses in which the conversation is archived; a post reopens it."""


def overview_line(texts: Templates, status: WorkerStatus, child: str, text: str) -> str:
    """Return the line of one child in the overview, with its text cut at 80 characters."""
    name = LINES[status]
    said = one_line(text)[:PROGRESS_MAX]
    return texts.fill(name, child=child, text=said, mark=MARKS[status]).strip() if name else ""


# ------------------------------------------------------------------ texts of agents


def show(text: str) -> str:
    """Return an agent's text for people: secrets masked, control characters visible."""
    return mask(escape_controls(_COLOURS.sub("", text)))


def mask(text: str) -> str:
    """Replace what looks like a secret in a text."""
    return SECRET_TEXT.sub(MASK, text)


def one_line(text: object) -> str:
    """Return the first line that is not blank, made safe for people and cut at 300 characters."""
    line = first_line(show(str(text or "")))
    return cut(line, LINE_MAX)


_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\r(?=\n)")
