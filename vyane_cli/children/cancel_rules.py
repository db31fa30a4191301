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
    """What became of one worker of a cancelled tree."""

    STOPPED = "stopped"  # its turn was ended, or nothing ran
    REFUSED = "refused"  # the cancel expired or failed: it was never taken
    GONE = "gone"  # its process is gone, or its session has ended
    UNKNOWN = "unknown"  # it has not answered so far


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
"""By what the session does and how far the cancel message has come."""


class Reach(NamedTuple):
    """Whom a cancel reaches."""

    members: tuple[str, ...]
    """Children before their parents, the root last; without those that have ended."""
    skipped: tuple[str, ...]
    """Independent workers below the root, each with all that is below it."""


class Cancel(NamedTuple):
    """One cancel, as `queue/cancels/{operation}.json` has it: frozen before anybody is told."""

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
    """Member → id of its message; in the order in which they are told."""
    skipped: tuple[str, ...] = ()
    outcomes: Mapping[str, str] = {}
    settled: bool = False


def plan_reach(root: str, workers: Mapping[str, Worker], *, propagate: bool = True) -> Reach:
    """Whom a cancel of `root` reaches. Total: a cycle is walked once, a dangling link not at all.

    A child is one by either end of the link. What is below an ended worker is reached all the same.
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
    """Parent → its children, by the children's own links."""
    below: dict[str, list[str]] = {}
    for worker in workers:
        if worker.parent_worker_id:
            below.setdefault(worker.parent_worker_id, []).append(worker.id)
    return below


def is_above(above: str, worker: Worker, workers: Mapping[str, Worker]) -> bool:
    """Whether `above` is the worker's parent, or one further up."""
    seen = set()
    link = worker.parent_worker_id
    while link and link not in seen:
        if link == above:
            return True
        seen.add(link)
        link = workers[link].parent_worker_id if link in workers else None
    return False


def mark_asked(worker: Worker, cancel: Cancel) -> Worker:
    """The worker once it is told: which cancel it belongs to, so that its end is one by that."""
    by_worker = cancel.by_kind == "worker" and worker.id == cancel.root
    return worker._replace(cancel_propagated_from=cancel.by_id if by_worker else cancel.root)


def mark_settled(worker: Worker, outcome: CancelOutcome, at: float) -> Worker:
    """The worker after its outcome: KILLED when it was somebody's child, and is stopped or gone.

    A session that a person opened stays theirs: they may go on in it, or open it again. What its
    work waited for is no matter then.
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
    """The stored form of a cancel."""
    return {**cancel._asdict(), "skipped": list(cancel.skipped)}


# ------------------------------------------------------------------ orphans

ORPHANED_S = 1_200.0
"""A parent that has been over for so long does not come back by itself."""


def orphans(
    workers: Mapping[str, Worker], over_since: Mapping[str, float], now: float
) -> list[str]:
    """Return the children without an end whose parent has ended (id → since when) or is missing."""
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
    """The orphan: left to itself, and to a person's review."""
    return worker._replace(
        status=WorkerStatus.INTERRUPTED, cancel_propagated_from=worker.parent_worker_id
    )


def reunited(workers: Mapping[str, Worker], over_since: Mapping[str, float]) -> list[str]:
    """Orphans whose parent is there again."""
    return [
        worker.id
        for worker in workers.values()
        if worker.status is WorkerStatus.INTERRUPTED
        and worker.parent_worker_id in workers
        and worker.parent_worker_id not in over_since
    ]


def mark_reunited(worker: Worker) -> Worker:
    """A child like any other: its parent reads its result, and a cancel of the parent ends it."""
    return worker._replace(status=WorkerStatus.RUNNING, cancel_propagated_from=None)
