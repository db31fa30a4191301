"""Checks of rounds: the throttles, the timers, and whether a round runs as a timer runs it."""

from __future__ import annotations

import json
import os
import subprocess

from vyane_cli.errors import VyaneError
from vyane_cli.health.subject import Finding, Subject, some
from vyane_cli.home import Runtime, local_time
from vyane_cli.projects import projects, schedule, timers
from vyane_cli.projects.dispatch import check_program
from vyane_cli.projects.round import last_round
from vyane_cli.projects.schedule_2 import timers_of, vyane_path
from vyane_cli.projects.schedule_rules import Schedules, completed, were_due
from vyane_cli.sessions import markers

BARE = {"PATH": "/usr/bin:/bin"}
"""What cron gives: no HOME, no language."""
ROUND_S = 30.0
MISSED = 3
"""So many rounds that were due and left no trace are no accident."""
INSTALL = "run `vyane schedule install --project {}` in a shell that finds what is missing"


def throttles(subject: Subject) -> Finding:
    """No throttle of notices is off, and a stall is no shorter than the time between two."""
    config = subject.config
    least, stall = float(config["delivery.too_soon_s"]), float(config["notices.stall_after_s"])
    if not least:
        return Finding(
            False,
            "delivery.too_soon_s is 0: each notice and each message starts a turn at once",
            "vyane config set delivery.too_soon_s 300",
        )
    if stall < least:
        return Finding(
            False,
            f"notices.stall_after_s ({stall:g}) is shorter than delivery.too_soon_s ({least:g})",
            "vyane config set notices.stall_after_s 900",
        )
    return Finding(True, f"{least:g} s between two notices, a stall after {stall:g} s")


def schedule_timers(subject: Subject) -> Finding:
    """The timers that were made for projects are there, enabled, and fire."""
    runtime = subject.runtime
    found, gone, silent = [], [], []
    for project in projects.listing(subject.layout):
        known = schedule.load(subject.layout, project.name)
        if known.installed is None:
            continue
        wanted = timers_of(runtime, project, known)
        kind = known.installed.timer
        found.append(f"{project.name} by {kind}")
        if timers.missing(runtime, kind, wanted):
            gone.append(project.name)
        elif _were_missed(runtime, project.name, known):
            silent.append(project.name)
    if gone:
        return Finding(
            False,
            f"the timers of {some(gone)} are not there, or are those of other times",
            f"vyane schedule install --project {gone[0]}",
        )
    if silent:
        return Finding(
            False,
            f"the last {MISSED} rounds of {some(silent)} did not come",
            f"see that its timer's service runs, and what {subject.layout.round_log} says",
        )
    return Finding(True, some(found) or "no project has timers")


def _were_missed(runtime: Runtime, project: str, known: Schedules) -> bool:
    """Whether rounds had to come and left no trace, in the time that the machine was awake.

    Since the last one or the boot, and since the schedules were changed.
    """
    clock, last = runtime.clock(), last_round(runtime, project) or {}
    awake_ms = clock.awake_ms
    if last.get("boot") == clock.boot:
        awake_ms -= int(last.get("awake_ms") or 0)
    changed_s = markers.modified(runtime.layout.schedules(project))
    silent_s = min(awake_ms / 1000, clock.at - changed_s)
    return were_due(known, MISSED, clock.at - silent_s, clock.at, local_time)


def rounds(subject: Subject) -> Finding:
    """A round of each project that has timers, run as cron runs it, says what it would do."""
    cells = []
    for project in projects.listing(subject.layout):
        known = schedule.load(subject.layout, project.name)
        if known.installed is None:
            continue
        fix = INSTALL.format(project.name)
        environ = completed(
            BARE, known.installed.environment, os.path.dirname(vyane_path(subject.runtime))
        )
        try:
            check_program(Runtime(subject.layout.root, environ))
        except VyaneError as error:
            hint = f"{error.hint}; {fix}" if error.hint else fix
            return Finding(False, f"{project.name}: a round cannot start workers: {error}", hint)
        command = timers_of(subject.runtime, project, known)[0].command
        problem, cell = _try(command)
        if problem:
            return Finding(False, f"{project.name}: {problem}", fix)
        cells.append(f"{project.name}: {cell}")
    return Finding(True, some(cells) or "no project has timers")


def _try(command: tuple[str, ...]) -> tuple[str, str]:
    """What is wrong with a round in the bare environment, and its cell."""
    words = [*command, "--dry-run", "--json"]
    try:
        ran = subprocess.run(
            words,
            env=BARE,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ROUND_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}", ""
    if ran.returncode:
        said = ran.stderr.decode("utf-8", "replace").strip().splitlines()
        return f"a round ends with status {ran.returncode}: {said[0] if said else ''}", ""
    try:
        found = json.loads(ran.stdout)
        return "", f"{found['cell']} ({found['reason']})"
    except (ValueError, KeyError, TypeError):
        return "a round prints no JSON", ""
