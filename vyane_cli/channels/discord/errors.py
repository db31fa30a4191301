"""Discord's error codes and their meaning: one row for each code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from vyane_cli.channels.port import ChannelOutcome, ChannelVerdict


class ErrorRow(NamedTuple):
    """The meaning of an error. `outcome_of` fills in `{place}`, `{right}` and `{where}`."""

    verdict: ChannelVerdict
    reason: str
    detail: str
    fix: str = ""


_V = ChannelVerdict
_AGAIN = ", then `vyane mirror push --again`"

CODES: Mapping[int, ErrorRow] = {
    10003: ErrorRow(
        _V.GONE,
        "unknown-channel",
        "{place} is gone: it was deleted, or the bot cannot see it",
        "`vyane bind SESSION --channel discord` makes another; if the bot may see it again,"
        " `vyane mirror push --again`",
    ),
    10004: ErrorRow(
        _V.OFF,
        "unknown-guild",
        "there is no server with the id of channels.discord.guild",
        "set channels.discord.guild to the server's id",
    ),
    10008: ErrorRow(_V.ABSENT, "unknown-message", "the message is gone"),
    10014: ErrorRow(_V.REFUSED, "unknown-emoji", "Discord does not know the emoji"),
    10087: ErrorRow(
        _V.OFF,
        "unknown-tag",
        "the forum has no tag of channels.discord.tags any more",
        "set channels.discord.tags to names of tags of the forum",
    ),
    20016: ErrorRow(_V.LATER, "slow-mode", "{place} is in slow mode"),
    20028: ErrorRow(_V.LATER, "rate-limited", "Discord takes no more in {place} for now"),
    30010: ErrorRow(_V.REFUSED, "too-many-reactions", "the message has all the reactions that fit"),
    30046: ErrorRow(
        _V.LATER, "old-message", "Discord takes no more changes of old messages for now"
    ),
    40001: ErrorRow(
        _V.OFF,
        "unauthorized",
        "Discord does not take the bot's token",
        "reset the token in the developer portal and set DISCORD_TOKEN",
    ),
    40002: ErrorRow(
        _V.OFF,
        "unverified",
        "Discord wants the bot's account verified first",
        "see the developer portal",
    ),
    40005: ErrorRow(_V.REFUSED, "too-large", "the request is larger than Discord takes"),
    40058: ErrorRow(
        _V.REFUSED,
        "not-a-thread",
        "{place} takes posts, not messages",
        "bind a post of the forum, not the forum itself",
    ),
    40067: ErrorRow(
        _V.OFF,
        "tag-required",
        "the forum wants a tag on each post",
        "set channels.discord.tags to the name of one of its tags",
    ),
    40333: ErrorRow(
        _V.OFF,
        "edge",
        "the network before Discord turns this program away",
        "see whether a proxy changes the requests",
    ),
    50001: ErrorRow(
        _V.REFUSED,
        "missing-access",
        "the bot may not see {place}",
        "give the bot the right View Channels in the forum" + _AGAIN,
    ),
    50005: ErrorRow(_V.REFUSED, "not-ours", "somebody else wrote the message"),
    50006: ErrorRow(_V.REFUSED, "empty", "there is nothing to show in it"),
    50013: ErrorRow(
        _V.REFUSED,
        "missing-permission",
        "the bot may not do it in {place}: it needs {right}",
        "give the bot the right {right} in the forum" + _AGAIN,
    ),
    50024: ErrorRow(
        _V.REFUSED,
        "not-a-thread",
        "{place} takes no messages",
        "bind a post of the forum, not the forum itself",
    ),
    50035: ErrorRow(
        _V.REFUSED,
        "refused-form",
        "Discord does not take the request: {where}",
        "shorten or change the text",
    ),
    50083: ErrorRow(_V.LATER, "archived", "{place} was archived at this moment"),
    50109: ErrorRow(_V.REFUSED, "refused-form", "Discord did not read the request"),
    160005: ErrorRow(
        _V.LOCKED,
        "locked",
        "{place} was locked by a moderator",
        "unlock it in Discord" + _AGAIN,
    ),
    160006: ErrorRow(
        _V.LATER,
        "too-many-threads",
        "the server has all the open posts that it may have",
        "close posts in Discord that are done with",
    ),
}
"""Error row by Discord's code. No row redirects a post to another conversation."""

NO_FORUM = ErrorRow(
    _V.OFF,
    "not-a-forum",
    "{place} is no forum channel",
    "set channels.discord.forum to the id of a forum channel",
)
"""The error that vyane itself reports when the channel in the settings is not a forum."""

_ADDRESS = ErrorRow(
    _V.OFF,
    "wrong-address",
    "nothing of Discord's is at the address of DISCORD_API",
    "leave DISCORD_API unset",
)
STATUSES: Mapping[int, ErrorRow] = {
    401: CODES[40001],
    403: ErrorRow(
        _V.REFUSED,
        "forbidden",
        "the bot may not do it in {place}: {right} may be missing",
        "see the rights of the bot in the forum" + _AGAIN,
    ),
    404: _ADDRESS,
    405: _ADDRESS,
    413: CODES[40005],
}
"""Error row by HTTP status, for codes without a row in `CODES`."""

OTHER = ErrorRow(ChannelVerdict.REFUSED, "refused", "Discord does not take the request: {where}")

RIGHTS: Mapping[str, str] = {
    "open": "Send Messages (in a forum: create posts)",
    "list": "Read Message History",
    "post": "Send Messages in Threads",
    "file": "Attach Files",
    "edit": "Send Messages in Threads",
    "mark": "Send Messages in Threads (for posts that others made: Manage Threads)",
    "read": "Read Message History",
    "react": "Add Reactions",
    "see": "View Channels",
}
"""Action of a request → the permission it needs, as named in Discord's settings."""

LATER_MS = 60_000
"""Delay before the next try when Discord does not give one, in milliseconds."""


def outcome_of(
    status: int, code: int, action: str, place: str, where: str, now_ms: int
) -> ChannelOutcome:
    """Return the outcome of an error response. Total: every status and code has a row."""
    row = CODES.get(code) or STATUSES.get(status) or OTHER
    words = {"place": place, "right": RIGHTS[action], "where": where or f"{status}, code {code}"}
    return ChannelOutcome(
        row.verdict,
        row.reason,
        row.detail.format(**words),
        row.fix.format(**words),
        retry_ms=now_ms + LATER_MS if row.verdict is ChannelVerdict.LATER else 0,
        everywhere=row.reason == "too-many-threads",
    )


def fields_of(errors: object, prefix: str = "") -> list[str]:
    """Return the fields that a form error names, with their codes (at most five).

    Example: `content BASE_TYPE_MAX_LENGTH`.
    """
    found = []
    for key, value in errors.items() if isinstance(errors, dict) else ():
        if key == "_errors" and isinstance(value, list):
            codes = [str(one.get("code"))[:60] for one in value if isinstance(one, dict)]
            found.append(f"{prefix or 'request'} {' '.join(codes)}")
        else:
            found += fields_of(value, f"{prefix}.{key}" if prefix else str(key)[:40])
    return found[:5]
