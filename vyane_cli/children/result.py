"""Results: each end of a child becomes exactly one `task-result` for its parent.

Commit point: the line in the parent's inbox, whose id follows from the dispatch, then the registry
with the child's final state. After a kill between the two the child is not final yet: the next
process that settles the child finds the message stored, and stores no second one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from vyane_cli.children import launches
from vyane_cli.children.result_rules import (
    CANCELLED,
    STATUS_OF,
    TTL_S,
    Ending,
    Report,
    decide_report,
    parse_report,
    plan_result,
    result_id,
)
from vyane_cli.errors import ConflictError, NotFoundError, VyaneError
from vyane_cli.mail import blobs
from vyane_cli.mail.enqueue import Target, is_stored, store
from vyane_cli.mail.message import Lane, Message, MessageKind, ToKind, body_of, first_line
from vyane_cli.sessions import registry
from vyane_cli.sessions.facts import note_in_timeline
from vyane_cli.sessions.session import HostSession
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.sessions.worker import TRANSITIONS, Worker, WorkerStatus, check_transition
from vyane_cli.storage import processes
from vyane_cli.storage.locks import LockKind
from vyane_cli.timeline import reader as reading
from vyane_cli.timeline.cursors import render_cursor
from vyane_cli.timeline.events import EventKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home

LOST_AFTER_S = 60.0
"""Seconds that a child may lack a launcher before it is lost: `spawn` may be about to start one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReport:
    """The end of a child, in the form for programs."""

    worker: str
    status: WorkerStatus
    message_id: str | None
    """Id of the parent's `task-result`; None when the parent has no record."""


class EndedChild(NamedTuple):
    """A child that has ended, and its parent's `task-result` (None: the parent has no record)."""

    child: Worker
    message: Message | None

    @property
    def report(self) -> ResultReport:
        """Return the end of the child in the form for programs."""
        return ResultReport(
            worker=self.child.id,
            status=self.child.status,
            message_id=self.message.id if self.message is not None else None,
        )


def settle_child(home: Home, worker_id: str, report: Report) -> EndedChild:
    """End a child and send its result. Both are on disk when this returns.

    A failed child that a cancel reached has been cancelled. When the parent has ended, the
    nearest ancestor that can still read gets a copy. Raises NotFoundError without a record of
    the child, and ConflictError when the child has ended already (`already_reported`) or was
    never dispatched (`no_dispatch`).
    """
    layout = home.layout
    with home.held((LockKind.REGISTRY, "")):
        workers = registry.Registry(layout)
        child = workers.workers.get(worker_id)
        if child is None:
            raise NotFoundError("worker", worker_id)
        check_reportable(child)
        parent = workers.workers.get(child.parent_worker_id or "")
        # in the record of an orphan `cancel_propagated_from` names its ended parent, not a cancel
        orphan = child.status is WorkerStatus.INTERRUPTED
        failed = report.ending is not Ending.SUCCESS
        if child.cancel_propagated_from and failed and not orphan:
            report = Report(Ending.CANCELLED, report.text, CANCELLED)
        message = _send(home, child, parent, report) if parent is not None else None
        heir = find_heir(child, workers.workers)
        if heir is not None and heir is not parent:
            _send(home, child, heir, report)
        clock = home.clock()
        ended = child._replace(
            status=_final(child.status, STATUS_OF[report.ending]),
            ended_at=clock.at,
            last_used_at=clock.at,
            failure_reason=None if report.ending is Ending.SUCCESS else report.error or None,
        )
        workers.put(ended)
        if parent is not None and parent.blocked_on_message_id == child.dispatch_id:
            workers.put(parent._replace(blocked_on_message_id=None))
        workers.save()
    if parent is not None:
        event = {"worker": child.id, "outcome": str(report.ending)}
        if message is not None:
            event["message_id"] = message.id
        try:
            note_in_timeline(home, parent, EventKind.CHILD_SETTLED, event)
        except VyaneError:
            pass  # the result is in the inbox; a damaged timeline must not block it
    for reader in {one.id for one in (parent, heir) if one is not None}:
        _reach(home, reader)
    return EndedChild(ended, message)


def _reach(home: Home, reader: str) -> None:
    """Reach the reader of the result by other ways than a ring, such as typing into its pane.

    The caller holds no lock, because these ways take time. Errors are ignored.
    """
    try:
        home.reach(reader, home.clock())
    except VyaneError:
        return  # the next round tries again


def check_reportable(child: Worker) -> None:
    """Raise ConflictError when this worker has ended already, or was never dispatched."""
    if not child.dispatch_id:
        raise ConflictError(
            f"{child.name} was not dispatched: there is nobody to report to",
            slug="no_dispatch",
            hint="`vyane send` writes to any worker",
        )
    if child.final:
        raise ConflictError(f"{child.name} has ended ({child.status})", slug="already_reported")


def _final(before: WorkerStatus, after: WorkerStatus) -> WorkerStatus:
    """Return `after`, checked against the table: directly, or by way of RUNNING."""
    if after not in TRANSITIONS[before]:
        before = check_transition(before, WorkerStatus.RUNNING)
    return check_transition(before, after)


def find_heir(child: Worker, workers: Mapping[str, Worker]) -> Worker | None:
    """Return the nearest ancestor, from the parent up, that can still read a result, or None.

    An ancestor that has ended or was RELEASED is skipped.
    """
    seen = {child.id}
    above = workers.get(child.parent_worker_id or "")
    while above is not None and above.id not in seen:
        if not above.final and above.status is not WorkerStatus.RELEASED:
            return above
        seen.add(above.id)
        above = workers.get(above.parent_worker_id or "")
    return None


def _send(home: Home, child: Worker, parent: Worker, report: Report) -> Message:
    """Store one copy of the result, for the parent or for the heir that reads in its place.

    Returns the message; a message that is stored already is not stored again.
    """
    layout, clock = home.layout, home.clock()
    dispatch = child.dispatch_id or ""
    planned = plan_result(report, _cursor(home, child))
    if planned.digest:
        blobs.save_blob(layout, planned.digest, planned.overflow)
    message = Message(
        result_id(dispatch, "" if parent.id == child.parent_worker_id else parent.id),
        clock.at,
        TTL_S,
        FromKind.WORKER,
        child.id,
        child.name,
        ToKind.WORKER,
        parent.id,
        MessageKind.TASK_RESULT,
        Lane.DIRECT,
        "",
        planned.payload,
        trace_id=child.trace_id,
        parent_message_id=dispatch,
        correlation_id=dispatch,
    )
    message = message._replace(summary=first_line(body_of(message)))
    path = layout.inbox(parent.id)
    target = Target(ToKind.WORKER, parent.id, path, parent.id, lock=parent.id, name=parent.name)
    if not is_stored(home, target, message):
        store(home, target, message, clock)
    return message


def _cursor(home: Home, child: Worker) -> str:
    """Return a cursor at the end of the child's timeline; "" when it is missing or damaged."""
    try:
        reader = reading.Reader(
            home.layout.timeline(child.logical_session_id), child.logical_session_id
        )
        reader.seek_end()
    except VyaneError:
        return ""
    return render_cursor(reader.cursor) if reader.cursor.seq else ""


# ------------------------------------------------------------------ results without a report


def save_answer(home: Home, session: HostSession, text: str, error: str) -> None:
    """Save the answer of an unattended child at its Stop or StopFailure.

    The answer becomes the child's result unless a later answer replaces it.
    """
    ending = Ending.ERROR if error else Ending.SUCCESS
    report = {"ending": str(ending), "text": text, "error": error, "session": session.id}
    launches.save_candidate(home.layout, session.worker, report)


def settle_at_end(home: Home, session: HostSession) -> None:
    """Send an unattended child's last answer as its result, at its SessionEnd.

    Without a saved answer the launcher sends the result.
    """
    report = parse_report(launches.load_candidate(home.layout, session.worker))
    if report is None:
        return
    try:
        settle_child(home, session.worker, report)
    except ConflictError:
        return  # the child has reported by itself


def settle_exit(home: Home, launch: launches.Launch, status: int) -> None:
    """Send the result of a child whose process has ended, unless it was sent already."""
    candidate = parse_report(launches.load_candidate(home.layout, launch.worker))
    output = launches.read_output(home.layout.output(launch.worker))
    report = decide_report(status, candidate, output)
    if report.error and candidate is None:
        said = launches.read_output(home.layout.errors(launch.worker)).strip()
        report = report._replace(text="\n".join(filter(None, (said[-2000:], report.text))))
    try:
        settle_child(home, launch.worker, report)
    except ConflictError:
        return  # the usual case of a child that has hooks, or reports


def settle_lost(home: Home, worker: Worker) -> bool:
    """End a child whose launcher and process are both gone. Returns whether it was ended here.

    A child that was cut off is resumed instead, if `delivery.resume` allows it.
    """
    launch = launches.load(home.layout, worker.id) if is_lost(home, worker) else None
    if launch is None:
        return False
    broken = launch.exit_status is None and launch.process is not None
    if broken and home.resume_lost(worker.id):
        return False
    try:
        if launch.exit_status is not None:
            settle_exit(home, launch, launch.exit_status)
        else:
            candidate = parse_report(launches.load_candidate(home.layout, worker.id))
            error = "its process is gone, and so is the launcher that waited for it"
            if launch.launcher is None:
                error = "it was never started"
            said = candidate.text if candidate is not None else ""
            said = said or launches.read_output(home.layout.output(worker.id))
            settle_child(home, worker.id, Report(Ending.ERROR, said, error))
    except ConflictError:
        return False
    return True


def is_lost(home: Home, worker: Worker) -> bool:
    """Return whether a dispatched child has not ended and no process runs that would end it."""
    if worker.final or not worker.dispatch_id:
        return False
    launch = launches.load(home.layout, worker.id)
    if launch is None:
        return False
    if launch.launcher is None:
        return launches.age_s(launch, home.clock()) >= LOST_AFTER_S
    if processes.is_present(launch.launcher) is not False:
        return False
    if launch.process is not None and processes.is_present(launch.process) is not False:
        return False
    # the hooks may have registered a child whose launcher died before it saved the process
    session = registry.current_session(home.layout, launch.worker)
    return session is None or processes.is_present(session.process) is False
