"""Turns and events in words, line by line, for the terminal and for Markdown."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from vyane_cli.history.story import CaughtUp, Chapter, NoteChapter, TimelineEvent, TurnChapter
from vyane_cli.kernel.text import neutralise

TRIGGERS: Mapping[str, str] = {
    "human": "a person's prompt",
    "wake": "a wake by vyane",
    "peer": "another agent's message",
    "host": "a note of the host",
    "delivery": "mail at a Stop",
    "queued": "a queued prompt",
    "producer": "a program",
}
MARKS: Mapping[str, str] = {"success": "✓", "error": "✗", "cancelled": "⊘", "interrupted": "↯"}


def tell_chapter(chapter: Chapter) -> list[tuple[str, str]]:
    """Return a turn or a note as lines, each with the word that selects its style."""
    if isinstance(chapter, NoteChapter):
        return [(_between(chapter.event), "dim")]
    outcome = str(chapter.outcome or "")
    end = f"{MARKS.get(outcome, '…')} {outcome or 'not finished'}"
    if chapter.code:
        end += f" ({_line(chapter.code)})"
    if chapter.duration_ms is not None:
        end += f" after {span(chapter.duration_ms / 1000)}"
    lines = [(f"{clock(chapter.at)}  turn {chapter.number}: {_origin(chapter)}", "bold")]
    lines += [(f"  {text}", "") for text in _middle(chapter)]
    return [*lines, (f"  {end}", outcome)]


def _between(event: Mapping[str, Any]) -> str:
    """Return an event between turns in the same words as an event inside a turn."""
    fact = event.get("payload") or {}
    told = {"DeliveryAttempted": _delivery, "Diagnostic": _diagnostic}.get(event["kind"])
    return f"{clock(event['at'])}  {told(fact) if told else tell_facts(event['kind'], fact)}"


def _origin(chapter: TurnChapter) -> str:
    words = TRIGGERS.get(str(chapter.trigger), str(chapter.trigger))
    if chapter.prompt_chars:
        words += f", {chapter.prompt_chars} characters"
    if chapter.message_ids:
        words += ", " + ", ".join(short(message) for message in chapter.message_ids)
    return words


def _middle(chapter: TurnChapter) -> Iterator[str]:
    if chapter.tools:
        yield "tools: " + ", ".join(
            f"{_line(tool.tool)} ×{tool.count}"
            + (f" ({tool.failed} failed)" if tool.failed else "")
            for tool in chapter.tools
        )
    for fact in chapter.permissions:
        yield f"permission: {_line(fact.get('tool'))} {_line(fact.get('decision') or 'asked')}"
    for fact in chapter.deliveries:
        yield _delivery(fact)
    for fact in chapter.control:
        yield tell_facts(fact["kind"], fact)
    for fact in chapter.diagnostics:
        yield _diagnostic(fact)
    if chapter.usage:
        used = chapter.usage
        counts = f"{used.get('input_tokens', 0)} in, {used.get('output_tokens', 0)} out"
        yield f"tokens: {counts}" + (f" ({_line(used['model'])})" if used.get("model") else "")
    if chapter.result or chapter.result_chars:
        text = _line(chapter.result or "")
        more = (chapter.result_chars or 0) > len(chapter.result or "")
        yield (
            f"result: {text}{'…' if more and text else ''}"
            if text
            else (f"result: {chapter.result_chars} characters")
        )
    if chapter.text:
        yield f"said: {_line(chapter.text)}"


def _delivery(fact: Mapping[str, Any]) -> str:
    ids = ", ".join(short(message) for message in fact.get("message_ids") or ())
    again = " again" if fact.get("redelivered") else ""
    return f"mail{again}: {ids} by {_line(fact.get('transport'))} ({_line(fact.get('outcome'))})"


def _diagnostic(fact: Mapping[str, Any]) -> str:
    return f"note: {_line(fact.get('code'))} {_line(fact.get('text') or '')}".rstrip()


def tell_event(event: TimelineEvent | CaughtUp) -> str:
    """Return one event, or the caught-up mark, as one line."""
    if isinstance(event, CaughtUp):
        waiting = f", {event.lag} waiting" if event.lag else ""
        return f"— caught up at {event.watermark}{waiting} —"
    turn = f"turn {event.turn_number}" if event.turn_number else "session"
    facts = tell_facts(event.kind, event.payload)
    return f"{clock(event.at)}  {event.seq:>6}  {turn:<9} {facts}"


def tell_facts(kind: str, payload: Mapping[str, Any]) -> str:
    """Return an event's kind and payload in a few words."""
    words = [
        f"{key}={_line(value)}" if not isinstance(value, list) else f"{key}={_ids(value)}"
        for key, value in payload.items()
        if key not in ("at", "kind", "digest", "prompt_digest") and value not in (None, "")
    ]
    return " ".join([kind, *words])


def tell_markdown(chapter: Chapter) -> list[str]:
    """Return a chapter as lines of Markdown, with the markup in foreign text escaped."""
    (head, _), *rest = tell_chapter(chapter)
    if isinstance(chapter, NoteChapter):
        return [f"- {_plain(head)}"]
    return [f"## {_plain(head)}", "", *(f"- {_plain(text.strip())}" for text, _ in rest)]


def _plain(text: str) -> str:
    for mark in ("\\", "`", "*", "_", "<", "[", "|", "#"):
        text = text.replace(mark, "\\" + mark)
    return text


def _ids(values: list[Any]) -> str:
    return ",".join(short(str(value)) for value in values)


def short(message: str) -> str:
    """Return the last eight characters of an id, enough for a person to distinguish ids."""
    return _line(message)[-8:]


def _line(text: object) -> str:
    return neutralise(str(text)).replace("\n", "⏎ ").replace("\t", " ")


def clock(at_s: float) -> str:
    """Return the local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))


def span(seconds: float) -> str:
    """Return a duration in the units that suit its size."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
