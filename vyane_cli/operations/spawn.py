"""Spawn: a child worker with its own logical session, linked to its parent in one commit point.

Commit point: the registry, written last, with the child and its link in one write. A kill before
it leaves documents that nothing names; a kill after it leaves a child that is fully linked and
PENDING, which `wait` and `gc` make FAILED when no launcher stands behind it.
"""

import os
from typing import Any

from vyane_cli.core import turns
from vyane_cli.core.events import EventKind
from vyane_cli.core.ids import logical_session_id, span_id, worker_id
from vyane_cli.core.messages import FromKind
from vyane_cli.core.results import Ending, Report
from vyane_cli.core.runtimes import (
    ChildRuntime,
    child_environment,
    fill,
    find_runtime,
    takes_prompt,
)
from vyane_cli.core.sessions import HostSession
from vyane_cli.core.spawning import (
    CONTEXT_TURNS,
    Fresh,
    Order,
    SpawnPlan,
    check_order,
    check_parent,
    inherited_context,
    plan_spawn,
)
from vyane_cli.core.turns import Clock
from vyane_cli.core.workers import Worker, find_worker
from vyane_cli.errors import ConflictError, InvalidInputError, StorageError, VyaneError
from vyane_cli.operations.identity import require_person, whoami
from vyane_cli.operations.launch import start_launcher
from vyane_cli.operations.register import check_name
from vyane_cli.store import inbox, launches, registry, timeline
from vyane_cli.store.locks import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.runtime import Runtime


def spawn(runtime: "Runtime", order: Order) -> Worker:
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
    child_runtime = find_runtime(order.runtime, runtime.config.runtimes)
    parent_id = find_parent(runtime, order.parent)
    plan = _commit(runtime, order, parent_id, child_runtime)
    try:
        note_in_timeline(runtime, plan.parent, EventKind.CHILD_SPAWNED, plan.event)
    except VyaneError:
        pass  # the registry has the link; a parent's damaged timeline holds up no child
    environment = child_environment(
        runtime.environ, child_runtime, runtime.layout.root, plan.child.id
    )
    try:
        start_launcher(runtime, plan.child.id, environment)
    except StorageError as error:
        _fail(runtime, plan.child.id, error.message)
        raise
    return plan.child


def _fail(runtime: "Runtime", child: str, reason: str) -> None:
    """Nothing runs that would say so: the child has failed. If that fails too, `gc` does it."""
    from vyane_cli.operations.results import settle_child

    report = Report(Ending.ERROR, "", f"it could not be started: {reason}")
    try:
        settle_child(runtime, child, report)
    except VyaneError:
        return


def find_parent(runtime: "Runtime", who: str) -> str:
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
        hint="--parent NAME; `vyane workers` lists them",
    )


def _commit(
    runtime: "Runtime", order: Order, parent_id: str, child_runtime: ChildRuntime
) -> SpawnPlan:
    layout = runtime.layout
    with runtime.held((Kind.REGISTRY, "")):
        workers = registry.Registry(layout)
        parent = workers.workers[parent_id]
        check_parent(parent)
        taken = [worker.name for worker in workers.listing()]
        if order.name.casefold() in {name.casefold() for name in taken}:
            raise ConflictError(f"{order.name} is a worker already", hint="choose another name")
        clock = runtime.clock()
        fresh = Fresh(
            _free_id(runtime, workers),
            logical_session_id(runtime.entropy(6)),
            runtime.new_id(clock.now_ms),
            runtime.entropy(16).hex(),
            clock.at,
        )
        context = _context(runtime, parent) if order.inherit_context else ""
        plan = plan_spawn(order, parent, taken, context, fresh, _open_span(runtime, parent))
        _share_trace(runtime, plan)
        registry.save_logical_session(layout, plan.logical)
        launches.save_prompt(layout, plan.child.id, plan.prompt)
        launches.save(layout, _launch(runtime, plan, child_runtime, clock))
        with runtime.held((Kind.INBOX, plan.child.id)):
            inbox.append(layout.inbox(plan.child.id), layout.root, plan.dispatch, clock)
        workers.put(plan.parent)
        workers.put(plan.child)
        workers.save()
    return plan


def _free_id(runtime: "Runtime", workers: registry.Registry) -> str:
    while True:
        candidate = worker_id(runtime.entropy(6))
        left = runtime.layout.inbox(candidate)  # what a kill before the commit point left
        if candidate not in workers.workers and not os.path.exists(left):
            return candidate


def _launch(
    runtime: "Runtime", plan: SpawnPlan, child_runtime: ChildRuntime, clock: Clock
) -> launches.Launch:
    layout, child = runtime.layout, plan.child
    session = _session_id(runtime.entropy(16))
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
        fill(child_runtime.spawn, values),
        child.cwd,
        session,
        child_runtime.hooks,
        not takes_prompt(child_runtime.spawn),
        clock.at,
    )


def _session_id(entropy: bytes) -> str:
    """A random UUID: hosts take no other form for an id that they are given."""
    import uuid

    return str(uuid.UUID(bytes=entropy, version=4))


def _context(runtime: "Runtime", parent: Worker) -> str:
    """What the child inherits, from the parent's timeline; one that is damaged gives nothing."""
    head = runtime.templates.fill("inherited", parent=parent.name, cwd=parent.cwd or "?")
    path = runtime.layout.timeline(parent.logical_session_id)
    events: list[dict[str, Any]] = []
    try:
        known = timeline.read_head(path)
        if known is not None:
            first = max(known.turns - CONTEXT_TURNS, 1)
            events = [
                event for _, event in timeline.read(path, timeline.offset_of_turn(path, first))
            ]
    except VyaneError:
        events = []
    return inherited_context(head, events)


def _open_span(runtime: "Runtime", parent: Worker) -> str:
    """The span of the parent's open turn."""
    try:
        known = timeline.read_head(runtime.layout.timeline(parent.logical_session_id))
    except VyaneError:
        return ""
    return span_id(known.open.id) if known is not None and known.open is not None else ""


def _share_trace(runtime: "Runtime", plan: SpawnPlan) -> None:
    """The parent's further events carry the trace too. A crash after it leaves a trace of one."""
    session = present_session(runtime, plan.parent.id)
    if session is not None and session.trace != plan.parent.trace_id:
        registry.save_session(runtime.layout, session._replace(trace=plan.parent.trace_id))


def present_session(runtime: "Runtime", worker: str) -> HostSession | None:
    """The worker's present host session, if it has one."""
    session_id = registry.read_current(runtime.layout, worker)
    return registry.load_session(runtime.layout, session_id) if session_id else None


def note_in_timeline(
    runtime: "Runtime", worker: Worker, kind: EventKind, payload: "dict[str, Any] | Any"
) -> None:
    """Append one event to a worker's timeline, in its open turn if there is one."""
    layout, logical = runtime.layout, worker.logical_session_id
    if not logical:
        return
    session = present_session(runtime, worker.id)
    span = session.parent_span if session is not None else worker.span_id
    identity = timeline.Identity(logical, worker.id, worker.trace_id, span)
    with runtime.held((Kind.TIMELINE, logical)):
        opened = timeline.Timeline(
            layout.timeline(logical), layout.root, identity, runtime.entropy(16).hex()
        )
        try:
            state = turns.Transition(opened.head)
            opened.commit(turns.emit(state, kind, payload, runtime.clock()))
        finally:
            opened.close()
