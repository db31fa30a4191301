"""Hooks: vyane's entries in a host's settings files: installed, uninstalled, and checked.

The entries are written by the host's own module (`hosts/claude_settings.py`), which a command
passes in as `HostSettings`. The guard is written before the entries that name it, and outlives
them, because an open session may still call it. The text that an install replaces in a settings
file is recorded first (`installed.json`), so that an uninstall restores the same bytes.
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
"""The earlier content of each container that an install created or filled in a settings file.

The keys are the host's names of the containers. The value is the white space that an empty
container had, or None for a container that did not exist.
"""


class HostEntry(Protocol):
    """A handler of an event, in the form of the host's module."""

    @property
    def event(self) -> str:
        """Return the name of the event."""

    @property
    def handler(self) -> Mapping[str, Any]:
        """Return the handler as it is written in the settings file."""


class HostSettings(Protocol):
    """Pure functions on the text of a host's settings file; `path` is only used in errors."""

    RULE: str

    def entries(self, guard: str, /) -> Sequence[HostEntry]:
        """Return the entries to install for this guard."""

    def stood(self, before: str, after: str, known: Stood, path: str, /) -> Stood:
        """Return the earlier content of the containers that an edit created or filled."""

    def add(self, text: str, wanted: Any, path: str, known: Stood | None = None, /) -> str:
        """Return the text with these entries."""

    def remove(
        self,
        text: str,
        is_ours: Callable[[Mapping[str, Any]], bool],
        path: str,
        known: Stood | None,
        /,
    ) -> str:
        """Return the text without the handlers for which `is_ours` is true."""

    def find(self, text: str, path: str, /) -> Sequence[HostEntry]:
        """Return vyane's entries, those of other state roots included."""

    def allow(self, text: str, path: str, /) -> str:
        """Return the text with the permission rule."""

    def disallow(self, text: str, path: str, known: Stood | None, /) -> str:
        """Return the text without the permission rule."""

    def allows(self, text: str, path: str, /) -> bool:
        """Return whether the text has the permission rule."""

    def hooks_are_off(self, text: str, path: str, /) -> bool:
        """Return whether the settings disable all hooks."""

    def plugins(self, text: str, path: str, /) -> Sequence[str]:
        """Return vyane's plugins that the settings enable."""


class Scope(Enum):
    """The scope of a settings file: the sessions that read it."""

    USER = "user"
    PROJECT = "project"
    LOCAL = "local"


class HooksState(Enum):
    """The state of vyane's entries in a settings file."""

    INSTALLED = "installed"
    PARTLY = "partly"  # some entries are missing, or are from another version
    FOREIGN = "foreign"  # only entries of other state roots
    ABSENT = "absent"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class HooksChange:
    """The change that an install or uninstall made to a settings file, or would make (dry run)."""

    path: str
    guard: str
    dry_run: bool
    changed: bool  # whether the settings file changed
    guard_changed: bool
    events: tuple[str, ...]  # events that have vyane's entries now
    rule: str  # the permission rule
    allowed: bool  # whether the settings file has the rule now
    diff: str  # unified diff of the settings file; empty when nothing changes
    foreign: tuple[str, ...] = ()  # guards of other state roots, left alone
    off: bool = False  # the settings file disables all hooks


@dataclass(frozen=True, slots=True)
class ScopeStatus:
    """The status of one settings file."""

    scope: Scope
    path: str
    state: HooksState
    missing: tuple[str, ...] = ()  # events whose entries are missing
    foreign: tuple[str, ...] = ()  # guards of other state roots
    plugins: tuple[str, ...] = ()
    allowed: bool = False
    off: bool = False  # the settings file disables all hooks
    detail: str = ""  # why the settings file is unreadable


@dataclass(frozen=True, slots=True)
class HooksStatus:
    """The result of `hooks status`: the guard and every settings file."""

    guard: GuardStatus
    scopes: tuple[ScopeStatus, ...]
    live: bool = field(init=False)  # a settings file or a plugin runs the hooks in some session

    def __post_init__(self) -> None:
        on = [one for one in self.scopes if one.state is HooksState.INSTALLED or one.plugins]
        off = any(one.off for one in self.scopes)
        object.__setattr__(self, "live", bool(on) and self.guard.works and not off)


def settings_path(scope: Scope, environ: Mapping[str, str], folder: str) -> str:
    """Return the path of a scope's settings file; `folder` is the project's folder."""
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
    """Write the guard, then the record, then the entries in the settings file. All are durable.

    A second call changes nothing. A crash leaves a guard that nothing calls, perhaps with a record
    of an edit that did not happen; or everything. Raises InvalidInputError for a settings file that
    cannot be edited safely, before anything is written.
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

    before, after = _rewrite(path, change, dry_run=True)  # raises for a file that cannot be edited
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
    """Remove this state root's entries from the settings file. Durable on return.

    The guard stays. The permission rule stays unless `disallow` is set, because it may be the
    user's own. A record that cannot be read is ignored: it only serves to restore white space, and
    the entries must go in any case.
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
            try:
                if (had := known()) is not None:
                    _save_known(home, path, host.stood(before, after, had, path) or None)
            except VyaneError:
                pass  # the entries are removed; the next install or uninstall corrects the record
    return _report(host, guard, path, before, after, guard_changed=False, dry_run=dry_run)


# --- the record ---------------------------------------------------------------------------------


def _known(home: Home, path: str) -> Stood | None:
    """Return the record of a settings file, or None when it has no record.

    Raises CorruptStateError for a record of another form.
    """
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
    """Save the record of a settings file; None removes the record. Durable on return."""
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
    """Return the record to assume for a settings file that has none.

    If vyane's entries are in the file, an earlier version that kept no record installed them: all
    containers around them are taken as created by vyane.
    """
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
    """Change a settings file, after `record` has saved the record. Return both texts.

    The host may write the file too: if it changed since it was read, everything is done again, up
    to five times; then ConflictError is raised.
    """
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
    """Check the guard and the settings file of each scope. Writes nothing."""
    scopes = tuple(scope_status(home, host, scope, folder) for scope in Scope)
    return HooksStatus(guard_status(home), scopes)


def scope_status(home: Home, host: HostSettings, scope: Scope, folder: str) -> ScopeStatus:
    """Return the status of one settings file. An unreadable file is a status, not an error."""
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
