"""Checks of projects, channels and notifications, such as whether rounds run as timers run them."""

from __future__ import annotations

import json
import os
import subprocess
from importlib.util import find_spec

from vyane_cli.attention import needs
from vyane_cli.attention.call import urls_of
from vyane_cli.attention.need import TRIES
from vyane_cli.channels.port import ChannelVerdict
from vyane_cli.conversations import bindings as book
from vyane_cli.conversations import state as mirrors
from vyane_cli.conversations.binding import BindingStatus, has_moved, summary_of
from vyane_cli.conversations.channels import configured, is_set_up, open_channel, settings_of
from vyane_cli.conversations.status import board_rows
from vyane_cli.errors import VyaneError
from vyane_cli.health.subject import Finding, Subject, some
from vyane_cli.home import Home, local_time
from vyane_cli.projects import projects, schedule, timers
from vyane_cli.projects.dispatch import check_program
from vyane_cli.projects.round import last_round
from vyane_cli.projects.schedule import timers_of, vyane_path
from vyane_cli.projects.schedule_rules import Schedules, completed, were_due
from vyane_cli.sessions import markers

BARE = {"PATH": "/usr/bin:/bin"}
"""The environment that cron gives: no HOME, no language."""
ROUND_S = 30.0
MISSED = 3
"""Rounds that were due and left no trace; so many missed rounds are no accident."""
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
    home = subject.home
    found, gone, silent = [], [], []
    for project in projects.list_known(subject.layout):
        known = schedule.load(subject.layout, project.name)
        if known.installed is None:
            continue
        wanted = timers_of(home, project, known)
        kind = known.installed.timer
        found.append(f"{project.name} by {kind}")
        if timers.missing(home, kind, wanted):
            gone.append(project.name)
        elif _were_missed(home, project.name, known):
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


def _were_missed(home: Home, project: str, known: Schedules) -> bool:
    """Return whether rounds were due and left no trace while the machine was awake.

    Only the time since the last round or the boot, and since the last change of the schedules,
    counts.
    """
    clock, last = home.clock(), last_round(home, project) or {}
    awake_ms = clock.awake_ms
    if last.get("boot") == clock.boot:
        awake_ms -= int(last.get("awake_ms") or 0)
    changed_s = markers.modified(home.layout.schedules(project))
    silent_s = min(awake_ms / 1000, clock.at - changed_s)
    return were_due(known, MISSED, clock.at - silent_s, clock.at, local_time)


def rounds(subject: Subject) -> Finding:
    """A round of each project that has timers, run as cron runs it, says what it would do."""
    cells = []
    for project in projects.list_known(subject.layout):
        known = schedule.load(subject.layout, project.name)
        if known.installed is None:
            continue
        fix = INSTALL.format(project.name)
        environ = completed(
            BARE, known.installed.environment, os.path.dirname(vyane_path(subject.home))
        )
        try:
            check_program(Home(subject.layout.root, environ))
        except VyaneError as error:
            hint = f"{error.hint}; {fix}" if error.hint else fix
            return Finding(False, f"{project.name}: a round cannot start workers: {error}", hint)
        command = timers_of(subject.home, project, known)[0].command
        problem, cell = _try(command)
        if problem:
            return Finding(False, f"{project.name}: {problem}", fix)
        cells.append(f"{project.name}: {cell}")
    return Finding(True, some(cells) or "no project has timers")


def _try(command: tuple[str, ...]) -> tuple[str, str]:
    """Try a round in the bare environment; return its problem, or nothing and its cell."""
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


AGAIN = "then run `vyane mirror push --again`"


def channels(subject: Subject) -> Finding:
    """Each channel that is set up can be opened, and none was turned off by what it answered."""
    home, notes = subject.home, []
    names = configured(home)
    if not names:
        return Finding(True, "none is set up")
    for name in names:
        try:
            open_channel(home, name, "default", {})
        except VyaneError as error:
            return Finding(False, f"{name}: {error.message}", error.hint or "mend config.toml")
        state = mirrors.load_channel(subject.layout, name, "default")
        fault = state.fault
        if fault is not None and fault.verdict == ChannelVerdict.OFF:
            fix = f"{fault.fix}; {AGAIN}" if fault.fix else AGAIN
            return Finding(False, f"{name}: {fault.detail or fault.reason}", fix)
        if fault is not None and fault.fix and fault.retry_ms > subject.clock.now_ms:
            return Finding(False, f"{name}: {fault.detail}", fault.fix)
        if state.problem:
            return Finding(False, f"{name}: {state.problem}", "mend it, then `vyane mirror pull`")
        notes.append(name)
        if not settings_of(home, name)["allow_users"]:
            notes[-1] += " (nobody may write to sessions: allow_users is empty)"
        elif state.strangers:
            who = some([f"{user} ×{count}" for user, count in state.strangers.items()], 3)
            notes[-1] += f" (words of people who are not in allow_users: {who})"
    return Finding(True, ", ".join(notes))


def bindings(subject: Subject) -> Finding:
    """Bindings lead to channels that are set up, and results have places of their own."""
    found = list(book.load(subject.layout).values())
    counts = summary_of(found, subject.clock.at)
    active = [one for one in found if one.status is BindingStatus.ACTIVE]
    lost = [one.id for one in active if not is_set_up(subject.home, *one.conversation.account_key)]
    if lost:
        fix = "set the channel up in config.toml, or `vyane unbind --id ID --reason …`"
        return Finding(False, f"their channel is not set up: {some(lost)}", fix)
    detail = f"{counts['active']} active"
    if counts["expired"]:
        detail += f", {counts['expired']} past their end (the next sweep ends them)"
    fallbacks: dict[str, int] = {}
    for name in configured(subject.home):
        state = mirrors.load_channel(subject.layout, name, "default")
        for reason, count in state.fallbacks.items():
            fallbacks[reason] = fallbacks.get(reason, 0) + count
    if fallbacks:
        told = ", ".join(f"{reason} ×{count}" for reason, count in sorted(fallbacks.items()))
        detail += f"; results without a place of their own: {told}"
    return Finding(True, detail)


def conversations(subject: Subject) -> Finding:
    """Nothing stands in the way of a conversation: not locked, not deleted, nothing refused."""
    waiting, held, gone, fix = 0, [], [], ""
    known = book.load(subject.layout)
    for one in known.values():
        state = mirrors.load_thread(subject.layout, one)
        if state is None:
            continue
        open_now = one.status is not BindingStatus.ENDED
        waiting += len(state.outbox) if open_now else 0
        fault = state.fault
        if fault is None or fault.verdict == ChannelVerdict.LATER:
            continue
        if fault.verdict == ChannelVerdict.GONE:
            gone += [] if has_moved(known.values(), one) else [one.conversation.id]
        elif open_now:
            held.append(f"{one.conversation.id}: {fault.detail or fault.reason}")
            fix = fix or fault.fix
    for name in configured(subject.home):
        channel = mirrors.load_channel(subject.layout, name, "default")
        for row in board_rows(subject.home, name, channel.board):
            waiting += row.waiting
            if row.waiting and row.fix:  # a rate limit has no fix
                held.append(f"{row.session}: {row.detail}")
                fix = fix or row.fix
        for fault in channel.refused.values():
            if fault.verdict != ChannelVerdict.LATER:
                held.append(fault.detail or fault.reason)
                fix = fix or fault.fix
    held = list(dict.fromkeys(held))
    if held:
        return Finding(False, some(held, 3), fix or f"see `vyane mirror status`; {AGAIN}")
    detail = f"{waiting} posts wait" if waiting else "nothing waits"
    if gone:
        detail += f"; deleted, and left alone: {some(gone, 3)}"
    return Finding(True, detail)


def notifications(subject: Subject) -> Finding:
    """What you are needed for reaches the addresses that are set."""
    addresses = urls_of(subject.home)
    if not addresses:
        return Finding(True, "no address is set")
    if find_spec("apprise") is None:
        return Finding(
            False,
            "an address is set, and the library apprise is not installed",
            "pip install 'vyane[notify]'",
        )
    lost = [
        entry["id"]
        for entry in needs.list_entries(subject.layout)
        if not entry["notified"] and entry["tries"] >= TRIES
    ]
    if lost:
        return Finding(
            False,
            f"{some(lost)} could not be sent, {TRIES} times",
            "look at `vyane need-user`; try the addresses with apprise itself",
        )
    return Finding(True, "an address is set" if len(addresses) == 1 else "addresses are set")
