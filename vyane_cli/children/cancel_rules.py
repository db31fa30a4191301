"""Cancel as data: the workers it reaches, children before parents, and the outcome of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.mail.message import MessageStatus
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import TRANSITIONS, Worker, WorkerStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class CancelOutcome(StrEnum):
    """The outcome of a cancel for one worker."""

    STOPPED = "stopped"  # its turn was ended, or no turn ran
    REFUSED = "refused"  # the cancel message expired or failed, and was never consumed
    GONE = "gone"  # its process is gone, or its session has ended
    UNKNOWN = "unknown"  # the worker has not answered yet


_O = CancelOutcome
# fmt: off
OUTCOMES: Mapping[Liveness, Mapping[MessageStatus, CancelOutcome]] = {
    Liveness.BUSY:    {MessageStatus.PENDING: _O.UNKNOWN, MessageStatus.DELIVERED: _O.UNKNOWN,
                       MessageStatus.CONSUMED: _O.STOPPED, MessageStatus.EXPIRED: _O.REFUSED,
                       MessageStatus.FAILED: _O.REFUSED},
    Liveness.IDLE:    {MessageStatus.PENDING: _O.STOPPED, MessageStatus.DELIVERED: _O.STOPPED,
                       MessageStatus.CONSUMED: _O.STOPPED, MessageStatus.EXPIRED: _O.STOPPED,
                       MessageStatus.FAILED: _O.STOPPED},
    Liveness.EXITED:  dict.fromkeys(MessageStatus, _O.GONE),
    Liveness.UNKNOWN: {MessageStatus.PENDING: _O.UNKNOWN, MessageStatus.DELIVERED: _O.UNKNOWN,
                       MessageStatus.CONSUMED: _O.STOPPED, MessageStatus.EXPIRED: _O.REFUSED,
                       MessageStatus.FAILED: _O.REFUSED},
}
# fmt: on
"""Outcome by the session's liveness and the status of the cancel message."""


class Reach(NamedTuple):
    """The workers that a cancel reaches, and those that it skips. Ids."""

    members: tuple[str, ...]
    """Workers that have not ended: children before their parents, the root last."""
    skipped: tuple[str, ...]
    """Independent workers below the root, each with all workers below it."""


class Cancel(NamedTuple):
    """A cancel as `queue/cancels/{operation}.json` stores it, saved before any message is sent."""

    operation: str
    root: str
    at: float
    by_kind: str
    by_id: str
    by_name: str
    reason: str = ""
    force: bool = False
    propagate: bool = True
    messages: Mapping[str, str] = {}
    """Worker id → id of its cancel message, in the order of sending."""
    skipped: tuple[str, ...] = ()
    outcomes: Mapping[str, str] = {}
    settled: bool = False


def plan_reach(root: str, workers: Mapping[str, Worker], *, propagate: bool = True) -> Reach:
    """Return the workers that a cancel of `root` reaches.

    Total: a cycle is walked once, a dangling link is ignored. A child counts when either its
    record or its parent's record has the link. Workers below an ended worker are reached too.
    """
    below = children_of(workers.values())
    members: list[str] = []
    skipped: list[str] = []
    seen = {root}
    stack: list[tuple[str, bool, bool]] = [(root, False, False)]  # worker, spared, children done
    while stack:
        worker_id, spared, done = stack.pop()
        if done:
            if not workers[worker_id].final:
                members.append(worker_id)
            continue
        if spared:
            skipped.append(worker_id)
        else:
            stack.append((worker_id, False, True))
        links = dict.fromkeys((*workers[worker_id].children_worker_ids, *below.get(worker_id, ())))
        for child in reversed(list(links) if propagate else []):
            if child in workers and child not in seen:
                seen.add(child)
                stack.append((child, spared or workers[child].independent, False))
    return Reach(tuple(members), tuple(skipped))


def children_of(workers: Iterable[Worker]) -> dict[str, list[str]]:
    """Return parent id → ids of its children, by the links in the children's records."""
    below: dict[str, list[str]] = {}
    for worker in workers:
        if worker.parent_worker_id:
            below.setdefault(worker.parent_worker_id, []).append(worker.id)
    return below


def is_above(above: str, worker: Worker, workers: Mapping[str, Worker]) -> bool:
    """Return whether `above` is the id of the worker's parent or of a higher ancestor."""
    seen = set()
    link = worker.parent_worker_id
    while link and link not in seen:
        if link == above:
            return True
        seen.add(link)
        link = workers[link].parent_worker_id if link in workers else None
    return False


def mark_asked(worker: Worker, cancel: Cancel) -> Worker:
    """Return the worker with a note of its cancel, so that its later end counts as cancelled."""
    by_worker = cancel.by_kind == "worker" and worker.id == cancel.root
    return worker._replace(cancel_propagated_from=cancel.by_id if by_worker else cancel.root)


def mark_settled(worker: Worker, outcome: CancelOutcome, at: float) -> Worker:
    """Return the worker after its outcome: KILLED when a child is stopped or gone.

    A session that a person opened is not ended: the person may go on in the session, or reopen
    it. The message that its work was blocked on is then cleared.
    """
    if outcome not in (CancelOutcome.STOPPED, CancelOutcome.GONE):
        return worker
    if not worker.parent_worker_id:
        return worker._replace(cancel_propagated_from=None, blocked_on_message_id=None)
    if WorkerStatus.KILLED not in TRANSITIONS[worker.status]:
        return worker
    return worker._replace(status=WorkerStatus.KILLED, ended_at=at)


def parse_cancel(data: Mapping[str, Any]) -> Cancel:
    """Parse a cancel from its stored form. Raises TypeError when the data is not a cancel."""
    known = {key: data[key] for key in Cancel._fields if key in data}
    known["skipped"] = tuple(known.get("skipped") or ())
    return Cancel(**known)


def render_cancel(cancel: Cancel) -> dict[str, Any]:
    """Render a cancel to its stored form."""
    return {**cancel._asdict(), "skipped": list(cancel.skipped)}


# ------------------------------------------------------------------ orphans

ORPHANED_S = 1_200.0
"""Seconds after which an ended parent is not expected to return by itself."""


def orphans(
    workers: Mapping[str, Worker], over_since: Mapping[str, float], now: float
) -> list[str]:
    """Return the ids of children whose parent ended at least ORPHANED_S ago or has no record.

    Only children that may become INTERRUPTED, and that are neither independent nor cancelled.
    `over_since`: id of an ended parent → the time of its end; this time and `now` are Unix
    seconds.
    """
    found = []
    for worker in workers.values():
        parent = worker.parent_worker_id
        if not parent or worker.independent or worker.cancel_propagated_from:
            continue
        if WorkerStatus.INTERRUPTED not in TRANSITIONS[worker.status]:
            continue
        if parent not in workers or now - over_since.get(parent, now) >= ORPHANED_S:
            found.append(worker.id)
    return found


def mark_orphan(worker: Worker) -> Worker:
    """Return the orphan as INTERRUPTED: it runs on without a parent, for a person to review."""
    return worker._replace(
        status=WorkerStatus.INTERRUPTED, cancel_propagated_from=worker.parent_worker_id
    )


def reunited(workers: Mapping[str, Worker], over_since: Mapping[str, float]) -> list[str]:
    """Return the ids of orphans whose parent runs again."""
    return [
        worker.id
        for worker in workers.values()
        if worker.status is WorkerStatus.INTERRUPTED
        and worker.parent_worker_id in workers
        and worker.parent_worker_id not in over_since
    ]


def mark_reunited(worker: Worker) -> Worker:
    """Return the former orphan as a RUNNING child, which a cancel of its parent ends again."""
    return worker._replace(status=WorkerStatus.RUNNING, cancel_propagated_from=None)
