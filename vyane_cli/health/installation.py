"""Checks of the installation: the hooks, the guard, and what a shell's profile does to them."""

from __future__ import annotations

import os
import shutil
import subprocess

from vyane_cli.health.subject import Finding, Subject
from vyane_cli.setup.hooks import Scope, State

INSTALL = "run `vyane hooks install`"
SHELL_S = 10.0


def hooks(subject: Subject) -> Finding:
    """Claude Code calls vyane in every session of this account."""
    scopes = subject.hooks.scopes
    off = [one.path for one in scopes if one.off]
    if off:
        return Finding(
            False, f"{off[0]} turns all hooks off", f"set disableAllHooks to false in {off[0]}"
        )
    user = next(one for one in scopes if one.scope is Scope.USER)
    if user.state is State.INSTALLED:
        return Finding(True, user.path)
    plugin = next((name for one in scopes for name in one.plugins), "")
    if plugin:
        return Finding(True, f"by the plugin {plugin}")
    others = [one.path for one in scopes if one.state is State.INSTALLED]
    words = {
        State.ABSENT: "has no entries of vyane",
        State.FOREIGN: "has only entries of another state folder",
        State.PARTLY: f"lacks some entries ({', '.join(user.missing) or 'others are there twice'})",
        State.UNREADABLE: user.detail,
    }
    detail = user.detail if user.state is State.UNREADABLE else f"{user.path} {words[user.state]}"
    if others:
        detail += f"; installed in {others[0]} alone"
    fix = f"mend {user.path}, then {INSTALL}" if user.state is State.UNREADABLE else INSTALL
    return Finding(False, detail, fix)


def guard(subject: Subject) -> Finding:
    """The guard is there, can be run, and reaches this vyane."""
    found = subject.hooks.guard
    if not found.works:
        return Finding(False, f"{found.path}: {found.detail}", INSTALL)
    if not found.current:
        return Finding(False, f"{found.path} is that of another installation or version", INSTALL)
    return Finding(True, f"{found.path}, protocol {found.protocol}")


def shell_noise(subject: Subject) -> Finding:
    """A shell that runs a hook prints nothing of its own before the hook's answer."""
    path = subject.layout.guard
    command = [path, "PreToolUse"] if os.access(path, os.X_OK) else ["true"]
    environ = {
        name: value
        for name, value in subject.runtime.environ.items()
        if name != "CLAUDE_CODE_SESSION_ID"  # without a session the guard does nothing
    }
    tried = []
    for shell, *options in (("",), ("sh", "-c"), ("bash", "-c"), ("bash", "-lc")):
        if shell and not shutil.which(shell):
            continue
        words = [shell, *options, '"$0" "$@"', *command] if shell else command
        try:
            ran = subprocess.run(
                words,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SHELL_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Finding(False, f"{' '.join(words[:2])}: {error}", "look at your shell's profile")
        name = " ".join([shell, *options]) or "the guard itself"
        if ran.stdout:
            said = ran.stdout[:60].decode("utf-8", "replace").strip()
            return Finding(
                False,
                f"`{name}` prints {len(ran.stdout)} bytes before a hook's answer: {said!r}",
                "a line of your shell's profile prints: let it do so only in an interactive shell, "
                "such as `case $- in *i*) echo … ;; esac`",
            )
        tried.append(name)
    return Finding(True, "silent: " + ", ".join(tried))
