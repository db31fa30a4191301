"""A new tmux pane or window, in which an interactive child runs with its launcher above it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

from vyane_cli.children.order import Place
from vyane_cli.errors import InvalidInputError, StorageError
from vyane_cli.kernel.text import slug
from vyane_cli.sessions.worker import Worker

PATIENCE_S = 10.0


def check_place(place: str, environ: Mapping[str, str]) -> None:
    """InvalidInputError when there is no tmux, or no pane to split."""
    if _tmux(environ, "-V").returncode:
        raise InvalidInputError("tmux", place, "possible: there is no tmux", hint="install tmux")
    if place == Place.PANE and not environ.get("TMUX"):
        hint = "--tmux window makes a session of its own, to attach to"
        raise InvalidInputError("tmux", place, "possible outside of tmux", hint=hint)


def open_pane(root: str, child: Worker, place: str, environ: Mapping[str, str]) -> str:
    """Open it, with the launcher as its first process; how to get there, in words.

    Outside of tmux it is a session of its own. The pane has the environment of the tmux server,
    PATH aside: the launcher takes from it what tells of a host. StorageError when tmux refuses.
    """
    command = [sys.executable, "-I", "-m", "vyane_cli.launcher", "--here", root, child.id]
    common = ["-P", "-F", "#{session_name}:#{window_index}.#{pane_index}", "-c", child.cwd]
    common += ["-e", f"PATH={environ.get('PATH', os.defpath)}"]
    name = slug(child.name.rpartition(" / ")[2], 24) or child.id
    if not environ.get("TMUX"):
        session = f"vyane-{child.id}"
        done = _tmux(environ, "new-session", "-d", "-s", session, "-n", name, *common, *command)
        where = f"tmux attach -t {session}"
    else:
        beside = ["-t", environ["TMUX_PANE"]] if environ.get("TMUX_PANE") else []
        if place == Place.PANE:
            done = _tmux(environ, "split-window", "-d", *beside, *common, *command)
        else:
            done = _tmux(environ, "new-window", "-d", "-n", name, *common, *command)
        where = f"tmux pane {done.stdout.strip()}"
    if done.returncode:
        said = done.stderr.strip() or f"status {done.returncode}"
        raise StorageError("tmux", OSError(5, said))
    return where


def _tmux(environ: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["tmux", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=dict(environ),
            timeout=PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess([], 1, "", str(error))
