"""Spawn: a child worker with its own logical session, linked to its parent in one commit point.

Commit point: the registry, written last, with the child and its link in one write. A kill before
it leaves documents that nothing names; a kill after it leaves a child that is fully linked and
PENDING, which `wait` and `gc` make FAILED when no launcher stands behind it.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from vyane_cli.children.link import link_child
from vyane_cli.children.order import Order, SpawnPlan, check_order
from vyane_cli.children.panes import check_place, open_pane
from vyane_cli.children.place import drop_worktree, make_worktree, plan_worktree
from vyane_cli.children.result_rules import Ending, Report
from vyane_cli.children.starting import start_launcher
from vyane_cli.errors import InvalidInputError, StorageError, VyaneError
from vyane_cli.kernel.runtimes import ChildRuntime, child_environment, find_runtime
from vyane_cli.sessions import registry
from vyane_cli.sessions.facts import note_in_timeline
from vyane_cli.sessions.identity import require_person, whoami
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.sessions.worker import Worker, check_name, find_worker
from vyane_cli.timeline.events import EventKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


class Spawned(NamedTuple):
    """A new child."""

    child: Worker
    where: str = ""
    """How to get to it in tmux, in words."""


def spawn(runtime: Runtime, order: Order) -> Worker:
    """Make a child and start it: `spawn_child`, for who needs the worker alone."""
    return spawn_child(runtime, order).child


def spawn_child(runtime: Runtime, order: Order) -> Spawned:
    """Make a child and start it. It is on disk, and its launcher runs, when this returns.

    Everything is checked before anything is written. A child whose program cannot be started is
    made FAILED by its launcher, and its parent gets a result that says why.
    """
    order = order._replace(cwd=os.path.abspath(order.cwd or os.getcwd()))
    check_order(order)
    if order.name:
        check_name(order.name)
    if not os.path.isdir(order.cwd):
        raise InvalidInputError("cwd", order.cwd, "a folder")
    return start_child(runtime, order, find_parent(runtime, order.parent))


def start_child(runtime: Runtime, order: Order, parent_id: str) -> Spawned:
    """The same for a checked order and a known parent."""
    child_runtime = find_runtime(order.runtime, runtime.config.runtimes)
    if order.tmux:
        _check_interactive(order, child_runtime)
        check_place(order.tmux, runtime.environ)
    plan = _in_worktree(runtime, order, parent_id, child_runtime)
    try:
        note_in_timeline(runtime, plan.parent, EventKind.CHILD_SPAWNED, plan.event)
    except VyaneError:
        pass  # the registry has the link; a parent's damaged timeline holds up no child
    try:
        return Spawned(plan.child, _start(runtime, order, plan.child, child_runtime))
    except StorageError as error:
        _fail(runtime, plan.child.id, error.message)
        raise


def _check_interactive(order: Order, child_runtime: ChildRuntime) -> None:
    if not child_runtime.interactive:
        hint = f"set `interactive` under [runtimes.{order.runtime}] in config.toml"
        raise InvalidInputError("runtime", order.runtime, "one for a pane", hint=hint)


def _in_worktree(
    runtime: Runtime, order: Order, parent_id: str, child_runtime: ChildRuntime
) -> SpawnPlan:
    """The commit, with the work tree made before it: one that fails leaves neither."""
    if not order.worktree:
        return link_child(runtime, order, parent_id, child_runtime)
    workers = registry.Registry(runtime.layout).listing()
    tree = make_worktree(plan_worktree(order.cwd, order.worktree, workers, runtime.environ))
    try:
        return link_child(runtime, order._replace(cwd=tree.cwd), parent_id, child_runtime)
    except VyaneError:
        drop_worktree(tree)
        raise


def _start(runtime: Runtime, order: Order, child: Worker, child_runtime: ChildRuntime) -> str:
    if order.tmux:
        return open_pane(runtime.layout.root, child, order.tmux, runtime.environ)
    environment = child_environment(runtime.environ, child_runtime, runtime.layout.root, child.id)
    start_launcher(runtime, child.id, environment)
    return ""


def _fail(runtime: Runtime, child: str, reason: str) -> None:
    """Nothing runs that would say so: the child has failed. If that fails too, `gc` does it."""
    from vyane_cli.children.result import settle_child

    report = Report(Ending.ERROR, "", f"it could not be started: {reason}")
    try:
        settle_child(runtime, child, report)
    except VyaneError:
        return


def find_parent(runtime: Runtime, who: str) -> str:
    """The id of the worker that is to be the parent: the named one, or the one that runs this."""
    speaker = whoami(runtime)
    workers = registry.Registry(runtime.layout)
    if who:
        parent = find_worker(who, workers.listing())
        if parent.id != speaker.id:
            require_person(runtime, speaker, "spawn a child of another worker")
        return parent.id
    if speaker.kind is FromKind.WORKER and speaker.id in workers.workers:
        return speaker.id
    raise InvalidInputError(
        "parent",
        who,
        "given: this command does not run in a worker's session",
        missing=True,
        hint="--parent NAME; `vyane workers` lists them",
    )
