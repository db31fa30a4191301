"""Link: the records of a new child, its parent's link to it among them, in one commit point."""

from __future__ import annotations

import os
from typing import Any

from vyane_cli.children import launches
from vyane_cli.children.order import (
    CONTEXT_TURNS,
    Fresh,
    Order,
    SpawnPlan,
    check_parent,
    inherited_context,
    plan_spawn,
)
from vyane_cli.errors import ConflictError, VyaneError
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.ids import logical_session_id, span_id, worker_id
from vyane_cli.kernel.runtimes import ChildRuntime, fill, takes_prompt
from vyane_cli.mail import inbox
from vyane_cli.sessions import registry
from vyane_cli.sessions.facts import present_session
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import files
from vyane_cli.storage.locks import Kind
from vyane_cli.timeline import log
from vyane_cli.timeline.turns import TimelineHead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


def link_child(
    runtime: Runtime, order: Order, parent_id: str, child_runtime: ChildRuntime
) -> SpawnPlan:
    """Write every record of a child, the registry last. ConflictError when it may not be.

    A kill before the registry leaves documents that nothing names.
    """
    layout = runtime.layout
    with runtime.held((Kind.REGISTRY, "")):
        workers = registry.Registry(layout)
        parent = workers.workers[parent_id]
        check_parent(parent)
        taken = [worker.name for worker in workers.listing()]
        if order.name.casefold() in {name.casefold() for name in taken}:
            raise ConflictError(f"{order.name} is a worker already", hint="choose another name")
        clock = runtime.clock()
        known = _head(runtime, parent)
        fresh = Fresh(
            order.worker or _free_id(runtime, workers),
            logical_session_id(runtime.entropy(6)),
            runtime.new_id(clock.now_ms),
            known.epoch if known is not None else runtime.entropy(16).hex(),
            clock.at,
        )
        context = _context(runtime, parent) if order.inherit_context else ""
        span = span_id(known.open.id) if known is not None and known.open is not None else ""
        plan = plan_spawn(order, parent, taken, context, fresh, span)
        if order.tmux:
            report = runtime.templates.fill("interactive")
            plan = plan._replace(prompt=f"{plan.prompt}\n\n{report}")
        with files.before_commit():
            _share_trace(runtime, plan)
            registry.save_logical_session(layout, plan.logical)
            launches.save_prompt(layout, plan.child.id, plan.prompt)
            launches.save(layout, _launch(runtime, plan, child_runtime, clock, order.tmux))
        with files.before_commit(), runtime.held((Kind.INBOX, plan.child.id)):
            inbox.append(layout.inbox(plan.child.id), layout.root, plan.dispatch, clock)
        workers.put(plan.parent)
        workers.put(plan.child)
        workers.save()
    return plan


def _free_id(runtime: Runtime, workers: registry.Registry) -> str:
    while True:
        candidate = worker_id(runtime.entropy(6))
        left = runtime.layout.inbox(candidate)  # what a kill before the commit point left
        if candidate not in workers.workers and not os.path.exists(left):
            return candidate


def _launch(
    runtime: Runtime, plan: SpawnPlan, child_runtime: ChildRuntime, clock: Clock, place: str
) -> launches.Launch:
    layout, child = runtime.layout, plan.child
    session = _session_id(runtime.entropy(16))
    command = child_runtime.interactive if place else child_runtime.spawn
    values = {
        "prompt_file": layout.prompt(child.id),
        "prompt": plan.prompt,
        "session_id": session,
        "cwd": child.cwd,
        "worker": child.id,
    }
    return launches.Launch(
        child.id,
        plan.dispatch.id,
        fill(command, values),
        child.cwd,
        session,
        child_runtime.hooks,
        not place and not takes_prompt(command),
        clock.at,
        boot=clock.boot,
        awake_ms=clock.awake_ms,
    )


def _session_id(entropy: bytes) -> str:
    """A random UUID: hosts take no other form for an id that they are given."""
    import uuid

    return str(uuid.UUID(bytes=entropy, version=4))


def _context(runtime: Runtime, parent: Worker) -> str:
    """What the child inherits, from the parent's timeline; one that is damaged gives nothing."""
    head = runtime.templates.fill("inherited", parent=parent.name, cwd=parent.cwd or "?")
    path = runtime.layout.timeline(parent.logical_session_id)
    events: list[dict[str, Any]] = []
    try:
        known = log.read_head(path)
        if known is not None:
            first = max(known.turns - CONTEXT_TURNS, 1)
            events = [event for _, event in log.read(path, log.offset_of_turn(path, first))]
    except VyaneError:
        events = []
    return inherited_context(head, runtime.templates.fill("inherited-turns"), events)


def _head(runtime: Runtime, parent: Worker) -> TimelineHead | None:
    """The parent's timeline as it stands; None without one, or when it is damaged."""
    try:
        return log.read_head(runtime.layout.timeline(parent.logical_session_id))
    except VyaneError:
        return None


def _share_trace(runtime: Runtime, plan: SpawnPlan) -> None:
    """The parent's further events carry the trace too. A crash after it leaves a trace of one."""
    session = present_session(runtime, plan.parent.id)
    if session is not None and session.trace != plan.parent.trace_id:
        registry.save_session(runtime.layout, session._replace(trace=plan.parent.trace_id))
