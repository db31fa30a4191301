"""Spawn: a child worker with its own logical session, linked to its parent in one commit point.

Commit point: the registry, written last, with the child and its link in one write. A kill before
the commit leaves documents that no record names. A kill after the commit leaves a child that is
fully linked and PENDING, which `wait` and `gc` make FAILED when it has no launcher.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from vyane_cli.children import launches
from vyane_cli.children.order import (
    CONTEXT_TURNS,
    Fresh,
    Order,
    SpawnPlan,
    check_order,
    check_parent,
    inherited_context,
    plan_spawn,
)
from vyane_cli.children.place import (
    check_place,
    drop_worktree,
    make_worktree,
    open_pane,
    plan_worktree,
)
from vyane_cli.children.result_rules import Ending, Report
from vyane_cli.children.start import start_launcher
from vyane_cli.errors import ConflictError, InvalidInputError, StorageError, VyaneError
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.ids import logical_session_id, span_id, worker_id
from vyane_cli.kernel.runtimes import (
    ChildRuntime,
    child_environment,
    fill,
    find_runtime,
    takes_prompt,
)
from vyane_cli.mail import inbox
from vyane_cli.sessions import registry
from vyane_cli.sessions.authority import require_person
from vyane_cli.sessions.facts import note_in_timeline
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.sessions.worker import Worker, check_name, find_worker
from vyane_cli.storage import files
from vyane_cli.storage.locks import LockKind
from vyane_cli.timeline import log
from vyane_cli.timeline.events import EventKind
from vyane_cli.timeline.turns import TimelineHead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


class Spawned(NamedTuple):
    """A new child, and its place in tmux."""

    child: Worker
    where: str = ""
    """How to get to the child in tmux, in words; empty for a detached child."""


def spawn(home: Home, order: Order) -> Worker:
    """Create a child and start it, like `spawn_child`. Returns the worker alone."""
    return spawn_child(home, order).child


def spawn_child(home: Home, order: Order) -> Spawned:
    """Create a child and start it. The child is on disk, and its launcher runs, on return.

    All arguments are checked before the first write. When the child's program cannot be started,
    the launcher makes the child FAILED, and the parent gets a result with the reason.
    """
    order = order._replace(cwd=os.path.abspath(order.cwd or os.getcwd()))
    check_order(order)
    if order.name:
        check_name(order.name)
    if not os.path.isdir(order.cwd):
        raise InvalidInputError("cwd", order.cwd, "a folder")
    return start_child(home, order, find_parent(home, order.parent))


def start_child(home: Home, order: Order, parent_id: str) -> Spawned:
    """Create a child and start it, like `spawn_child`, for a checked order and a known parent."""
    child_runtime = find_runtime(order.runtime, home.config.runtimes)
    if order.tmux:
        _check_interactive(order, child_runtime)
        check_place(order.tmux, home.environ)
    plan = _in_worktree(home, order, parent_id, child_runtime)
    try:
        note_in_timeline(home, plan.parent, EventKind.CHILD_SPAWNED, plan.event)
    except VyaneError:
        pass  # the registry has the link; the parent's damaged timeline must not block the child
    try:
        return Spawned(plan.child, _start(home, order, plan.child, child_runtime))
    except StorageError as error:
        _fail(home, plan.child.id, error.message)
        raise


def _check_interactive(order: Order, child_runtime: ChildRuntime) -> None:
    if not child_runtime.interactive:
        hint = f"set `interactive` under [runtimes.{order.runtime}] in config.toml"
        raise InvalidInputError("runtime", order.runtime, "one for a pane", hint=hint)


def _in_worktree(
    home: Home, order: Order, parent_id: str, child_runtime: ChildRuntime
) -> SpawnPlan:
    """Create the work tree, if one is ordered, then commit the child's records.

    Returns the plan. A failed commit leaves neither records nor the work tree.
    """
    if not order.worktree:
        return link_child(home, order, parent_id, child_runtime)
    workers = registry.Registry(home.layout).listing()
    tree = make_worktree(plan_worktree(order.cwd, order.worktree, workers, home.environ))
    try:
        return link_child(home, order._replace(cwd=tree.cwd), parent_id, child_runtime)
    except VyaneError:
        drop_worktree(tree)
        raise


def _start(home: Home, order: Order, child: Worker, child_runtime: ChildRuntime) -> str:
    if order.tmux:
        return open_pane(home.layout.root, child, order.tmux, home.environ)
    environment = child_environment(home.environ, child_runtime, home.layout.root, child.id)
    start_launcher(home, child.id, environment)
    return ""


def _fail(home: Home, child: str, reason: str) -> None:
    """Make a child FAILED that could not be started: no process runs that would report it.

    Errors are ignored: `gc` ends the child later.
    """
    from vyane_cli.children.result import settle_child

    report = Report(Ending.ERROR, "", f"it could not be started: {reason}")
    try:
        settle_child(home, child, report)
    except VyaneError:
        return


def find_parent(home: Home, who: str) -> str:
    """Return the id of the parent: the named worker, or the worker that runs this command.

    Only the person may name another worker as the parent. Raises InvalidInputError without a name
    outside of a worker's session.
    """
    speaker = whoami(home)
    workers = registry.Registry(home.layout)
    if who:
        parent = find_worker(who, workers.listing())
        if parent.id != speaker.id:
            require_person(home, speaker, "spawn a child of another worker")
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


def link_child(home: Home, order: Order, parent_id: str, child_runtime: ChildRuntime) -> SpawnPlan:
    """Write every record of a child, the registry last. Returns the plan.

    Raises ConflictError when the parent has ended or the name is taken. A kill before the write
    of the registry leaves documents that no record names.
    """
    layout = home.layout
    with home.held((LockKind.REGISTRY, "")):
        workers = registry.Registry(layout)
        parent = workers.workers[parent_id]
        check_parent(parent)
        taken = [worker.name for worker in workers.listing()]
        if order.name.casefold() in {name.casefold() for name in taken}:
            raise ConflictError(f"{order.name} is a worker already", hint="choose another name")
        clock = home.clock()
        known = _head(home, parent)
        fresh = Fresh(
            worker=order.worker or _free_id(home, workers),
            logical_session=logical_session_id(home.entropy(6)),
            dispatch=home.new_id(clock.now_ms),
            trace=known.epoch if known is not None else home.entropy(16).hex(),
            at=clock.at,
        )
        context = _context(home, parent) if order.inherit_context else ""
        span = span_id(known.open.id) if known is not None and known.open is not None else ""
        plan = plan_spawn(order, parent, taken, context, fresh, span)
        if order.tmux:
            report = home.templates.fill("interactive")
            plan = plan._replace(prompt=f"{plan.prompt}\n\n{report}")
        with files.before_commit():
            _share_trace(home, plan)
            registry.save_logical_session(layout, plan.logical)
            launches.save_prompt(layout, plan.child.id, plan.prompt)
            launches.save(layout, _launch(home, plan, child_runtime, clock, order.tmux))
        with files.before_commit(), home.held((LockKind.INBOX, plan.child.id)):
            inbox.append(layout.inbox(plan.child.id), layout.root, plan.dispatch, clock)
        workers.put(plan.parent)
        workers.put(plan.child)
        workers.save()
    return plan


def _free_id(home: Home, workers: registry.Registry) -> str:
    while True:
        candidate = worker_id(home.entropy(6))
        left = home.layout.inbox(candidate)  # may be left by a kill before the commit point
        if candidate not in workers.workers and not os.path.exists(left):
            return candidate


def _launch(
    home: Home, plan: SpawnPlan, child_runtime: ChildRuntime, clock: Clock, place: str
) -> launches.Launch:
    layout, child = home.layout, plan.child
    session = _session_id(home.entropy(16))
    command = child_runtime.interactive if place else child_runtime.spawn
    values = {
        "prompt_file": layout.prompt(child.id),
        "prompt": plan.prompt,
        "session_id": session,
        "cwd": child.cwd,
        "worker": child.id,
    }
    return launches.Launch(
        worker=child.id,
        dispatch=plan.dispatch.id,
        command=fill(command, values),
        cwd=child.cwd,
        session=session,
        hooks=child_runtime.hooks,
        stdin=not place and not takes_prompt(command),
        at=clock.at,
        boot=clock.boot,
        awake_ms=clock.awake_ms,
    )


def _session_id(entropy: bytes) -> str:
    """Return a random UUID: hosts accept only this form for a session id that they are given."""
    import uuid

    return str(uuid.UUID(bytes=entropy, version=4))


def _context(home: Home, parent: Worker) -> str:
    """Return the context that the child inherits, with the last turns of the parent's timeline.

    A damaged timeline gives no turns.
    """
    head = home.templates.fill("inherited", parent=parent.name, cwd=parent.cwd or "?")
    path = home.layout.timeline(parent.logical_session_id)
    events: list[dict[str, Any]] = []
    try:
        known = log.read_head(path)
        if known is not None:
            first = max(known.turns - CONTEXT_TURNS, 1)
            events = [event for _, event in log.read(path, log.offset_of_turn(path, first))]
    except VyaneError:
        events = []
    return inherited_context(head, home.templates.fill("inherited-turns"), events)


def _head(home: Home, parent: Worker) -> TimelineHead | None:
    """Return the head of the parent's timeline; None when it is missing or damaged."""
    try:
        return log.read_head(home.layout.timeline(parent.logical_session_id))
    except VyaneError:
        return None


def _share_trace(home: Home, plan: SpawnPlan) -> None:
    """Save the trace in the parent's session, so that the parent's later events carry it too.

    A crash after the save leaves a trace with one member.
    """
    session = registry.current_session(home.layout, plan.parent.id)
    if session is not None and session.trace != plan.parent.trace_id:
        registry.save_session(home.layout, session._replace(trace=plan.parent.trace_id))
