"""What people wrote in a thread: which messages count, and a cursor that loses none.

Ids of messages are times, made on several machines: one may come into being behind an id that was
read already. So each reading begins some minutes before the newest known id and leaves out what it
knows; this also shows edits. The cursor holds that id, and the ids and edits behind it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from vyane_cli.channels.port import Incoming

EPOCH_MS = 1_420_070_400_000
"""Discord's ids count from the first moment of 2015."""
OVERLAP_MS = 10 * 60_000
KNOWN_MAX = 200
SAID = (0, 19)
"""Types of message that are a person's words: a message, a reply."""
TEXT_MAX = 60_000
"""Characters of an attached text; the rest is left in Discord, and a line says so."""

NO_CONTENT = (
    "Discord hides what people write: switch on the Message Content Intent"
    " (developer portal, the application, Bot)"
)


class Known(NamedTuple):
    """A cursor."""

    newest: int
    """The newest id that was seen; 0: nothing yet."""
    edits: Mapping[str, str]
    """Ids that were taken in, near the newest, with the time of their last known edit."""
    floor: int = 0
    """Nothing up to this id counts: it was there before the session was bound."""


def snowflake_at(now_ms: int) -> int:
    """The smallest id of that time."""
    return max(now_ms - EPOCH_MS, 0) << 22


def time_of(snowflake: int | str) -> int:
    """When an id was made, in Unix milliseconds."""
    return (int(snowflake) >> 22) + EPOCH_MS


def parse_cursor(text: str) -> Known:
    """A cursor; one that is damaged begins at the start, and repeats are known by their ids."""
    try:
        data = json.loads(text) if text else {}
        edits = {str(int(key)): str(value) for key, value in dict(data.get("known", {})).items()}
        return Known(int(data.get("newest", 0)), edits, int(data.get("floor", 0)))
    except (ValueError, TypeError, AttributeError):
        return Known(0, {})


def render_cursor(known: Known) -> str:
    """The text of a cursor."""
    data = {"newest": str(known.newest), "known": dict(known.edits), "floor": str(known.floor)}
    return json.dumps(data, separators=(",", ":"))


def begin_of(known: Known) -> str:
    """Behind which id the next reading begins."""
    if known.newest == 0:
        return str(known.floor)
    begin = max(snowflake_at(time_of(known.newest) - OVERLAP_MS), 1)
    if len(known.edits) >= KNOWN_MAX:  # what was left out of the cursor is not read again
        begin = max(begin, min(map(int, known.edits)) - 1)
    return str(max(begin, known.floor))


class ReadMessages(NamedTuple):
    """What came of the messages behind a cursor."""

    messages: tuple[Incoming, ...]
    known: Known
    hidden: int
    """How many had a text that Discord did not show us."""


def take(
    known: Known,
    raw: Sequence[Mapping[str, Any]],
    me: str,
    fetch: Callable[[str], str | None],
) -> ReadMessages:
    """Sort what was listed, oldest first, into what is new, edited, and none of ours."""
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
    """Whether a person said it: not we, no bot, no webhook, no notice of the system."""
    author = message.get("author") or {}
    return (
        message.get("type") in SAID
        and not message.get("webhook_id")
        and not author.get("bot")
        and str(author.get("id")) != me
    )


def is_hidden(message: Mapping[str, Any]) -> bool:
    """Whether there is nothing in it: Discord takes no empty message, so it was kept from us."""
    parts = ("content", "attachments", "embeds", "sticker_items", "poll", "components")
    return not any(message.get(part) for part in (*parts, "message_snapshots"))


def text_of(message: Mapping[str, Any], me: str, fetch: Callable[[str], str | None]) -> str:
    """The words, and of attachments the texts; what is not taken in is named.

    Our own name in front only says to whom it is said.
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
