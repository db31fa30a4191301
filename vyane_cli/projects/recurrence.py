"""Recurrence of a schedule: the part of RRULE (RFC 5545) that cron, systemd and launchd support.

All three work with minutes of a day and days of a week, in local time, and so does this module. It
also renders the entries of the three timers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
"""Monday is 0, as in `time.localtime`."""
EVERY_DAY = tuple(range(7))
EVERY_HOUR = tuple(range(24))
LOOK_AHEAD_MIN = 8 * 24 * 60
_PART = re.compile(r"([A-Z]+)=([A-Z0-9,]+)")
_KNOWN = ("FREQ", "INTERVAL", "BYDAY", "BYHOUR", "BYMINUTE")


class Recurrence(NamedTuple):
    """The minutes at which a schedule is due."""

    days: tuple[int, ...]
    hours: tuple[int, ...]
    minutes: tuple[int, ...]


def parse_rrule(text: str) -> Recurrence:
    """Return the recurrence of an RRULE; InvalidInputError names what no timer supports."""
    parts = {}
    for part in text.strip().upper().removeprefix("RRULE:").split(";"):
        match = _PART.fullmatch(part)
        if match is None or match[1] not in _KNOWN or match[1] in parts:
            raise _wrong(text, f"made of {', '.join(_KNOWN)}, each once")
        parts[match[1]] = match[2]
    interval = _numbers(text, parts.get("INTERVAL", "1"), 1, 59)[0]
    days = _days(text, parts["BYDAY"]) if "BYDAY" in parts else EVERY_DAY
    hours = _numbers(text, parts["BYHOUR"], 0, 23) if "BYHOUR" in parts else None
    minutes = _numbers(text, parts["BYMINUTE"], 0, 59) if "BYMINUTE" in parts else None
    match parts.get("FREQ"):
        case "MINUTELY" if 60 % interval == 0 and minutes is None:
            return Recurrence(days, hours or EVERY_HOUR, tuple(range(0, 60, interval)))
        case "HOURLY" if interval < 24 and 24 % interval == 0 and hours is None:
            return Recurrence(days, tuple(range(0, 24, interval)), minutes or (0,))
        case "DAILY" | "WEEKLY" if interval == 1 and hours is not None:
            if parts["FREQ"] == "DAILY" or "BYDAY" in parts:
                return Recurrence(days, hours, minutes or (0,))
        case _:
            pass
    raise _wrong(text, "one that a timer can do: a step that divides the hour or the day")


def _wrong(text: str, expected: str) -> InvalidInputError:
    return InvalidInputError(
        "rrule",
        text,
        expected,
        hint="such as FREQ=HOURLY;BYMINUTE=0,30 or FREQ=WEEKLY;BYDAY=MO,FR;BYHOUR=9",
    )


def _numbers(text: str, given: str, least: int, most: int) -> tuple[int, ...]:
    numbers = given.split(",")
    if not all(one.isdigit() and least <= int(one) <= most for one in numbers):
        raise _wrong(text, f"with numbers from {least} to {most}")
    return tuple(sorted({int(one) for one in numbers}))


def _days(text: str, given: str) -> tuple[int, ...]:
    names = given.split(",")
    if not all(name in DAYS for name in names):
        raise _wrong(text, f"with days of {', '.join(DAYS)}")
    return tuple(sorted({DAYS.index(name) for name in names}))


def every(minutes: int) -> tuple[str, str]:
    """Return the RRULEs of A and B for a round every `minutes`: B is half a step later than A."""
    if minutes in (10, 12, 20, 30):
        half = minutes // 2
        lists = (",".join(str(m) for m in range(start, 60, minutes)) for start in (0, half))
        first, second = (f"FREQ=HOURLY;BYMINUTE={one}" for one in lists)
        return first, second
    if minutes % 60 == 0 and 0 < minutes // 60 < 24 and 24 % (minutes // 60) == 0:
        hourly = f"FREQ=HOURLY;INTERVAL={minutes // 60};BYMINUTE="
        return f"{hourly}0", f"{hourly}30"
    raise InvalidInputError(
        "every",
        f"{minutes} min",
        "10, 12, 20 or 30 minutes, or 1, 2, 3, 4, 6, 8 or 12 hours",
        hint="`vyane schedule set A RRULE` takes other rules",
    )


def next_after(
    due: Recurrence, now_s: float, local: Callable[[float], tuple[int, int, int]]
) -> float | None:
    """Return the next due time in Unix seconds, or None when none follows within 8 days.

    `local` maps a time to (weekday, hour, minute). An hour that the clock skips has no due times;
    an hour that occurs twice has all its due times twice.
    """
    minute_s = now_s // 60 * 60
    for step in range(1, LOOK_AHEAD_MIN):
        at = minute_s + step * 60
        weekday, hour, minute = local(at)
        if weekday in due.days and hour in due.hours and minute in due.minutes:
            return at
    return None


# ------------------------------------------------------------------ as timers have it


def to_cron(due: Recurrence) -> str:
    """Return the five time fields of a crontab line."""
    days = "*" if due.days == EVERY_DAY else ",".join(str((day + 1) % 7) for day in due.days)
    hours = "*" if due.hours == EVERY_HOUR else ",".join(map(str, due.hours))
    return f"{','.join(map(str, due.minutes))} {hours} * * {days}"


def to_systemd(due: Recurrence) -> str:
    """Return the expression for OnCalendar=."""
    names = ",".join(DAYS[day].capitalize() + _TAILS[day] for day in due.days)
    days = "" if due.days == EVERY_DAY else names + " "
    hours = "*" if due.hours == EVERY_HOUR else ",".join(f"{hour:02}" for hour in due.hours)
    return f"{days}*-*-* {hours}:{','.join(f'{minute:02}' for minute in due.minutes)}:00"


_TAILS = ("n", "e", "d", "u", "i", "t", "n")


def to_launchd(due: Recurrence) -> list[dict[str, int]]:
    """Return the dictionaries for StartCalendarInterval; a missing key matches any value."""
    found: list[dict[str, int]] = []
    for day in (None,) if due.days == EVERY_DAY else due.days:
        for hour in (None,) if due.hours == EVERY_HOUR else due.hours:
            for minute in due.minutes:
                one = {"Minute": minute}
                if hour is not None:
                    one["Hour"] = hour
                if day is not None:
                    one["Weekday"] = (day + 1) % 7
                found.append(one)
    return found


CRON_LINE_MAX = 990
"""Limit in bytes: some crons refuse a line of 1,000 bytes."""


class Timer(NamedTuple):
    """One schedule of one project of one state root, as the system's timer is to run it."""

    home: str
    project: str
    schedule: str
    due: Recurrence
    command: tuple[str, ...]
    log: str
    """Path of the file for the errors of its rounds."""


def check_words(words: Sequence[str]) -> None:
    """Raise InvalidInputError for a word that no timer's file can hold."""
    for word in words:
        if not word.isprintable():
            raise InvalidInputError("path", word, "without line ends and control characters")


# ------------------------------------------------------------------ cron


def mark_of(timer: Timer) -> str:
    """Return the end of vyane's crontab line for a timer, by which the line is found later."""
    return f"# vyane {timer.project} {timer.schedule} {timer.home}"


def cron_line(timer: Timer) -> str:
    """Return the line of a crontab. In cron, an unescaped `%` is a line end."""
    check_words((*timer.command, timer.log, timer.home))
    command = f"{shlex.join(timer.command)} >/dev/null 2>>{shlex.quote(timer.log)}"
    line = f"{to_cron(timer.due)} {command} {mark_of(timer)}".replace("%", "\\%")
    if len(line.encode()) > CRON_LINE_MAX:
        raise InvalidInputError(
            "home",
            timer.home,
            "short enough for a crontab line",
            hint="--with systemd, or a state folder with a shorter path",
        )
    return line


def without_lines(crontab: str, marks: Sequence[str]) -> str:
    """Return a crontab without the lines that end in these marks; every other byte stays."""
    ends = tuple(mark.replace("%", "\\%") for mark in marks)
    kept = [line for line in crontab.splitlines(keepends=True) if not line.rstrip().endswith(ends)]
    return "".join(kept) if ends else crontab


def with_lines(crontab: str, lines: Sequence[str], marks: Sequence[str]) -> str:
    """Return a crontab with these lines in place of the lines with the marks."""
    rest = without_lines(crontab, marks)
    if rest and not rest.endswith("\n"):
        rest += "\n"
    return rest + "".join(f"{line}\n" for line in lines)


# ------------------------------------------------------------------ systemd


def unit_name(timer: Timer) -> str:
    """Return the name of the timer's units, without the suffix. It differs between state roots."""
    return f"vyane-{_tag(timer.home)}-{timer.project}-{timer.schedule}"


def _tag(home: str) -> str:
    from zlib import crc32

    return f"{crc32(home.encode('utf-8', 'replace')):08x}"


def service_unit(timer: Timer) -> str:
    """Return the text of the unit that runs one round."""
    check_words((*timer.command, timer.home))
    words = " ".join(_systemd_word(word) for word in timer.command)
    return (
        "[Unit]\n"
        f"Description=A round of vyane for {timer.project} (schedule {timer.schedule})\n"
        "\n"
        "[Service]\n"
        "Type=oneshot\n"
        f"ExecStart={words}\n"
        "KillMode=process\n"  # the worker that a round starts outlives the round
    )


def _systemd_word(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def timer_unit(timer: Timer) -> str:
    """Return the text of the unit that fires the timer.

    One run replaces all rounds that were missed while the machine was off.
    """
    return (
        "[Unit]\n"
        f"Description=Rounds of vyane for {timer.project} (schedule {timer.schedule})\n"
        "\n"
        "[Timer]\n"
        f"OnCalendar={to_systemd(timer.due)}\n"
        "Persistent=true\n"
        "\n"
        "[Install]\n"
        "WantedBy=timers.target\n"
    )


# ------------------------------------------------------------------ launchd


def label_of(timer: Timer) -> str:
    """Return the label of the timer's property list."""
    return f"vyane.{_tag(timer.home)}.{timer.project}.{timer.schedule}"


def property_list(timer: Timer) -> dict[str, Any]:
    """Return the content of the timer's property list."""
    check_words((*timer.command, timer.log))
    return {
        "Label": label_of(timer),
        "ProgramArguments": list(timer.command),
        "StartCalendarInterval": to_launchd(timer.due),
        "StandardOutPath": "/dev/null",
        "StandardErrorPath": timer.log,
        "ProcessType": "Background",
        "AbandonProcessGroup": True,
    }
