"""Removal: timers and settings entries first, the state two seconds later: it harms no session.

A crash between leaves a state folder that nothing calls; the same command finishes it.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass

from vyane_cli.errors import RefusedError, StorageError, VyaneError
from vyane_cli.projects import projects, schedule_2
from vyane_cli.setup import hooks
from vyane_cli.storage import files
from vyane_cli.storage.strangers import SIGNS, strangers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime

SETTLE_S = 2.0
"""For so long a host may go on with the settings that it read last (measured)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uninstalled:
    """What an uninstall took away."""

    settings: tuple[str, ...]
    """Settings files that vyane's entries were taken out of."""
    timers: tuple[str, ...]
    """Projects that had timers."""
    home: str
    purged: bool
    """Whether the state folder was removed."""


def remove_all(
    runtime: Runtime, host: hooks.HostSettings, folder: str, *, purge: bool
) -> Uninstalled:
    """Take vyane out of every settings file; with `purge` remove its state."""
    root = runtime.layout.root
    if purge and os.path.isdir(root):
        _check_is_ours(root)
    unscheduled = remove_timers(runtime)
    changed = []
    for scope in hooks.Scope:
        path = hooks.settings_path(scope, runtime.environ, folder)
        if os.path.exists(path) and hooks.uninstall(runtime, host, path).changed:
            changed.append(path)
    purged = False
    if purge and os.path.isdir(root):
        time.sleep(SETTLE_S)
        try:
            shutil.rmtree(os.path.realpath(root))
            if os.path.islink(root):
                os.unlink(root)
        except OSError as error:
            raise StorageError(root, error) from error
        purged = True
    return Uninstalled(settings=tuple(changed), timers=tuple(unscheduled), home=root, purged=purged)


def remove_timers(runtime: Runtime) -> list[str]:
    """Take the timers of every project away; the projects that had some.

    One that cannot be told is left: its rounds find no vyane, and do nothing.
    """
    found = []
    for name in files.listdir(runtime.layout.projects):
        try:
            project = projects.load(runtime.layout, name)
            if project is not None and schedule_2.remove(runtime, project).removed:
                found.append(name)
        except VyaneError:
            continue
    return found


def _check_is_ours(root: str) -> None:
    """RefusedError for a folder that is none of ours, or holds anything that is not ours.

    VYANE_HOME may name a repository, or the folder of another program: it is not ours to remove.
    """
    names = set(os.listdir(root))
    if names and not names & SIGNS:
        raise RefusedError(
            f"{root} does not look like vyane's state folder", slug="not_ours",
            hint="look at VYANE_HOME and --home",
        )  # fmt: skip
    others = strangers(root)
    if others:
        shown = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
        raise RefusedError(
            f"{root} holds what is not vyane's: {shown}", slug="not_ours",
            hint="nothing was removed: take that out first, or remove the folder yourself",
        )  # fmt: skip
