"""Cancels: stop a worker and every worker that it spawned.

The plan is frozen, the messages are sent, then the outcome of each worker is awaited.

Commit point: the plan in `queue/cancels/`, under the registry's lock. After a kill at any later
step the same command finishes the cancel: the message ids belong to the plan, so no worker is
sent a message twice.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vyane_cli.children import launches
from vyane_cli.children.cancel_rules import (
    OUTCOMES,
    Cancel,
    CancelOutcome,
    is_above,
    mark_asked,
    mark_settled,
    parse_cancel,
    plan_reach,
    render_cancel,
)
from vyane_cli.children.result import settle_child
from vyane_cli.children.result_rules import CANCELLED, Ending, Report
from vyane_cli.errors import ConflictError, InvalidInputError, NotFoundError, RefusedError
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.kernel.process import Process
from vyane_cli.mail import inbox
from vyane_cli.mail.enqueue import Target, is_stored, store
from vyane_cli.mail.lookup import find_message
from vyane_cli.mail.message import (
    Lane,
    Message,
    MessageKind,
    MessageStatus,
    Relation,
    ToKind,
    default_ttl_s,
    first_line,
)
from vyane_cli.sessions import registry
from vyane_cli.sessions.authority import claim_kind, require_person
from vyane_cli.sessions.facts import append_fact
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.liveness import look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.sessions.worker import Worker, find_worker
from vyane_cli.storage import document, files, journal, processes
from vyane_cli.storage.layout import Layout
from vyane_cli.storage.locks import LockKind
from vyane_cli.timeline.events import EventKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home
    from vyane_cli.sessions.speaker import Speaker


KILL_AFTER_S = 5.0
LOOK_EVERY_S = 0.1
WAIT_MAX_S = 3600.0
REASON_MAX = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelReport:
    """The state of a cancel, in the form for programs."""

    worker_id: str
    children_cancelled: tuple[str, ...]
    force: bool
    skipped: tuple[str, ...]
    """Ids of independent children, which a cancel leaves alone."""
    outcomes: Mapping[str, str]
    """Worker id → outcome (`CancelOutcome`)."""
    operation: str


class Cancelled(NamedTuple):
    """A cancel with its outcomes so far, and worker id → name of all known workers."""

    cancel: Cancel
    names: dict[str, str]

    @property
    def unknown(self) -> list[str]:
        """Return the ids of the workers whose outcome is not yet known."""
        return [
            m for m, outcome in self.cancel.outcomes.items() if outcome == CancelOutcome.UNKNOWN
        ]

    @property
    def incomplete(self) -> bool:
        """Return whether a worker of the cancel may still run."""
        left = (CancelOutcome.UNKNOWN, CancelOutcome.REFUSED)
        return any(outcome in left for outcome in self.cancel.outcomes.values())

    @property
    def report(self) -> CancelReport:
        """Return the state of the cancel in the form for programs."""
        plan = self.cancel
        return CancelReport(
            worker_id=plan.root,
            children_cancelled=tuple(one for one in plan.messages if one != plan.root),
            force=plan.force,
            skipped=plan.skipped,
            outcomes=plan.outcomes,
            operation=plan.operation,
        )


def cancel(
    home: Home,
    who: str,
    *,
    reason: str = "",
    force: bool = False,
    propagate: bool = True,
    wait_s: float = 5.0,
    operation: str = "",
    from_kind: str | None = None,
    speaker: Speaker | None = None,
) -> Cancelled:
    """Ask a worker and its descendants to stop, and wait at most `wait_s` for their outcomes.

    Raises RefusedError unless the person or an ancestor of the worker asks; ConflictError when
    the worker has ended, or when another operation already cancels it and is not settled.
    """
    if operation and not is_safe_id(operation):
        raise InvalidInputError("operation", operation, "an id: 1 to 128 of A-Z, a-z, 0-9, _ and -")
    if not 0 <= wait_s <= WAIT_MAX_S:
        raise InvalidInputError("wait", wait_s, "between 0 and an hour")
    if len(reason) > REASON_MAX:
        raise InvalidInputError("reason", reason, f"at most {REASON_MAX} characters")
    speaker = claim_kind(home, from_kind, speaker or whoami(home))
    workers = registry.Registry(home.layout)
    root = find_worker(who, workers.listing())
    _check_authority(home, speaker, root, workers)
    asked = Cancel(
        operation=operation,
        root=root.id,
        at=0.0,
        by_kind=str(speaker.kind),
        by_id=speaker.id,
        by_name=speaker.name,
        reason=reason,
        force=force,
        propagate=propagate,
    )
    plan, resumed = _freeze(home, asked)
    told = 0
    while told < len(plan.messages):  # children registered meanwhile are cancelled too
        _tell(home, plan, list(plan.messages)[told:], resumed=resumed)
        told = len(plan.messages)
        plan = _extend(home, plan)
    if force:
        _signal(home, plan)
    plan = _await(home, plan, time.monotonic() + wait_s, resumed=resumed)
    names = {worker.id: worker.name for worker in registry.Registry(home.layout).listing()}
    return Cancelled(plan, names)


def _check_authority(
    home: Home, speaker: Speaker, root: Worker, workers: registry.Registry
) -> None:
    if speaker.kind is FromKind.HUMAN:
        return
    if speaker.kind is FromKind.WORKER and is_above(speaker.id, root, workers.workers):
        return
    require_person(home, speaker, f"cancel {root.name}, which is not below it")
    if not speaker.in_host:
        raise RefusedError(
            "a worker is cancelled by its parent or by the person",
            slug="direction",
            hint="a person's own script says --from-kind human",
        )


# ------------------------------------------------------------------ the plan


def _freeze(home: Home, asked: Cancel) -> tuple[Cancel, bool]:
    """Save the plan before any message is sent. Return it, and whether it existed already."""
    layout = home.layout
    with home.held((LockKind.REGISTRY, "")):
        known = load(layout, asked.operation) if asked.operation else None
        if known is not None and known.root != asked.root:
            raise ConflictError(f"operation {asked.operation} cancels {known.root}")
        other = known or unsettled(layout, asked.root)
        if other is not None:
            if asked.operation not in ("", other.operation):
                raise ConflictError(
                    f"{asked.root} is being cancelled by operation {other.operation}",
                    slug="cancel_unsettled",
                    hint=f"go on with it: --operation {other.operation}",
                )
            _mark_asked(home, other)
            return other._replace(force=asked.force or other.force), True
        workers = registry.Registry(layout)
        if workers.workers[asked.root].final:
            root = workers.workers[asked.root]
            raise ConflictError(f"{root.name} has ended ({root.status})")
        clock = home.clock()
        operation = asked.operation or home.new_id(clock.now_ms)
        reach = plan_reach(asked.root, workers.workers, propagate=asked.propagate)
        plan = asked._replace(
            operation=operation,
            at=clock.at,
            messages={member: home.new_id(clock.now_ms) for member in reach.members},
            skipped=reach.skipped,
            outcomes=dict.fromkeys(reach.members, str(CancelOutcome.UNKNOWN)),
        )
        save(layout, plan)
        _mark_asked(home, plan)
    return plan, False


def _mark_asked(home: Home, plan: Cancel) -> None:
    """Note the cancel in each unsettled member's record. The caller holds the registry lock."""
    workers = registry.Registry(home.layout)
    changed = False
    for member, outcome in plan.outcomes.items():
        worker = workers.workers.get(member) if outcome == CancelOutcome.UNKNOWN else None
        if worker is not None and not worker.final and not worker.cancel_propagated_from:
            workers.put(mark_asked(worker, plan))
            changed = True
    if changed:
        workers.save()


def _extend(home: Home, plan: Cancel) -> Cancel:
    """Add the children registered since to the plan, and save it before any message to them.

    Returns the plan.
    """
    workers = registry.Registry(home.layout)
    reach = plan_reach(plan.root, workers.workers, propagate=plan.propagate)
    late = [member for member in reach.members if member not in plan.messages]
    if not late or plan.settled:
        return plan
    with home.held((LockKind.REGISTRY, "")):
        now_ms = home.clock().now_ms
        plan = plan._replace(
            messages={**plan.messages, **{member: home.new_id(now_ms) for member in late}},
            outcomes={**plan.outcomes, **dict.fromkeys(late, str(CancelOutcome.UNKNOWN))},
        )
        save(home.layout, plan)
        _mark_asked(home, plan)
    return plan


# ------------------------------------------------------------------ messages


def _tell(home: Home, plan: Cancel, members: Sequence[str], *, resumed: bool) -> None:
    """Send each member its cancel message, children first, after its fact in the timeline.

    A resumed cancel skips a message or fact that is already stored.
    """
    workers = registry.Registry(home.layout)
    for member in members:
        worker = workers.workers.get(member)
        if worker is None or plan.outcomes.get(member) != CancelOutcome.UNKNOWN:
            continue
        message = _message(plan, worker)
        target = Target(
            kind=ToKind.WORKER,
            id=worker.id,
            path=home.layout.inbox(worker.id),
            worker=worker.id,
            logical_session=worker.logical_session_id,
            relation=Relation.PARENT,
            lock=worker.id,
            name=worker.name,
        )
        noted = False
        if resumed:
            if is_stored(home, target, message):
                continue
            path = home.layout.timeline(worker.logical_session_id)
            noted = journal.has_record(path, b'"message_id":"%s"' % message.id.encode())
        store(home, target, message, home.clock(), noted=noted)


def _message(plan: Cancel, worker: Worker) -> Message:
    return Message(
        plan.messages[worker.id],
        plan.at,
        default_ttl_s(MessageKind.CANCEL),
        FromKind(plan.by_kind),
        plan.by_id,
        plan.by_name,
        ToKind.WORKER,
        worker.id,
        MessageKind.CANCEL,
        Lane.CONTROL,
        first_line(plan.reason),
        {"reason": plan.reason or "cancelled", "force": plan.force},
        trace_id=worker.trace_id,
        correlation_id=plan.operation,
    )


# ------------------------------------------------------------------ force


def _signal(home: Home, plan: Cancel) -> None:
    """Send TERM, and KILL after 5 s, only to processes proven to be those of the members."""
    workers = registry.Registry(home.layout)
    known = [workers.workers[member] for member in plan.messages if member in workers.workers]
    found = [process for worker in known if (process := _process_of(home, worker)) is not None]
    left = [process for process in found if processes.send_signal(process, signal.SIGTERM)]
    until = time.monotonic() + KILL_AFTER_S
    while left and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)
        left = [process for process in left if processes.is_present(process) is True]
    for process in left:
        processes.send_signal(process, signal.SIGKILL)


def _process_of(home: Home, worker: Worker) -> Process | None:
    """Return the recorded process of the worker's session, else the process of its launch."""
    session = registry.current_session(home.layout, worker.id)
    if session is not None:
        return session.process
    launch = launches.load(home.layout, worker.id)
    return launch.process if launch is not None else None


# ------------------------------------------------------------------ outcomes


def _await(home: Home, plan: Cancel, until: float, *, resumed: bool) -> Cancel:
    """Poll until each outcome is known or `until` (monotonic seconds) has passed, then save them.

    Returns the plan with the outcomes.
    """
    found = dict(plan.outcomes)
    while True:
        workers = registry.Registry(home.layout).workers
        for member in plan.messages:
            if found[member] == CancelOutcome.UNKNOWN:
                found[member] = str(_outcome(home, plan, workers.get(member)))
        if CancelOutcome.UNKNOWN not in found.values() or time.monotonic() >= until:
            break
        time.sleep(LOOK_EVERY_S)
    return _settle(home, plan, found, resumed=resumed)


def _outcome(home: Home, plan: Cancel, worker: Worker | None) -> CancelOutcome:
    """Return the outcome of one member, from its liveness and the status of its cancel message."""
    if worker is None:
        return CancelOutcome.GONE
    if worker.final:  # it ended by itself, or an earlier run settled it before a kill
        return _noted(home, plan, worker.logical_session_id) or CancelOutcome.GONE
    seen = look(home, worker)
    liveness = seen.liveness
    if seen.session is None:
        launch = launches.load(home.layout, worker.id)
        if launch is not None and launch.process is not None:
            gone = processes.is_present(launch.process) is False
            liveness = Liveness.EXITED if gone else Liveness.UNKNOWN
    elif liveness is Liveness.IDLE and not seen.session.attended:
        liveness = Liveness.UNKNOWN  # unattended: it will soon begin a turn or end
    if plan.force and liveness in (Liveness.BUSY, Liveness.IDLE):
        return CancelOutcome.UNKNOWN  # its process was to be ended and still runs
    return OUTCOMES[liveness][_status(home, plan.messages[worker.id], worker)]


def _status(home: Home, message_id: str, worker: Worker) -> MessageStatus:
    entry = inbox.read(home.layout.inbox(worker.id)).mailbox.find(message_id)
    if entry is not None:
        return entry.status
    try:
        return find_message(home, message_id).entry.status
    except NotFoundError:
        return MessageStatus.PENDING


def _settle(home: Home, plan: Cancel, found: dict[str, str], *, resumed: bool) -> Cancel:
    """Save the new outcomes: in the timelines, then the registry, then the plan.

    Each step can be repeated without harm. Returns the plan.
    """
    layout, clock = home.layout, home.clock()
    fresh = {
        member: CancelOutcome(outcome)
        for member, outcome in found.items()
        if outcome != CancelOutcome.UNKNOWN and plan.outcomes[member] == CancelOutcome.UNKNOWN
    }
    workers = registry.Registry(layout).workers
    for member, outcome in fresh.items():
        worker = workers.get(member)
        if worker is not None:
            _note(home, plan, worker, outcome, resumed=resumed)
    root = workers.get(plan.root)
    ended = fresh.get(plan.root) in (CancelOutcome.STOPPED, CancelOutcome.GONE)
    if root is not None and root.dispatch_id and not root.final and ended:
        try:  # only the root's parent goes on: it is sent one result
            settle_child(home, root.id, Report(Ending.CANCELLED, plan.reason, CANCELLED))
        except ConflictError:
            pass  # the worker has just reported by itself
    with home.held((LockKind.REGISTRY, "")):
        book = registry.Registry(layout)
        after = [
            mark_settled(book.workers[member], outcome, clock.at)
            for member, outcome in fresh.items()
            if member in book.workers
        ]
        changed = [worker for worker in after if worker != book.workers[worker.id]]
        for worker in changed:
            book.put(worker)
        if changed:
            book.save()
        plan = plan._replace(outcomes=found, settled=CancelOutcome.UNKNOWN not in found.values())
        save(layout, plan)
    return plan


def _note(
    home: Home, plan: Cancel, worker: Worker, outcome: CancelOutcome, *, resumed: bool
) -> None:
    logical = worker.logical_session_id
    if not logical or (resumed and _noted(home, plan, logical) is not None):
        return
    fact: dict[str, Any] = {
        "operation": plan.operation,
        "outcome": str(outcome),
        "message_id": plan.messages[worker.id],
    }
    with home.held((LockKind.TIMELINE, logical)):
        kind = EventKind.CANCEL_SETTLED
        append_fact(home, worker.id, logical, kind, fact, home.clock())


def _noted(home: Home, plan: Cancel, logical: str) -> CancelOutcome | None:
    """Return the outcome of this cancel that the timeline records, or None."""
    for line in journal.read(home.layout.timeline(logical)) if logical else ():
        if line.record is not None and line.record.get("kind") == EventKind.CANCEL_SETTLED:
            payload = line.record.get("payload") or {}
            if payload.get("operation") == plan.operation:
                return CancelOutcome(str(payload.get("outcome")))
    return None


def load(layout: Layout, operation: str) -> Cancel | None:
    """Load the cancel with this operation id. Returns None when it does not exist."""
    return document.load_as(layout.cancel(operation), parse_cancel, "cancel")


def save(layout: Layout, cancel: Cancel) -> None:
    """Save a cancel. The document is durable on return."""
    document.save(layout.cancel(cancel.operation), render_cancel(cancel), layout.root)


def unsettled(layout: Layout, root: str) -> Cancel | None:
    """Return the cancel of this root that is not settled, or None."""
    for name in files.json_names(layout("queue", "cancels")):
        found = load(layout, name)
        if found is not None and found.root == root and not found.settled:
            return found
    return None
