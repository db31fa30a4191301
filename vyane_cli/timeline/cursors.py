"""Cursors: opaque positions in one timeline, after one event. A cursor is never a time.

`vc1.` + base64url(session, epoch, seq, mark, checksum). `mark` is the checksum of the event's line.
It shows when the event was replaced by another one with the same number: the cursor is refused.
"""

from __future__ import annotations

from typing import NamedTuple

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.opaque import seal, unseal

PREFIX = "vc1."


class Cursor(NamedTuple):
    """A position in a timeline: after the event `seq` of this session and epoch."""

    session: str
    epoch: str
    """The timeline's epoch. Empty only if the timeline does not exist yet."""
    seq: int
    """Sequence number of the event before the position. 0: before the first event."""
    mark: str = ""
    """Checksum of the event's line, as stored in the line. Empty before the first event."""


def render_cursor(cursor: Cursor) -> str:
    """Render a cursor as the text that people and programs store."""
    return seal(PREFIX, (cursor.session, cursor.epoch, str(cursor.seq), cursor.mark))


def parse_cursor(text: str) -> Cursor:
    """Parse a cursor; InvalidInputError (`cursor_malformed`) for any other text."""
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
