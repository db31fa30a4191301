"""Timers of the system as text: crontab lines, systemd units, launchd property lists."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.projects.recurrence import Recurrence, to_cron, to_launchd, to_systemd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CRON_LINE_MAX = 990
"""Some crons refuse a line of 1,000 bytes."""


class Timer(NamedTuple):
    """One schedule of one project of one state root, as the system is to run it."""

    home: str
    project: str
    schedule: str
    due: Recurrence
    command: tuple[str, ...]
    log: str
    """Where its errors go."""


def check_words(words: Sequence[str]) -> None:
    """InvalidInputError for a word that no timer's file can hold."""
    for word in words:
        if not word.isprintable():
            raise InvalidInputError("path", word, "without line ends and control characters")


# ------------------------------------------------------------------ cron


def mark_of(timer: Timer) -> str:
    """What a crontab line of ours ends in, so that it is found again."""
    return f"# vyane {timer.project} {timer.schedule} {timer.home}"


def cron_line(timer: Timer) -> str:
    """The line of a crontab. Cron's `%` is a line end unless it is escaped."""
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
    """A crontab without the lines that end in these marks; every other byte stays."""
    ends = tuple(mark.replace("%", "\\%") for mark in marks)
    kept = [line for line in crontab.splitlines(keepends=True) if not line.rstrip().endswith(ends)]
    return "".join(kept) if ends else crontab


def with_lines(crontab: str, lines: Sequence[str], marks: Sequence[str]) -> str:
    """A crontab with these lines in the place of those with the marks."""
    rest = without_lines(crontab, marks)
    if rest and not rest.endswith("\n"):
        rest += "\n"
    return rest + "".join(f"{line}\n" for line in lines)


# ------------------------------------------------------------------ systemd


def unit_name(timer: Timer) -> str:
    """The name of its units, without the ending; several state roots have several."""
    return f"vyane-{_tag(timer.home)}-{timer.project}-{timer.schedule}"


def _tag(home: str) -> str:
    from zlib import crc32

    return f"{crc32(home.encode('utf-8', 'replace')):08x}"


def service_unit(timer: Timer) -> str:
    """The unit that runs one round."""
    check_words((*timer.command, timer.home))
    words = " ".join(_systemd_word(word) for word in timer.command)
    return (
        "[Unit]\n"
        f"Description=A round of vyane for {timer.project} (schedule {timer.schedule})\n"
        "\n"
        "[Service]\n"
        "Type=oneshot\n"
        f"ExecStart={words}\n"
        "KillMode=process\n"  # the worker that a round starts outlives it
    )


def _systemd_word(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def timer_unit(timer: Timer) -> str:
    """The unit that fires it. What was missed while the machine was off is made up for once."""
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
    """The label of its property list."""
    return f"vyane.{_tag(timer.home)}.{timer.project}.{timer.schedule}"


def property_list(timer: Timer) -> dict[str, Any]:
    """The content of its property list."""
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
