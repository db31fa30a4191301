"""Doctor: the read-only checks of an installation and its state, with a next step for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from vyane_cli.errors import VyaneError
from vyane_cli.health import machine, projects, sessions, state
from vyane_cli.health.subject import Finding, Subject
from vyane_cli.home import Home
from vyane_cli.setup.hooks import HostSettings

# fmt: off
CHECKS: Mapping[str, Callable[[Subject], Finding]] = {
    "state_folder":       state.state_folder,
    "modes":              state.modes,
    "disk_space":         state.disk_space,
    "config":             state.config,
    "hooks":              machine.hooks,
    "guard":              machine.guard,
    "shell_noise":        machine.shell_noise,
    "hooks_alive":        sessions.hooks_alive,
    "transports":         sessions.transports,
    "documents":          state.documents,
    "books":              state.books,
    "damaged_lines":      state.damaged_lines,
    "torn_tails":         state.torn_tails,
    "quarantine":         state.quarantined,
    "locks":              machine.locks,
    "clock":              machine.clock,
    "dead_workers":       sessions.dead_workers,
    "unregistered":       sessions.unregistered,
    "ambiguous_sessions": sessions.ambiguous_sessions,
    "overdue":            sessions.overdue,
    "oldest_unshown":     sessions.oldest_unshown,
    "many_workers":       sessions.many_workers,
    "thresholds":         machine.thresholds,
    "channels":           projects.channels,
    "bindings":           projects.bindings,
    "conversations":      projects.conversations,
    "markers":            sessions.marker_files,
    "names":              state.names,
    "need_user_page":     state.need_user_page,
    "notifications":      projects.notifications,
    "throttles":          projects.throttles,
    "schedule_timers":    projects.schedule_timers,
    "rounds":             projects.rounds,
    "spool":              state.spool,
    "hook_log":           state.hook_log,
}
# fmt: on

WITHOUT_STATE = ("state_folder", "disk_space", "hooks", "guard", "shell_noise")
"""Checks that can be made before `vyane init`."""


class Check(NamedTuple):
    """The result of one check, as `vyane doctor --json` lists it."""

    check: str
    ok: bool
    detail: str
    fix: str


def examine(home: Home, host: HostSettings, folder: str) -> list[Check]:
    """Run every check in the order of the table.

    Works on a read-only state folder, and on a missing one.
    """
    subject = Subject(home, host, folder)
    names = CHECKS if subject.there else WITHOUT_STATE
    return [_run(name, subject) for name in names]


def _run(name: str, subject: Subject) -> Check:
    try:
        finding = CHECKS[name](subject)
    except VyaneError as error:
        finding = Finding(False, error.message, error.hint or "see the other findings first")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        finding = Finding(False, f"{where}{error.strerror or error}", "see `state_folder`, `modes`")
    return Check(name, *finding)
