"""Supervise: what a tick of a project's worker does beside its own: pages, then at most one notice.

What is not needed when nothing is new (liveness, storing) is imported when it is.

Only a tick advances the queue of notices. The locks are held from the check to the save, so that
of two ticks at once one tells and the other finds it told.
"""

from __future__ import annotations

from vyane_cli.delivery.gating import Decision, Gate, Verdict
from vyane_cli.delivery.ring import publish
from vyane_cli.errors import VyaneError
from vyane_cli.hosts.port import Event, HookCall
from vyane_cli.kernel.clock import Clock
from vyane_cli.projects import notice_rules, notices, projects
from vyane_cli.projects.news import look_for_news, message_of
from vyane_cli.projects.notice_rules import Item
from vyane_cli.projects.project import Project, project_of_worker
from vyane_cli.projects.projections import blocked_page, to_main
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import document, files, journal
from vyane_cli.storage.locks import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vyane_cli.home import Runtime
    from vyane_cli.storage.locks import Deadline

MOMENTS = (
    Event.STOP,
    Event.STOP_FAILURE,
    Event.SESSION_END,
    Event.FILE_CHANGED,
    Event.IDLE,
    Event.CALL,
)
"""Calls after which something may be new, and the session may be idle."""


def project_of(runtime: Runtime, worker_id: str) -> Project | None:
    """The project of a worker; None when it belongs to none."""
    known = projects.listing(runtime.layout)
    for project in known:
        if project.main == worker_id:
            return project
    workers = registry.Registry(runtime.layout).workers if known else {}
    worker = workers.get(worker_id)
    name = project_of_worker(worker, workers, known) if worker is not None else ""
    return next((project for project in known if project.name == name), None)


class Outcome:
    """What a tick did about a project."""

    __slots__ = ("decision", "item", "project", "target")

    def __init__(
        self, project: Project, decision: Decision, item: Item | None, target: Worker | None
    ) -> None:
        self.project, self.decision, self.item, self.target = project, decision, item, target

    @property
    def waits_ms(self) -> int | None:
        """In how long the target is worth another try; None: at its next event."""
        timed = self.decision.rule in (Gate.TOO_SOON, Gate.RATE_GUARD)
        return self.decision.again_ms if timed else None


def supervise(runtime: Runtime, worker: str, call: HookCall, deadline: Deadline) -> Outcome | None:
    """Make the pages of the worker's project, and tell its main worker one thing if the gates let.

    None: the worker belongs to no project, or this call is none for it.
    """
    if call.event not in MOMENTS:
        return None
    project = project_of(runtime, worker)
    if project is None:
        return None
    main = registry.Registry(runtime.layout).workers.get(project.main)
    locks = [(Kind.NOTICES, project.name)]
    if main is not None:
        locks.append((Kind.INBOX, main.id))
    with runtime.held(*locks, deadline=deadline):
        outcome = _tell(runtime, project, main)
    _afterwards(runtime, outcome, call, deadline)
    return outcome


def _tell(runtime: Runtime, project: Project, main: Worker | None) -> Outcome:
    """The pages first, then the gates, then the message, then the book."""
    layout, clock = runtime.layout, runtime.clock()
    found = look_for_news(runtime, project, main, clock)
    book, item, decision = found.book, found.item, found.decision
    notices.show(
        layout,
        project.name,
        to_main(found.books, found.judgement, found.waiting),
        blocked_page(found.books),
    )
    if decision.verdict is Verdict.START and main is not None and item is not None:
        message = message_of(runtime, project, main, found, clock)
        from vyane_cli.mail.enqueue import store_held, target_of

        target = target_of(runtime, main)
        if not journal.has_record(target.path, b'"id":"%s"' % message.id.encode()):
            store_held(runtime, target, message, clock)
        from vyane_cli.projects.membership import turns_of

        book = notice_rules.tell(book, item, message.id, clock, turns_of(runtime, main)[0])
        _log(runtime, project, item, decision, clock, message.id)
    elif item is not None and decision.rule == Gate.SAME_ITEM:
        book = notice_rules.count(book, item)  # it knows this: the next one is due
        _log(runtime, project, item, decision, clock)
    elif (
        item is not None
        and found.is_due
        and book.rule != (refusal := f"{item.key} {decision.rule}")
    ):
        book = book._replace(rule=refusal)
        _log(runtime, project, item, decision, clock)
    if book != found.before:
        notices.save(layout, project.name, book)
    return Outcome(project, decision, item, main)


def _log(
    runtime: Runtime,
    project: Project,
    item: Item,
    decision: Decision,
    clock: Clock,
    message: str = "",
) -> None:
    record: dict[str, Any] = {
        "at": clock.at,
        "kind": str(item.kind),
        "task": item.task.id if item.task is not None else None,
        "key": item.key,
        "outcome": "told" if message else "skipped",
        "rule": decision.rule,
        "readings": dict(decision.readings),
        "message_id": message or None,
    }
    notices.log(runtime.layout, project.name, record)


def _afterwards(runtime: Runtime, outcome: Outcome, call: HookCall, deadline: Deadline) -> None:
    """Nothing waits for a retry that nobody makes: the target is rung when its time has come."""
    layout, clock, target = runtime.layout, runtime.clock(), outcome.target
    try:
        if outcome.decision.rule == "main-exited" and target is not None:
            from vyane_cli.attention.call import call_person
            from vyane_cli.attention.kinds import NeedKind, call_of

            project = outcome.project.name
            exited = call_of(
                NeedKind.MAIN_EXITED,
                project=project,
                worker=target.id,
                name=target.name,
                page=layout.to_main(project),
            )
            call_person(runtime, exited, clock, deadline)
        if outcome.waits_ms is not None and target is not None:
            with runtime.held((Kind.INBOX, target.id), deadline=deadline):
                files.touch(layout.due(target.id), str(clock.now_ms + outcome.waits_ms))
                session = registry.read_current(layout, target.id)
                if session != call.session or call.event is Event.STOP:
                    publish(runtime, session, clock)
        settled = outcome.decision.rule in ("all-done", "unreadable")
        if not settled and _is_paused(runtime, outcome.project.name):
            from vyane_cli.projects.stalled import call_for_alone

            call_for_alone(runtime, outcome.project, deadline)
    except VyaneError:
        return  # the next tick of the project does it


def _is_paused(runtime: Runtime, project: str) -> bool:
    """Whether no round of a project runs until it is resumed; read without what rules need."""
    known = document.load(runtime.layout.schedules(project))
    plans = known.get("schedules") if known is not None else None
    if not isinstance(plans, dict) or not plans:
        return False
    return all(isinstance(one, dict) and one.get("status") == "PAUSED" for one in plans.values())
