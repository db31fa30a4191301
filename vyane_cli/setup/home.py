"""The state folder: created with a commented config.toml, and removed by `vyane uninstall`.

The completion scripts of the package are read here too.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass

from vyane_cli.errors import RefusedError, StorageError, VyaneError
from vyane_cli.kernel.config import KEYS
from vyane_cli.projects import projects, schedule
from vyane_cli.setup import hooks
from vyane_cli.storage import files, settings
from vyane_cli.storage.layout import SIGNS, strangers
from vyane_cli.storage.settings import data_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


FOLDERS = ("sessions", "processes", "current", "wake", "beat", "due", "locks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialised:
    """The state folder, whether it was created, and the path of its config.toml."""

    home: str
    created: bool
    config: str


def initialise(home: Home) -> Initialised:
    """Create the folders and the config.toml that are missing.

    A crash leaves some of them; the next run creates the rest.
    """
    layout = home.layout
    created = not os.path.isdir(layout.root)
    for folder in ("", *FOLDERS):
        path = layout(folder) if folder else layout.root
        if not os.path.isdir(path):
            files.make_directories(path)
    if not os.path.exists(layout.config):
        settings.save_text(layout, default_text())
    return Initialised(home=layout.root, created=created, config=layout.config)


def default_text() -> str:
    """Return the text of a config.toml that lists every key, commented out, with its default."""
    lines = [
        "# Settings of vyane. Each key stands here with its default; take the # away to set it."
    ]
    section = None
    for key, known in KEYS.items():
        head, _, name = key.rpartition(".")
        if head != section:
            lines += [""] + ([f"# [{head}]"] if head else [])
            section = head
        lines += [f"# {known.doc}", f"# {name} = {_toml(known.default)}"]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


SETTLE_S = 2.0
"""Longest time, in seconds, for which a host uses the settings that it read last (measured)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uninstalled:
    """The result of an uninstall."""

    settings: tuple[str, ...]
    """Settings files from which vyane's entries were removed."""
    timers: tuple[str, ...]
    """Projects whose timers were removed."""
    home: str
    purged: bool
    """Whether the state folder was removed."""


def remove_all(home: Home, host: hooks.HostSettings, folder: str, *, purge: bool) -> Uninstalled:
    """Remove vyane's timers and its entries in every settings file; with `purge` also the state.

    The state is removed SETTLE_S after the entries, because a host may still call the guard.
    """
    root = home.layout.root
    if purge and os.path.isdir(root):
        _check_is_ours(root)
    unscheduled = remove_timers(home)
    changed = []
    for scope in hooks.Scope:
        path = hooks.settings_path(scope, home.environ, folder)
        if os.path.exists(path) and hooks.uninstall(home, host, path).changed:
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


def remove_timers(home: Home) -> list[str]:
    """Remove the timers of every project. Return the projects that had timers.

    A project that cannot be read, or whose timers cannot be removed, is skipped: its later rounds
    find no vyane and do nothing.
    """
    found = []
    for name in files.listdir(home.layout.projects):
        try:
            project = projects.load(home.layout, name)
            if project is not None and schedule.remove(home, project).removed:
                found.append(name)
        except VyaneError:
            continue
    return found


def _check_is_ours(root: str) -> None:
    """Raise RefusedError for a folder that is not a state folder of vyane, or has foreign files.

    VYANE_HOME may name a repository or the folder of another program, which must not be removed.
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


def script(shell: str) -> str:
    """Return the text of `completions/vyane.SHELL`."""
    with open(os.path.join(data_folder("completions"), f"vyane.{shell}"), encoding="utf-8") as file:
        return file.read()
