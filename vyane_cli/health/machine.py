"""Checks of the machine: locks, clocks, hooks, guard, shells, and the waiting times in force."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import NamedTuple

from vyane_cli.children.cancel_rules import ORPHANED_S
from vyane_cli.children.stale import stale_after_s
from vyane_cli.health.subject import Finding, Subject, some
from vyane_cli.mail.mailbox import brought
from vyane_cli.setup.hooks import HooksState, Scope
from vyane_cli.storage import files, journal, processes

PATIENCE_S = 1.0
"""Seconds for which the same process may hold a lock before it is reported."""
AHEAD_S = 60.0


class Holder(NamedTuple):
    """A process that holds a lock file."""

    lock: str
    pid: int
    name: str = ""
    state: str = ""

    @property
    def stuck(self) -> bool:
        """Return whether the process cannot release the lock by itself."""
        return self.state in ("stopped", "tracing-stop", "zombie", "gone")

    def __str__(self) -> str:
        """Return the holder in words."""
        return f"{self.lock} is held by process {self.pid} ({self.name or '?'}, {self.state})"


def locks(subject: Subject) -> Finding:
    """No process sits on a lock."""
    end = time.monotonic() + PATIENCE_S
    found = holders(subject.layout.locks)
    stuck = [one for one in found if one.stuck]
    while found and not stuck and time.monotonic() < end:
        time.sleep(0.05)
        now = {(one.lock, one.pid) for one in holders(subject.layout.locks)}
        found = [one for one in found if (one.lock, one.pid) in now]
    if not found:
        return Finding(True, "none is held for long")
    one = (stuck or found)[0]
    fix = f"look at process {one.pid}: it has held the lock for over {PATIENCE_S:.0f} s"
    if one.state in ("stopped", "tracing-stop"):
        fix = f"let it go on: `kill -CONT {one.pid}`"
    elif one.state in ("zombie", "gone"):
        fix = f"a child of process {one.pid} keeps the lock: end it"
    return Finding(False, some([str(each) for each in stuck or found]), fix)


def holders(folder: str) -> list[Holder]:
    """List the holders of locks from the kernel's own list; no lock is touched."""
    inodes = {}
    for name in files.listdir(folder):
        try:
            inodes[os.stat(os.path.join(folder, name)).st_ino] = name
        except OSError:
            continue
    try:
        with open("/proc/locks") as file:
            rows = [line.split() for line in file]
    except OSError:
        return _probe(folder)
    found = set()
    for row in rows:
        if len(row) >= 6 and row[1] == "FLOCK" and row[4].lstrip("-").isdigit():
            inode = row[5].rpartition(":")[2]
            if inode.isdigit() and int(inode) in inodes:
                found.add((inodes[int(inode)], int(row[4])))
    return [_describe(lock, pid) for lock, pid in sorted(found)]


def _describe(lock: str, pid: int) -> Holder:
    import psutil

    try:
        process = psutil.Process(pid)
        return Holder(lock, pid, process.name(), str(process.status()))
    except psutil.NoSuchProcess:
        return Holder(lock, pid, "", "gone")
    except psutil.Error:
        return Holder(lock, pid, "", "running")


def _probe(folder: str) -> list[Holder]:
    """List the locks that cannot be taken at once, where the kernel has no list (macOS)."""
    try:
        import fcntl
    except ImportError:
        return []
    found = []
    for name in files.listdir(folder):
        try:
            fd = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            found.append(Holder(name, 0, "", "running"))
        finally:
            os.close(fd)
    return found


def clock(subject: Subject) -> Finding:
    """The wall clock is not behind what was written, and this boot can be told from others."""
    now = subject.clock
    if not now.boot:
        return Finding(
            False,
            "the system does not say which boot this is: whether a process died cannot be proven",
            "make /proc/sys/kernel/random/boot_id readable",
        )
    newest, where = 0.0, ""
    for path, at in _records(subject):
        if at > newest:
            newest, where = at, os.path.relpath(path, subject.layout.root)
    if newest > now.at + AHEAD_S:
        return Finding(
            False,
            f"the wall clock is {newest - now.at:.0f} s behind the newest record ({where})",
            "set the clock, such as with `timedatectl set-ntp true`",
        )
    return Finding(True, f"boot {processes.boot_id()[:8]}, clock ahead of every record")


def _records(subject: Subject) -> list[tuple[str, float]]:
    """Return the time in the last line of each inbox and timeline, with its path."""
    layout = subject.layout
    paths = [
        layout("messages", "inbox", name)
        for name in files.listdir(layout("messages", "inbox"))
        if name.endswith(".jsonl")
    ]
    paths += [
        layout("timelines", name, "events.jsonl") for name in files.listdir(layout("timelines"))
    ]
    found = []
    for path in paths:
        line = journal.read_last(path)
        record = line.record if line is not None and line.record is not None else {}
        at = record.get("at") or brought(record).get("ts")
        if isinstance(at, (int, float)):
            found.append((path, float(at)))
    return found


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
    if user.state is HooksState.INSTALLED:
        return Finding(True, user.path)
    plugin = next((name for one in scopes for name in one.plugins), "")
    if plugin:
        return Finding(True, f"by the plugin {plugin}")
    others = [one.path for one in scopes if one.state is HooksState.INSTALLED]
    missing = ", ".join(user.missing) or "others are there twice"
    words = {
        HooksState.ABSENT: "has no entries of vyane",
        HooksState.FOREIGN: "has only entries of another state folder",
        HooksState.PARTLY: f"lacks some entries ({missing})",
        HooksState.UNREADABLE: user.detail,
    }
    detail = (
        user.detail if user.state is HooksState.UNREADABLE else f"{user.path} {words[user.state]}"
    )
    if others:
        detail += f"; installed in {others[0]} alone"
    fix = f"mend {user.path}, then {INSTALL}" if user.state is HooksState.UNREADABLE else INSTALL
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
        for name, value in subject.home.environ.items()
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


def thresholds(subject: Subject) -> Finding:
    """The waiting times in force fit each other."""
    stale_s = stale_after_s(subject.home)
    detail = f"stale after {stale_s:.0f} s"
    if stale_s > ORPHANED_S:
        return Finding(True, detail)
    return Finding(
        False,
        f"stale_below_idle: {detail}, though what is idle is waited for {ORPHANED_S:.0f} s",
        "raise workers.stale_after_s, or take VYANE_WORKER_HEARTBEAT_TIMEOUT away",
    )
