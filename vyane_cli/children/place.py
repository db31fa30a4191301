"""Places of a child: a git work tree beside the repository, or a pane of tmux.

git creates the work tree before the child is recorded: a kill in between leaves an unused work
tree, which the same command takes when it runs again. No function here removes a work tree in
which a child has worked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vyane_cli.children.order import TerminalPlace
from vyane_cli.errors import ConflictError, InvalidInputError, StorageError
from vyane_cli.kernel.text import slug
from vyane_cli.sessions.worker import Worker

PATIENCE_S = 600.0
"""Seconds that one git command may take: to check out a large repository takes time."""
STEERING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
"""Variables that git sets for its hooks; they would point git at another repository."""


class Worktree(NamedTuple):
    """A work tree that is to be created."""

    repository: str
    path: str
    branch: str
    cwd: str
    """Folder where the child works: that of the order inside the tree, else the tree's root."""
    environ: Mapping[str, str]
    there: bool
    """The work tree exists already, left by a kill, and need not be created."""
    new_branch: bool
    """The branch does not exist yet and is created with the work tree."""


def plan_worktree(
    cwd: str, branch: str, workers: Sequence[Worker], environ: Mapping[str, str]
) -> Worktree:
    """Plan the work tree of a child, without a change on disk.

    `workers`: all known workers; a worker that has not ended keeps its folder. Raises
    InvalidInputError for an unusable folder or branch, and ConflictError when the branch or the
    path is in use.
    """
    environ = {name: value for name, value in environ.items() if name not in STEERING}

    def ask(folder: str, *words: str) -> str | None:
        done = _git(environ, folder, *words)
        return done.stdout.rstrip("\n") if done.returncode == 0 else None

    top = ask(cwd, "rev-parse", "--show-toplevel")
    if top is None:
        raise InvalidInputError("cwd", cwd, "in a git repository", hint="--cwd names another one")
    if ask(top, "check-ref-format", "--branch", branch) != branch:
        raise InvalidInputError("worktree", branch, "the name of a branch")
    if ask(top, "rev-parse", "--verify", "--quiet", "HEAD") is None:
        raise InvalidInputError("cwd", cwd, "a repository with a commit", hint="commit something")
    common = ask(top, "rev-parse", "--path-format=absolute", "--git-common-dir") or top
    path = f"{_name_of(common)}-{slug(branch) or 'worktree'}"
    checked_out = _checked_out(ask(top, "worktree", "list", "--porcelain") or "", branch)
    if checked_out not in ("", path):
        raise ConflictError(
            f"branch {branch} is checked out in {checked_out}", hint="choose another branch"
        )
    inside = [w for w in workers if not w.final and _is_in(w.cwd, path)]
    if inside:
        raise ConflictError(f"{inside[0].name} works in {path}", hint="choose another branch")
    there = checked_out == path
    if os.path.exists(path) and not there:
        raise ConflictError(f"{path} is there already", hint="move it away, or choose a branch")
    folder = os.path.normpath(os.path.join(path, os.path.relpath(os.path.realpath(cwd), top)))
    known = ask(top, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}") is not None
    return Worktree(
        repository=top,
        path=path,
        branch=branch,
        cwd=folder,
        environ=environ,
        there=there,
        new_branch=not known,
    )


def make_worktree(plan: Worktree) -> Worktree:
    """Create the work tree, unless it exists. Returns the plan with the folder that exists.

    Raises ConflictError with git's own words when git refuses; then no work tree was created.
    """
    if not plan.there:
        words = ["worktree", "add", "--quiet"]
        words += ["-b", plan.branch, plan.path] if plan.new_branch else [plan.path, plan.branch]
        done = _git(plan.environ, plan.repository, *words)
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise ConflictError(f"git made no work tree: {said[-1] if said else done.returncode}")
    return plan if os.path.isdir(plan.cwd) else plan._replace(cwd=plan.path)


def drop_worktree(plan: Worktree) -> None:
    """Remove the work tree and branch that were created for a child whose spawn failed.

    A work tree with changes stays, and so does one that existed before.
    """
    if plan.there:
        return
    removed = _git(plan.environ, plan.repository, "worktree", "remove", plan.path)
    if removed.returncode == 0 and plan.new_branch:
        _git(plan.environ, plan.repository, "branch", "--delete", plan.branch)


def _name_of(common: str) -> str:
    """Return the repository's path without `.git`; the work trees are created beside it."""
    folder, name = os.path.split(common.rstrip(os.sep))
    return folder if name == ".git" else common.rstrip(os.sep).removesuffix(".git")


def _checked_out(listing: str, branch: str) -> str:
    """Return the work tree that has the branch, or "". See git-worktree(1), PORCELAIN FORMAT."""
    path = ""
    for line in listing.splitlines():
        key, _, value = line.partition(" ")
        if key == "worktree":
            path = value
        elif key == "branch" and value == f"refs/heads/{branch}":
            return path
    return ""


def _is_in(folder: str, path: str) -> bool:
    return folder == path or folder.startswith(path + os.sep)


def _git(environ: Mapping[str, str], folder: str, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["git", "-C", folder, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=dict(environ),
            timeout=PATIENCE_S,
            check=False,
        )
    except FileNotFoundError:
        raise InvalidInputError("worktree", words[0], "possible: there is no git") from None
    except subprocess.TimeoutExpired:
        raise ConflictError(f"git {words[0]} did not end within {PATIENCE_S:.0f} s") from None


PANE_PATIENCE_S = 10.0
"""Seconds that one tmux command may take."""


def check_place(place: str, environ: Mapping[str, str]) -> None:
    """Raise InvalidInputError when tmux is missing, or when there is no pane to split."""
    if _tmux(environ, "-V").returncode:
        raise InvalidInputError("tmux", place, "possible: there is no tmux", hint="install tmux")
    if place == TerminalPlace.PANE and not environ.get("TMUX"):
        hint = "--tmux window makes a session of its own, to attach to"
        raise InvalidInputError("tmux", place, "possible outside of tmux", hint=hint)


def open_pane(root: str, child: Worker, place: str, environ: Mapping[str, str]) -> str:
    """Open a tmux pane or window for the child, with the launcher as its first process.

    Returns how to get to the pane, in words. Outside of tmux a new tmux session is opened. The
    pane has the environment of the tmux server, except for PATH; the launcher removes the
    variables of a host. Raises StorageError when tmux refuses.
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
        if place == TerminalPlace.PANE:
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
            timeout=PANE_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess([], 1, "", str(error))
