"""The opaque cursor: a position in one timeline, after one event. Never a time.

`vc1.` + base64url(session, epoch, seq, mark, checksum). `mark` is the checksum of the event's line:
a cursor whose event is no longer there is refused, never taken for another event with its number.
"""

from __future__ import annotations

from typing import NamedTuple

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.opaque import seal, unseal

PREFIX = "vc1."


class Cursor(NamedTuple):
    """After which event to go on."""

    session: str
    epoch: str
    """Empty only before the first event of a timeline that does not exist yet."""
    seq: int
    """0: before the first event."""
    mark: str = ""
    """Checksum of the event's line, as the line has it; empty before the first event."""


def render_cursor(cursor: Cursor) -> str:
    """The form that people and programs keep."""
    return seal(PREFIX, (cursor.session, cursor.epoch, str(cursor.seq), cursor.mark))


def parse_cursor(text: str) -> Cursor:
    """The cursor from its text; InvalidInputError (`cursor_malformed`) when it is none of ours."""
    fields = unseal(PREFIX, text)
    if fields is None or len(fields) != 4 or not fields[2].isdecimal():
        raise InvalidInputError(
            "cursor",
            text,
            "a cursor of a timeline",
            slug="cursor_malformed",
            hint="take it whole from the `cursor` of an event",
        )
    return Cursor(fields[0], fields[1], int(fields[2]), fields[3])


def check_cursor(cursor: Cursor, session: str, epoch: str, seq: int) -> None:
    """Refuse a cursor of another session, another epoch, or past the last event `seq`."""
    if cursor.session != session:
        raise InvalidInputError(
            "cursor",
            cursor.session,
            f"of this session, {session}",
            slug="cursor_session_mismatch",
            hint=f"read the timeline of {cursor.session} with it",
        )
    if cursor.epoch != epoch and (cursor.epoch or cursor.seq):
        raise InvalidInputError(
            "cursor",
            cursor.epoch,
            "of the timeline that is there now: it was begun anew",
            slug="cursor_epoch_mismatch",
            hint="start over: --history without --after, or --reset earliest",
        )
    if cursor.seq > seq:
        raise InvalidInputError(
            "cursor",
            str(cursor.seq),
            f"at or before the last event, {seq}",
            slug="cursor_future",
            hint="it comes from another copy of this timeline",
        )
