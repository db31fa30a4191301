"""Timers: create and remove the entries of cron, systemd and launchd that run rounds.

An install or a removal handles all entries of a project. A crash leaves some of the entries, and
the next install or removal repairs that. Entries of other programs are not touched.
"""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vyane_cli.errors import InvalidInputError, NotFoundError, RefusedError, VyaneError
from vyane_cli.projects.recurrence import (
    Timer,
    cron_line,
    label_of,
    mark_of,
    property_list,
    service_unit,
    timer_unit,
    unit_name,
    with_lines,
    without_lines,
)
from vyane_cli.projects.schedule_rules import With
from vyane_cli.storage import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home

PATIENCE_S = 20.0


PROGRAMS = {With.CRON: "crontab", With.SYSTEMD: "systemctl", With.LAUNCHD: "launchctl"}


class TimerFile(NamedTuple):
    """An entry of a timer: its place and its text."""

    place: str
    text: str


def choose(home: Home, given: str, *, must: bool = True) -> With:
    """Return the given kind, else the first kind that this system has and that answers.

    If no kind answers: NotFoundError, or without `must` the kind that is usual on this system.
    """
    if given:
        if given not in tuple(With):
            raise InvalidInputError("with", given, "one of " + ", ".join(With))
        return With(given)
    path = home.environ.get("PATH", os.defpath)
    order = (With.LAUNCHD, With.CRON) if os.uname().sysname == "Darwin" else (
        With.CRON, With.SYSTEMD
    )  # fmt: skip
    for kind in order:
        if shutil.which(PROGRAMS[kind], path=path) and _answers(home, kind):
            return kind
    if not must:
        return order[0]
    raise NotFoundError(
        "timer",
        "cron",
        hint="install cron, or choose with --with systemd or launchd; --print shows what a timer "
        "of your own has to run",
    )


def _answers(home: Home, kind: With) -> bool:
    """Return whether the kind accepts this user's timers: systemd without a user bus does not."""
    try:
        if kind is With.CRON:
            read_crontab(home)
        elif kind is With.SYSTEMD:
            _run(home, ["systemctl", "--user", "show-environment"])
    except VyaneError:
        return False
    return True


def entries(home: Home, kind: With, timers: Sequence[Timer]) -> list[TimerFile]:
    """Return the entries that an install writes."""
    match kind:
        case With.CRON:
            return [TimerFile("crontab", cron_line(timer)) for timer in timers]
        case With.SYSTEMD:
            return [
                TimerFile(unit_path(home, f"{unit_name(timer)}.{end}"), text)
                for timer in timers
                for end, text in (("service", service_unit(timer)), ("timer", timer_unit(timer)))
            ]
        case With.LAUNCHD:
            return [
                TimerFile(agent_path(home, timer), plistlib.dumps(property_list(timer)).decode())
                for timer in timers
            ]


def make(home: Home, kind: With, timers: Sequence[Timer]) -> None:
    """Create the timers; timers of the same names are replaced."""
    found = entries(home, kind, timers)
    if kind is With.CRON:
        before = read_crontab(home)
        marks = [mark_of(timer) for timer in timers]
        _write_crontab(home, before, with_lines(before, [one.text for one in found], marks))
        return
    for one in found:
        files.make_directories(os.path.dirname(one.place))
        files.replace(one.place, one.text.encode(), mode=0o600)
    if kind is With.SYSTEMD:
        names = [f"{unit_name(timer)}.timer" for timer in timers]
        _run(home, ["systemctl", "--user", "daemon-reload"])
        _run(home, ["systemctl", "--user", "enable", "--now", *names])
        return
    for timer, one in zip(timers, found, strict=True):
        domain = f"gui/{os.getuid()}"
        _run(home, ["launchctl", "bootout", f"{domain}/{label_of(timer)}"], must=False)
        _run(home, ["launchctl", "bootstrap", domain, one.place])


def unmake(home: Home, kind: With, timers: Sequence[Timer]) -> None:
    """Remove the timers; missing ones are not an error."""
    match kind:
        case With.CRON:
            before = read_crontab(home)
            marks = [mark_of(timer) for timer in timers]
            _write_crontab(home, before, without_lines(before, marks))
        case With.SYSTEMD:
            names = [f"{unit_name(timer)}.timer" for timer in timers]
            _run(home, ["systemctl", "--user", "disable", "--now", *names], must=False)
            for one in entries(home, kind, timers):
                files.remove(one.place)
            _run(home, ["systemctl", "--user", "daemon-reload"], must=False)
        case With.LAUNCHD:
            for timer in timers:
                domain = f"gui/{os.getuid()}/{label_of(timer)}"
                _run(home, ["launchctl", "bootout", domain], must=False)
                files.remove(agent_path(home, timer))


def unmake_what_can_be(home: Home, kind: With, timers: Sequence[Timer]) -> None:
    """Remove the timers after a failure, ignoring errors.

    `doctor` names the entries that are left, and the next install replaces them.
    """
    try:
        unmake(home, kind, timers)
    except VyaneError:
        return


def missing(home: Home, kind: With, timers: Sequence[Timer]) -> list[str]:
    """Return the places of entries that are missing, differ from an install's, or do not fire."""
    found = entries(home, kind, timers)
    if kind is With.CRON:
        lines = read_crontab(home).splitlines()
        return [one.place for one in found if one.text not in lines]
    gone = [one.place for one in found if _text(one.place) != one.text]
    for timer in timers:
        command, place = _question(home, kind, timer)
        if place not in gone and _run(home, command, must=False).returncode:
            gone.append(place)
    return gone


def _question(home: Home, kind: With, timer: Timer) -> tuple[list[str], str]:
    """Return the command that exits with status 0 if a timer fires, and the path of its file."""
    if kind is With.SYSTEMD:
        name = f"{unit_name(timer)}.timer"
        return ["systemctl", "--user", "is-enabled", name], unit_path(home, name)
    domain = f"gui/{os.getuid()}/{label_of(timer)}"
    return ["launchctl", "print", domain], agent_path(home, timer)


def unit_path(home: Home, name: str) -> str:
    """Return the path of one of the user's systemd units."""
    environ = home.environ
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(_home(environ), ".config")
    return os.path.join(config, "systemd", "user", name)


def agent_path(home: Home, timer: Timer) -> str:
    """Return the path of one of the user's launchd property lists."""
    folder = os.path.join(_home(home.environ), "Library", "LaunchAgents")
    return os.path.join(folder, f"{label_of(timer)}.plist")


def _home(environ: Mapping[str, str]) -> str:
    if not environ.get("HOME"):
        raise InvalidInputError("HOME", "", "set: timers are made for a user", missing=True)
    return environ["HOME"]


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None


def read_crontab(home: Home) -> str:
    """Return the user's crontab; empty when the user has none."""
    ran = _run(home, ["crontab", "-l"], must=False)
    if ran.returncode and b"no crontab" not in ran.stderr.lower():
        raise _failed(["crontab", "-l"], ran)
    return ran.stdout.decode("utf-8", "surrogateescape") if not ran.returncode else ""


def _write_crontab(home: Home, before: str, text: str) -> None:
    if text != before:
        _run(home, ["crontab", "-"], stdin=text.encode("utf-8", "surrogateescape"))


def _run(
    home: Home, command: Sequence[str], *, stdin: bytes = b"", must: bool = True
) -> subprocess.CompletedProcess[bytes]:
    environ = {**home.environ, "LC_ALL": "C"}  # its messages are compared
    program = shutil.which(command[0], path=environ.get("PATH", os.defpath))
    if program is None:
        raise NotFoundError("program", command[0], hint="it makes the timers; see --with, --print")
    try:
        ran = subprocess.run(
            [program, *command[1:]],
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            env=environ,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedError(f"{command[0]}: {error}", slug="timer") from None
    if must and ran.returncode:
        raise _failed(command, ran)
    return ran


def _failed(command: Sequence[str], ran: subprocess.CompletedProcess[bytes]) -> RefusedError:
    said = ran.stderr.decode("utf-8", "replace").strip().splitlines()
    words = " ".join(command[:2])
    return RefusedError(
        f"{words} failed with status {ran.returncode}: {said[-1] if said else 'it says nothing'}",
        slug="timer",
        hint="--print shows what is written, to do it by hand",
    )
