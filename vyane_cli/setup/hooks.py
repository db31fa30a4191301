"""Hooks: put the guard and its entries where the host finds them, take them out, look at them.

The entries are written by the host's own module (`hosts/claude_settings.py`), which a command
hands in as `HostSettings`. The guard is written before the entries that name it, and outlives
them: an open session may still call it. What stood in a settings file where entries are put is
recorded first (`installed.json`), so that an uninstall gives back the same bytes.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeAlias

from vyane_cli.errors import ConflictError, CorruptStateError, InvalidInputError, VyaneError
from vyane_cli.home import Home
from vyane_cli.setup import guard as guards
from vyane_cli.setup.guard import GuardStatus, guard_status, install_guard
from vyane_cli.storage import document, files
from vyane_cli.storage.locks import LockKind

Stood: TypeAlias = Mapping[str, str | None]
"""What stood in a settings file where containers were made or filled, as the host names them."""


class HostEntry(Protocol):
    """A handler of an event, as the host's module has it."""

    @property
    def event(self) -> str:
        """The event's name."""

    @property
    def handler(self) -> Mapping[str, Any]:
        """What stands in the file."""


class HostSettings(Protocol):
    """The pure functions on a host's settings text; `path` is for their errors."""

    RULE: str

    def entries(self, guard: str, /) -> Sequence[HostEntry]:
        """What is to be installed for this guard."""

    def stood(self, before: str, after: str, known: Stood, path: str, /) -> Stood:
        """What stood where an edit made or filled containers."""

    def add(self, text: str, wanted: Any, path: str, known: Stood | None = None, /) -> str:
        """The text with these entries."""

    def remove(
        self,
        text: str,
        is_ours: Callable[[Mapping[str, Any]], bool],
        path: str,
        known: Stood | None,
        /,
    ) -> str:
        """The text without these handlers."""

    def find(self, text: str, path: str, /) -> Sequence[HostEntry]:
        """Vyane's entries, of every state root."""

    def allow(self, text: str, path: str, /) -> str:
        """The text with the permission rule."""

    def disallow(self, text: str, path: str, known: Stood | None, /) -> str:
        """The text without the permission rule."""

    def allows(self, text: str, path: str, /) -> bool:
        """Whether the permission rule is there."""

    def hooks_are_off(self, text: str, path: str, /) -> bool:
        """Whether the file turns all hooks off."""

    def plugins(self, text: str, path: str, /) -> Sequence[str]:
        """Vyane's plugins that the file turns on."""


class Scope(Enum):
    """Whose sessions a settings file is for."""

    USER = "user"
    PROJECT = "project"
    LOCAL = "local"


class HooksState(Enum):
    """What a settings file has of vyane."""

    INSTALLED = "installed"
    PARTLY = "partly"  # some entries are missing, or are those of another version
    FOREIGN = "foreign"  # only entries of other state roots
    ABSENT = "absent"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class HooksChange:
    """What an install or uninstall did to a settings file, or would do in a dry run."""

    path: str
    guard: str
    dry_run: bool
    changed: bool  # the settings file
    guard_changed: bool
    events: tuple[str, ...]  # those that have vyane's entries now
    rule: str  # the permission rule
    allowed: bool  # whether it is there now
    diff: str  # of the settings file, unified; empty when nothing changes
    foreign: tuple[str, ...] = ()  # guards of other state roots, left alone
    off: bool = False  # the file turns all hooks off


@dataclass(frozen=True, slots=True)
class ScopeStatus:
    """One settings file."""

    scope: Scope
    path: str
    state: HooksState
    missing: tuple[str, ...] = ()  # events without their entries
    foreign: tuple[str, ...] = ()  # guards of other state roots
    plugins: tuple[str, ...] = ()
    allowed: bool = False
    off: bool = False  # the file turns all hooks off
    detail: str = ""  # why it is unreadable


@dataclass(frozen=True, slots=True)
class HooksStatus:
    """All that `hooks status` looks at."""

    guard: GuardStatus
    scopes: tuple[ScopeStatus, ...]
    live: bool = field(init=False)  # by a file or a plugin, hooks run in some session

    def __post_init__(self) -> None:
        on = [one for one in self.scopes if one.state is HooksState.INSTALLED or one.plugins]
        off = any(one.off for one in self.scopes)
        object.__setattr__(self, "live", bool(on) and self.guard.works and not off)


def settings_path(scope: Scope, environ: Mapping[str, str], folder: str) -> str:
    """The settings file of a scope; `folder` is the one that the project's files lie in."""
    if scope is Scope.PROJECT:
        return os.path.join(folder, ".claude", "settings.json")
    if scope is Scope.LOCAL:
        return os.path.join(folder, ".claude", "settings.local.json")
    config = environ.get("CLAUDE_CONFIG_DIR")
    if not config:
        home = environ.get("HOME") or os.path.expanduser("~")
        config = os.path.join(home, ".claude")
    return os.path.join(os.path.abspath(config), "settings.json")


# --- install and uninstall --------------------------------------------------------------------


def install(
    home: Home,
    host: HostSettings,
    path: str,
    *,
    allow: bool = False,
    dry_run: bool = False,
) -> HooksChange:
    """Write the guard, then the record, then the entries into the settings file. All durable.

    A second call changes nothing. A crash leaves a guard that nobody calls, perhaps with a record
    of what was not changed, or all of it. Raises InvalidInputError for a settings file that cannot
    be edited safely, before anything is written.
    """
    guard = guards.command(home)
    wanted = host.entries(guard)

    def change(text: str) -> str:
        text = host.add(text, wanted, path, _known(home, path))
        return host.allow(text, path) if allow else text

    def record(before: str, after: str) -> None:
        known = _known(home, path)
        if known is None:
            known = _unrecorded(host, guard, before, path)
        _save_known(home, path, {**known, **host.stood(before, after, known, path)})

    before, after = _rewrite(path, change, dry_run=True)  # raises for a file that we cannot edit
    with files.before_commit():
        guard_changed = install_guard(home, dry_run=dry_run)
    if not dry_run and before != after:
        with home.held((LockKind.CONFIG, "")):
            before, after = _rewrite(path, change, record, dry_run=False)
    return _report(host, guard, path, before, after, guard_changed=guard_changed, dry_run=dry_run)


def uninstall(
    home: Home,
    host: HostSettings,
    path: str,
    *,
    disallow: bool = False,
    dry_run: bool = False,
) -> HooksChange:
    """Take this state root's entries out of the settings file; durable on return.

    The guard stays. The permission rule stays, unless `disallow`: it may be the user's own. A
    record that cannot be read is passed over: what it says is about white space, and no reason to
    keep the entries.
    """
    guard = guards.command(home)

    def known() -> Stood | None:
        try:
            return _known(home, path)
        except VyaneError:
            return None

    def change(text: str) -> str:
        text = host.remove(text, lambda one: one.get("command") == guard, path, known())
        return host.disallow(text, path, known()) if disallow else text

    before, after = _rewrite(path, change, dry_run=True)
    if not dry_run and before != after:
        with home.held((LockKind.CONFIG, "")):
            before, after = _rewrite(path, change, dry_run=False)
            if (had := known()) is not None:
                _save_known(home, path, host.stood(before, after, had, path) or None)
    return _report(host, guard, path, before, after, guard_changed=False, dry_run=dry_run)


# --- the record ---------------------------------------------------------------------------------


def _known(home: Home, path: str) -> Stood | None:
    """Return what is recorded of a settings file; None when nothing is."""
    installed = home.layout.installed
    files_known = (document.load(installed) or {}).get("settings", {})
    found = files_known.get(os.path.realpath(path)) if isinstance(files_known, dict) else ""
    if found is None:
        return None
    if not isinstance(found, dict) or not all(map(_is_space, found.values())):
        raise CorruptStateError(installed, "not a record of settings files", hint=document.BY_HAND)
    return found


def _is_space(held: object) -> bool:
    return held is None or (isinstance(held, str) and not held.strip(" \t\r\n"))


def _save_known(home: Home, path: str, stood: Stood | None) -> None:
    """Record what stood in a settings file, or with None forget it. Durable on return."""
    installed = home.layout.installed
    value = document.load(installed) or {}
    known = dict(value.get("settings", {}))
    known.pop(os.path.realpath(path), None)
    if stood is not None:
        known[os.path.realpath(path)] = dict(stood)
    changed = {**value, "settings": known}
    if changed != value:
        with files.before_commit():
            document.save(installed, changed, home.layout.root)


def _unrecorded(host: HostSettings, guard: str, text: str, path: str) -> Stood:
    """What is assumed of a file without a record: a version that kept none made what is there."""
    if any(one.handler["command"] == guard for one in host.find(text, path)):
        return dict.fromkeys(host.stood("{}", text, {}, path))
    return {}


def _report(
    host: HostSettings,
    guard: str,
    path: str,
    before: str,
    after: str,
    *,
    guard_changed: bool,
    dry_run: bool,
) -> HooksChange:
    found = host.find(after, path)
    commands = [str(one.handler["command"]) for one in found]
    diff = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), path, path
    )
    return HooksChange(
        path=path,
        guard=guard,
        dry_run=dry_run,
        changed=before != after,
        guard_changed=guard_changed,
        events=tuple(
            dict.fromkeys(one.event for one, at in zip(found, commands, strict=True) if at == guard)
        ),
        rule=host.RULE,
        allowed=host.allows(after, path),
        diff="".join(line if line.endswith("\n") else line + "\n" for line in diff),
        foreign=tuple(dict.fromkeys(at for at in commands if at != guard)),
        off=host.hooks_are_off(after, path),
    )


def _rewrite(
    path: str,
    change: Callable[[str], str],
    record: Callable[[str, str], None] = lambda _before, _after: None,
    *,
    dry_run: bool,
) -> tuple[str, str]:
    """The text before and after, recorded first. The host may write too: then we begin again."""
    for _ in range(5):
        data = guards.read(path)
        before = _decoded(data or b"", path)
        after = change(before)
        if dry_run or after == before:
            return before, after
        record(before, after)
        if guards.read(path) == data:
            files.replace(path, after.encode())
            return before, after
    raise ConflictError(
        f"{path}: another program keeps writing it",
        hint="nothing was written to it: run the same command again",
    )


def _decoded(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInputError(
            f"{path}, line {line}",
            data[error.start : error.start + 8].decode("utf-8", "replace"),
            "UTF-8 text",
            hint="nothing was written: mend the file, then run the same command again",
            slug="settings_unreadable",
        ) from None


# --- status -------------------------------------------------------------------------------------


def status(home: Home, host: HostSettings, folder: str) -> HooksStatus:
    """Look at the guard and at the settings file of each scope. Writes nothing."""
    scopes = tuple(scope_status(home, host, scope, folder) for scope in Scope)
    return HooksStatus(guard_status(home), scopes)


def scope_status(home: Home, host: HostSettings, scope: Scope, folder: str) -> ScopeStatus:
    """What one settings file has of vyane; never raises for a file that is unreadable."""
    path = settings_path(scope, home.environ, folder)
    guard = home.layout.guard.replace(os.sep, "/")
    try:
        text = _decoded(guards.read(path) or b"", path)
        found = host.find(text, path)
        wanted = host.entries(guard)
        plain = [(one.event, dict(one.handler)) for one in found]
        missing = [one.event for one in wanted if (one.event, dict(one.handler)) not in plain]
        own = [one for one in found if one.handler["command"] == guard]
        if own:
            settled = host.add(text, wanted, path) == text
            state = HooksState.INSTALLED if settled else HooksState.PARTLY
        else:
            state = HooksState.FOREIGN if found else HooksState.ABSENT
        foreign = dict.fromkeys(str(one.handler["command"]) for one in found if one not in own)
        return ScopeStatus(
            scope=scope,
            path=path,
            state=state,
            missing=tuple(dict.fromkeys(missing)) if own else (),
            foreign=tuple(foreign),
            plugins=tuple(host.plugins(text, path)),
            allowed=host.allows(text, path),
            off=host.hooks_are_off(text, path),
        )
    except VyaneError as error:
        return ScopeStatus(scope, path, HooksState.UNREADABLE, detail=error.message)
