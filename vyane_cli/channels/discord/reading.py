"""Messages of people in a Discord thread: the filter for them, and a cursor that misses none.

Ids of messages are times, created on several machines: a new message may have a lower id than one
that was already read. So each read begins some minutes before the newest known id and skips the
known messages; this also shows edits. The cursor holds the newest id, and the ids and edit times
of the messages in those minutes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from vyane_cli.channels.port import Incoming

EPOCH_MS = 1_420_070_400_000
"""Start of 2015, from which Discord's ids count, in Unix milliseconds."""
OVERLAP_MS = 10 * 60_000
KNOWN_MAX = 200
SAID = (0, 19)
"""Discord's message types that a person writes: a message, a reply."""
TEXT_MAX = 60_000
"""Most characters taken from an attached text; a line says that the rest is in Discord."""

NO_CONTENT = (
    "Discord hides what people write: switch on the Message Content Intent"
    " (developer portal, the application, Bot)"
)


class Known(NamedTuple):
    """A parsed cursor: the messages that are known."""

    newest: int
    """The newest id that was read; 0 before the first one."""
    edits: Mapping[str, str]
    """Ids of received messages near the newest → the time of their last known edit."""
    floor: int = 0
    """Highest id to ignore: such messages existed before the session was bound."""


def snowflake_at(now_ms: int) -> int:
    """Return the smallest id of a time in Unix milliseconds."""
    return max(now_ms - EPOCH_MS, 0) << 22


def time_of(snowflake: int | str) -> int:
    """Return the time at which an id was created, in Unix milliseconds."""
    return (int(snowflake) >> 22) + EPOCH_MS


def parse_cursor(text: str) -> Known:
    """Parse a cursor.

    A damaged cursor counts as the start; repeated messages are then recognised by their ids.
    """
    try:
        data = json.loads(text) if text else {}
        edits = {str(int(key)): str(value) for key, value in dict(data.get("known", {})).items()}
        return Known(int(data.get("newest", 0)), edits, int(data.get("floor", 0)))
    except (ValueError, TypeError, AttributeError):
        return Known(0, {})


def render_cursor(known: Known) -> str:
    """Return the text of a cursor."""
    data = {"newest": str(known.newest), "known": dict(known.edits), "floor": str(known.floor)}
    return json.dumps(data, separators=(",", ":"))


def begin_of(known: Known) -> str:
    """Return the id after which the next read begins."""
    if known.newest == 0:
        return str(known.floor)
    begin = max(snowflake_at(time_of(known.newest) - OVERLAP_MS), 1)
    if len(known.edits) >= KNOWN_MAX:  # do not reread ids that the cursor dropped
        begin = max(begin, min(map(int, known.edits)) - 1)
    return str(max(begin, known.floor))


class ReadMessages(NamedTuple):
    """The new and edited messages after a cursor, and the cursor after them."""

    messages: tuple[Incoming, ...]
    known: Known
    hidden: int
    """Number of messages whose text Discord withheld from the bot."""


def take(
    known: Known,
    raw: Sequence[Mapping[str, Any]],
    me: str,
    fetch: Callable[[str], str | None],
) -> ReadMessages:
    """Select the new and edited messages of people from a list, oldest first.

    `me` is the bot's id; `fetch` returns an attached text. Messages from bots and known messages
    are skipped. The newest known id does not move past the first hidden message.
    """
    found = []
    edits = dict(known.edits)
    newest = known.newest
    hidden = 0
    for message in sorted(raw, key=lambda one: int(one["id"])):
        ident = str(message["id"])
        if hidden == 0:
            newest = max(newest, int(ident))
        if not is_said(message, me):
            continue
        edited = str(message.get("edited_timestamp") or "")
        if is_hidden(message):
            hidden += 1
            continue
        if ident in edits and edited in ("", edits[ident]):
            continue
        author = message["author"]
        found.append(
            Incoming(
                id=ident,
                author=str(author["id"]),
                name=str(author.get("global_name") or author.get("username") or author["id"]),
                text=text_of(message, me, fetch),
                at_ms=_time(edited) if ident in edits else time_of(ident),
                edited=ident in edits,
            )
        )
        edits[ident] = edited
    return ReadMessages(
        tuple(found), known._replace(newest=newest, edits=_near(edits, newest)), hidden
    )


def _near(edits: Mapping[str, str], newest: int) -> dict[str, str]:
    begin = snowflake_at(time_of(newest) - OVERLAP_MS) if newest else 0
    kept = sorted((ident for ident in edits if int(ident) > begin), key=int)
    return {ident: edits[ident] for ident in kept[-KNOWN_MAX:]}


def is_said(message: Mapping[str, Any], me: str) -> bool:
    """Return whether a person wrote the message, rather than a bot, a webhook or Discord."""
    author = message.get("author") or {}
    return (
        message.get("type") in SAID
        and not message.get("webhook_id")
        and not author.get("bot")
        and str(author.get("id")) != me
    )


def is_hidden(message: Mapping[str, Any]) -> bool:
    """Return whether Discord withheld the content of a message.

    Discord accepts no empty messages, so an empty one means that the bot may not see the content.
    """
    parts = ("content", "attachments", "embeds", "sticker_items", "poll", "components")
    return not any(message.get(part) for part in (*parts, "message_snapshots"))


def text_of(message: Mapping[str, Any], me: str, fetch: Callable[[str], str | None]) -> str:
    """Return the text of a message with its attached texts; other content is named in brackets.

    The bot's own mention at the beginning is removed, because it only addresses the message.
    """
    rows = [_unaddressed(str(message.get("content") or ""), me)]
    for one in message.get("attachments") or ():
        name, kind = str(one.get("filename") or "file"), str(one.get("content_type") or "")
        text = fetch(str(one.get("url"))) if kind.startswith("text/") else None
        if text is None:
            rows.append(f"[attached, not taken in: {_plain(name)}, {one.get('size', 0)} bytes]")
        elif len(text) > TEXT_MAX:
            rows.append(text[:TEXT_MAX] + f"\n[cut: {_plain(name)} goes on in Discord]")
        else:
            rows.append(text)
    rows += ["[a sticker]" for _ in message.get("sticker_items") or ()]
    rows += ["[a poll]"] if message.get("poll") else []
    rows += ["[a forwarded message]"] if message.get("message_snapshots") else []
    rows += ["[an embed]"] if not any(rows) and message.get("embeds") else []
    return "\n".join(row for row in rows if row)


def _unaddressed(text: str, me: str) -> str:
    for name in (f"<@{me}>", f"<@!{me}>"):
        if text.lstrip().startswith(name):
            return text.lstrip().removeprefix(name).lstrip(" ,:")
    return text


def _plain(name: str) -> str:
    return "".join(c if c.isprintable() and c not in "[]" else "_" for c in name)[:100]


def _time(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return 0
