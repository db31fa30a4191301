"""Cancel: a worker and all that it spawned. Frozen first, then told, then looked at until known.

Commit point: the plan in `queue/cancels/`, under the registry's lock. What a kill leaves at any
later step is finished by the same command: message ids are the plan's, so nobody is told twice.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vyane_cli.children import cancels, launches
from vyane_cli.children.cancel_rules import (
    OUTCOMES,
    Cancel,
    Outcome,
    is_above,
    mark_asked,
    mark_settled,
    plan_reach,
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
    Kind,
    Lane,
    Message,
    Relation,
    Status,
    ToKind,
    default_ttl_s,
    first_line,
)
from vyane_cli.sessions import registry
from vyane_cli.sessions.facts import append_fact
from vyane_cli.sessions.identity import claim_kind, require_person, whoami
from vyane_cli.sessions.liveness import look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.sessions.worker import Worker, find_worker
from vyane_cli.storage import journal, processes
from vyane_cli.storage.locks import Kind as LockKind
from vyane_cli.timeline.events import EventKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime
    from vyane_cli.sessions.speaker import Speaker

KILL_AFTER_S = 5.0
LOOK_EVERY_S = 0.1
WAIT_MAX_S = 3600.0
REASON_MAX = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelReport:
    """A cancel as programs see it."""

    worker_id: str
    children_cancelled: tuple[str, ...]
    force: bool
    skipped: tuple[str, ...]
    """Independent children, which a cancel leaves alone."""
    outcomes: Mapping[str, str]
    """Of each worker, by its id."""
    operation: str


class Cancelled(NamedTuple):
    """What came of a cancel so far."""

    cancel: Cancel
    names: dict[str, str]

    @property
    def unknown(self) -> list[str]:
        """Who has not answered."""
        return [m for m, outcome in self.cancel.outcomes.items() if outcome == Outcome.UNKNOWN]

    @property
    def incomplete(self) -> bool:
        """Whether somebody may still run."""
        left = (Outcome.UNKNOWN, Outcome.REFUSED)
        return any(outcome in left for outcome in self.cancel.outcomes.values())

    @property
    def report(self) -> CancelReport:
        """The same for programs."""
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
    runtime: Runtime,
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
    """Ask a worker and its descendants to stop; wait until each outcome is known or time is up.

    RefusedError for anybody but the person and the worker's own ancestors; ConflictError when it
    has ended, or when another operation cancels it and is not settled.
    """
    if operation and not is_safe_id(operation):
        raise InvalidInputError("operation", operation, "an id: 1 to 128 of A-Z, a-z, 0-9, _ and -")
    if not 0 <= wait_s <= WAIT_MAX_S:
        raise InvalidInputError("wait", wait_s, "between 0 and an hour")
    if len(reason) > REASON_MAX:
        raise InvalidInputError("reason", reason, f"at most {REASON_MAX} characters")
    speaker = claim_kind(runtime, from_kind, speaker or whoami(runtime))
    workers = registry.Registry(runtime.layout)
    root = find_worker(who, workers.listing())
    _check_authority(runtime, speaker, root, workers)
    asked = Cancel(
        operation, root.id, 0.0, str(speaker.kind), speaker.id, speaker.name, reason, force,
        propagate,
    )  # fmt: skip
    plan, resumed = _freeze(runtime, asked)
    told = 0
    while told < len(plan.messages):  # children that were registered meanwhile inherit it
        _tell(runtime, plan, list(plan.messages)[told:], resumed=resumed)
        told = len(plan.messages)
        plan = _extend(runtime, plan)
    if force:
        _signal(runtime, plan)
    plan = _await(runtime, plan, time.monotonic() + wait_s, resumed=resumed)
    names = {worker.id: worker.name for worker in registry.Registry(runtime.layout).listing()}
    return Cancelled(plan, names)


def _check_authority(
    runtime: Runtime, speaker: Speaker, root: Worker, workers: registry.Registry
) -> None:
    if speaker.kind is FromKind.HUMAN:
        return
    if speaker.kind is FromKind.WORKER and is_above(speaker.id, root, workers.workers):
        return
    require_person(runtime, speaker, f"cancel {root.name}, which is not below it")
    if not speaker.in_host:
        raise RefusedError(
            "a worker is cancelled by its parent or by the person",
            slug="direction",
            hint="a person's own script says --from-kind human",
        )


# ------------------------------------------------------------------ the plan


def _freeze(runtime: Runtime, asked: Cancel) -> tuple[Cancel, bool]:
    """The plan, on disk before anybody is told; and whether it was there already."""
    layout = runtime.layout
    with runtime.held((LockKind.REGISTRY, "")):
        known = cancels.load(layout, asked.operation) if asked.operation else None
        if known is not None and known.root != asked.root:
            raise ConflictError(f"operation {asked.operation} cancels {known.root}")
        other = known or cancels.unsettled(layout, asked.root)
        if other is not None:
            if asked.operation not in ("", other.operation):
                raise ConflictError(
                    f"{asked.root} is being cancelled by operation {other.operation}",
                    slug="cancel_unsettled",
                    hint=f"go on with it: --operation {other.operation}",
                )
            _mark_asked(runtime, other)
            return other._replace(force=asked.force or other.force), True
        workers = registry.Registry(layout)
        if workers.workers[asked.root].final:
            root = workers.workers[asked.root]
            raise ConflictError(f"{root.name} has ended ({root.status})")
        clock = runtime.clock()
        operation = asked.operation or runtime.new_id(clock.now_ms)
        reach = plan_reach(asked.root, workers.workers, propagate=asked.propagate)
        plan = asked._replace(
            operation=operation,
            at=clock.at,
            messages={member: runtime.new_id(clock.now_ms) for member in reach.members},
            skipped=reach.skipped,
            outcomes=dict.fromkeys(reach.members, str(Outcome.UNKNOWN)),
        )
        cancels.save(layout, plan)
        _mark_asked(runtime, plan)
    return plan, False


def _mark_asked(runtime: Runtime, plan: Cancel) -> None:
    """The record of each member that is not settled names the cancel. Under the registry's lock."""
    workers = registry.Registry(runtime.layout)
    changed = False
    for member, outcome in plan.outcomes.items():
        worker = workers.workers.get(member) if outcome == Outcome.UNKNOWN else None
        if worker is not None and not worker.final and not worker.cancel_propagated_from:
            workers.put(mark_asked(worker, plan))
            changed = True
    if changed:
        workers.save()


def _extend(runtime: Runtime, plan: Cancel) -> Cancel:
    """The plan with the children that were registered since; it is kept before they are told."""
    workers = registry.Registry(runtime.layout)
    reach = plan_reach(plan.root, workers.workers, propagate=plan.propagate)
    late = [member for member in reach.members if member not in plan.messages]
    if not late or plan.settled:
        return plan
    with runtime.held((LockKind.REGISTRY, "")):
        now_ms = runtime.clock().now_ms
        plan = plan._replace(
            messages={**plan.messages, **{member: runtime.new_id(now_ms) for member in late}},
            outcomes={**plan.outcomes, **dict.fromkeys(late, str(Outcome.UNKNOWN))},
        )
        cancels.save(runtime.layout, plan)
        _mark_asked(runtime, plan)
    return plan


# ------------------------------------------------------------------ telling


def _tell(runtime: Runtime, plan: Cancel, members: Sequence[str], *, resumed: bool) -> None:
    """A cancel message to each, with its fact in the timeline before it; children first."""
    workers = registry.Registry(runtime.layout)
    for member in members:
        worker = workers.workers.get(member)
        if worker is None or plan.outcomes.get(member) != Outcome.UNKNOWN:
            continue
        message = _message(plan, worker)
        target = Target(
            ToKind.WORKER,
            worker.id,
            runtime.layout.inbox(worker.id),
            worker.id,
            worker.logical_session_id,
            Relation.PARENT,
            worker.id,
            worker.name,
        )
        noted = False
        if resumed:
            if is_stored(runtime, target, message):
                continue
            path = runtime.layout.timeline(worker.logical_session_id)
            noted = journal.has_record(path, b'"message_id":"%s"' % message.id.encode())
        store(runtime, target, message, runtime.clock(), noted=noted)


def _message(plan: Cancel, worker: Worker) -> Message:
    return Message(
        plan.messages[worker.id],
        plan.at,
        default_ttl_s(Kind.CANCEL),
        FromKind(plan.by_kind),
        plan.by_id,
        plan.by_name,
        ToKind.WORKER,
        worker.id,
        Kind.CANCEL,
        Lane.CONTROL,
        first_line(plan.reason),
        {"reason": plan.reason or "cancelled", "force": plan.force},
        trace_id=worker.trace_id,
        correlation_id=plan.operation,
    )


# ------------------------------------------------------------------ force


def _signal(runtime: Runtime, plan: Cancel) -> None:
    """TERM, and KILL after 5 s, to processes that are proven to be the members'; to nobody else."""
    workers = registry.Registry(runtime.layout)
    known = [workers.workers[member] for member in plan.messages if member in workers.workers]
    found = [process for worker in known if (process := _process_of(runtime, worker)) is not None]
    left = [process for process in found if processes.send_signal(process, signal.SIGTERM)]
    until = time.monotonic() + KILL_AFTER_S
    while left and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)
        left = [process for process in left if processes.is_present(process) is True]
    for process in left:
        processes.send_signal(process, signal.SIGKILL)


def _process_of(runtime: Runtime, worker: Worker) -> Process | None:
    """The process on record: its session's, else that of its launch."""
    session = registry.current_session(runtime.layout, worker.id)
    if session is not None:
        return session.process
    launch = launches.load(runtime.layout, worker.id)
    return launch.process if launch is not None else None


# ------------------------------------------------------------------ outcomes


def _await(runtime: Runtime, plan: Cancel, until: float, *, resumed: bool) -> Cancel:
    """Look until each outcome is known or the time is up; then keep what is known."""
    found = dict(plan.outcomes)
    while True:
        workers = registry.Registry(runtime.layout).workers
        for member in plan.messages:
            if found[member] == Outcome.UNKNOWN:
                found[member] = str(_outcome(runtime, plan, workers.get(member)))
        if Outcome.UNKNOWN not in found.values() or time.monotonic() >= until:
            break
        time.sleep(LOOK_EVERY_S)
    return _settle(runtime, plan, found, resumed=resumed)


def _outcome(runtime: Runtime, plan: Cancel, worker: Worker | None) -> Outcome:
    """What became of one member, from what its session does and what its inbox says."""
    if worker is None:
        return Outcome.GONE
    if worker.final:  # it ended by itself, or a run that was killed has settled it
        return _noted(runtime, plan, worker.logical_session_id) or Outcome.GONE
    seen = look(runtime, worker)
    liveness = seen.liveness
    if seen.session is None:
        launch = launches.load(runtime.layout, worker.id)
        if launch is not None and launch.process is not None:
            gone = processes.is_present(launch.process) is False
            liveness = Liveness.EXITED if gone else Liveness.UNKNOWN
    elif liveness is Liveness.IDLE and not seen.session.attended:
        liveness = Liveness.UNKNOWN  # nobody attends it: its turn is about to begin, or it to end
    if plan.force and liveness in (Liveness.BUSY, Liveness.IDLE):
        return Outcome.UNKNOWN  # its process was to be ended, and is there
    return OUTCOMES[liveness][_status(runtime, plan.messages[worker.id], worker)]


def _status(runtime: Runtime, message_id: str, worker: Worker) -> Status:
    entry = inbox.read(runtime.layout.inbox(worker.id)).mailbox.find(message_id)
    if entry is not None:
        return entry.status
    try:
        return find_message(runtime, message_id).entry.status
    except NotFoundError:
        return Status.PENDING


def _settle(runtime: Runtime, plan: Cancel, found: dict[str, str], *, resumed: bool) -> Cancel:
    """Facts in the timelines, then the registry, then the plan: each is repeated harmlessly."""
    layout, clock = runtime.layout, runtime.clock()
    fresh = {
        member: Outcome(outcome)
        for member, outcome in found.items()
        if outcome != Outcome.UNKNOWN and plan.outcomes[member] == Outcome.UNKNOWN
    }
    workers = registry.Registry(layout).workers
    for member, outcome in fresh.items():
        worker = workers.get(member)
        if worker is not None:
            _note(runtime, plan, worker, outcome, resumed=resumed)
    root = workers.get(plan.root)
    ended = fresh.get(plan.root) in (Outcome.STOPPED, Outcome.GONE)
    if root is not None and root.dispatch_id and not root.final and ended:
        try:  # the only member whose parent goes on: it is told, once
            settle_child(runtime, root.id, Report(Ending.CANCELLED, plan.reason, CANCELLED))
        except ConflictError:
            pass  # it has reported by itself a moment ago
    with runtime.held((LockKind.REGISTRY, "")):
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
        plan = plan._replace(outcomes=found, settled=Outcome.UNKNOWN not in found.values())
        cancels.save(layout, plan)
    return plan


def _note(
    runtime: Runtime, plan: Cancel, worker: Worker, outcome: Outcome, *, resumed: bool
) -> None:
    logical = worker.logical_session_id
    if not logical or (resumed and _noted(runtime, plan, logical) is not None):
        return
    fact: dict[str, Any] = {
        "operation": plan.operation,
        "outcome": str(outcome),
        "message_id": plan.messages[worker.id],
    }
    with runtime.held((LockKind.TIMELINE, logical)):
        kind = EventKind.CANCEL_SETTLED
        append_fact(runtime, worker.id, logical, kind, fact, runtime.clock())


def _noted(runtime: Runtime, plan: Cancel, logical: str) -> Outcome | None:
    """The outcome that the timeline has of this cancel."""
    for line in journal.read(runtime.layout.timeline(logical)) if logical else ():
        if line.record is not None and line.record.get("kind") == EventKind.CANCEL_SETTLED:
            payload = line.record.get("payload") or {}
            if payload.get("operation") == plan.operation:
                return Outcome(str(payload.get("outcome")))
    return None
