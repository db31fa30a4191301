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
"""For so long a spawned child may be without a launcher: `spawn` may be about to start it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReport:
    """A child's last word as programs see it."""

    worker: str
    status: WorkerStatus
    message_id: str | None


class EndedChild(NamedTuple):
    """A child that has ended, and what its parent was sent (None: the parent is on no record)."""

    child: Worker
    message: Message | None

    @property
    def report(self) -> ResultReport:
        """The same for programs."""
        return ResultReport(
            worker=self.child.id,
            status=self.child.status,
            message_id=self.message.id if self.message is not None else None,
        )


def settle_child(home: Home, worker_id: str, report: Report) -> EndedChild:
    """End a child and send its result. On disk when this returns.

    ConflictError: it has ended already (`already_reported`), or nobody dispatched it
    (`no_dispatch`).
    """
    layout = home.layout
    with home.held((LockKind.REGISTRY, "")):
        workers = registry.Registry(layout)
        child = workers.workers.get(worker_id)
        if child is None:
            raise NotFoundError("worker", worker_id)
        check_reportable(child)
        parent = workers.workers.get(child.parent_worker_id or "")
        orphan = child.status is WorkerStatus.INTERRUPTED  # the same field names its dead parent
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
    """The ways to who reads the result that are no ring; with no lock held, for they take time."""
    try:
        home.reach(reader, home.clock())
    except VyaneError:
        return  # the next round does it


def check_reportable(child: Worker) -> None:
    """ConflictError when this worker has no result to give any more, or never had one."""
    if not child.dispatch_id:
        raise ConflictError(
            f"{child.name} was not dispatched: there is nobody to report to",
            slug="no_dispatch",
            hint="`vyane send` writes to any worker",
        )
    if child.final:
        raise ConflictError(f"{child.name} has ended ({child.status})", slug="already_reported")


def _final(before: WorkerStatus, after: WorkerStatus) -> WorkerStatus:
    """`after`, by way of RUNNING where the table has no direct way."""
    if after not in TRANSITIONS[before]:
        before = check_transition(before, WorkerStatus.RUNNING)
    return check_transition(before, after)


def find_heir(child: Worker, workers: Mapping[str, Worker]) -> Worker | None:
    """The nearest ancestor that is not over: the parent, if it is one itself."""
    seen = {child.id}
    above = workers.get(child.parent_worker_id or "")
    while above is not None and above.id not in seen:
        if not above.final and above.status is not WorkerStatus.RELEASED:
            return above
        seen.add(above.id)
        above = workers.get(above.parent_worker_id or "")
    return None


def _send(home: Home, child: Worker, parent: Worker, report: Report) -> Message:
    """One copy, for the parent or for the one that reads in its place."""
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
    """The end of the child's timeline; empty when it has none, or a damaged one."""
    try:
        reader = reading.Reader(
            home.layout.timeline(child.logical_session_id), child.logical_session_id
        )
        reader.seek_end()
    except VyaneError:
        return ""
    return render_cursor(reader.cursor) if reader.cursor.seq else ""


# ------------------------------------------------------------------ what a print-mode child says


def save_answer(home: Home, session: HostSession, text: str, error: str) -> None:
    """Stop or StopFailure of a child that nobody attends: its answer, if it is its last."""
    ending = Ending.ERROR if error else Ending.SUCCESS
    report = {"ending": str(ending), "text": text, "error": error, "session": session.id}
    launches.save_candidate(home.layout, session.worker, report)


def settle_at_end(home: Home, session: HostSession) -> None:
    """SessionEnd of such a child: its last answer is its result. Without one the launcher knows."""
    report = parse_report(launches.load_candidate(home.layout, session.worker))
    if report is None:
        return
    try:
        settle_child(home, session.worker, report)
    except ConflictError:
        return  # it has reported by itself


def settle_exit(home: Home, launch: launches.Launch, status: int) -> None:
    """The process of a child is gone: send its result, if nothing else did."""
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
    """End a child whose launcher and process are both gone: nobody else will. True if it was.

    One that was broken off is resumed first, if `delivery.resume` allows it.
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
    """Whether a dispatched child has not ended, and nothing runs any more that would end it."""
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
    # a child whose hooks registered it, and whose launcher died before it noted the process
    session = registry.current_session(home.layout, launch.worker)
    return session is None or processes.is_present(session.process) is False
