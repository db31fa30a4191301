"""Deadlines as people type them: a duration from now, a day, or a day and a time, local."""

from __future__ import annotations

from datetime import datetime, time

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.durations import parse_duration_s

EXPECTED = "a duration such as 2h or 3d, a day such as 2031-05-04, or 2031-05-04T18:00"


def parse_deadline(now: float, text: str) -> float:
    """Unix seconds. A day alone is its last second; InvalidInputError for what has passed."""
    text = text.strip()
    if text[4:5] != "-":
        try:
            return now + parse_duration_s("deadline", text)
        except InvalidInputError as error:
            if "more than zero" in error.message:
                raise
            raise InvalidInputError("deadline", text, EXPECTED) from None
    try:
        moment = datetime.fromisoformat(text)
        if len(text) == len("2031-05-04"):
            moment = datetime.combine(moment.date(), time(23, 59, 59))
        at = moment.astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise InvalidInputError("deadline", text, EXPECTED) from None
    if at <= now:
        raise InvalidInputError("deadline", text, "still to come")
    return at
