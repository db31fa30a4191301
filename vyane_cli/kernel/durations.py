"""Durations as people type them: `90s`, `10m`, `2h`, `1d`."""

from __future__ import annotations

from vyane_cli.errors import InvalidInputError

UNITS_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}

LONGEST_S = 1e12


def parse_duration_s(field: str, text: str) -> float:
    """Parse a number with a unit, or a bare number of seconds. Return seconds, more than zero."""
    text = text.strip().lower()
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :] or "s"
    try:
        seconds = float(number) * UNITS_S[unit]
    except (KeyError, ValueError):
        raise InvalidInputError(field, text, "a duration such as 90s, 10m, 2h, 1d") from None
    if seconds >= LONGEST_S:
        raise InvalidInputError(field, text, "less than 30,000 years")
    if not seconds > 0:
        raise InvalidInputError(field, text, "more than zero")
    return seconds
