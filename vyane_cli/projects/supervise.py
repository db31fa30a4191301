"""Supervision of a project: after a tick of its worker, write the pages, send at most one notice.

Modules that are needed only when something is new (liveness, enqueueing) are imported at that
point.

Only a tick advances the queue of notices. The locks are held from the check to the save, so that of
two concurrent ticks one sends the notice and the other finds it recorded.
"""

from __future__ import annotations

from vyane_cli.delivery.gating import (
    Decision,
    DeliveryVerdict,
    Gate,
    Readings,
    Telling,
    decide_notice,
)
from vyane_cli.errors import CorruptStateError, VyaneError
from vyane_cli.hosts.port import HookCall, HostEvent
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.mail import inbox
from vyane_cli.mail.message import MONTH_S, Message, MessageKind, from_vyane
from vyane_cli.projects import ledger, notice_rules, notices, projects
from vyane_cli.projects.goal import Books, GoalState, Judgement, judge
from vyane_cli.projects.notice_rules import Book, NoticeItem, blocked_page, to_main
from vyane_cli.projects.project import Project, project_of_worker
from vyane_cli.sessions import markers, registry
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import document, files, journal, settings
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vyane_cli.delivery.explain import PlannedNotice
    from vyane_cli.home import Home
    from vyane_cli.storage.locks import Deadline


MOMENTS = (
    HostEvent.STOP,
    HostEvent.STOP_FAILURE,
    HostEvent.SESSION_END,
    HostEvent.FILE_CHANGED,
    HostEvent.IDLE,
    HostEvent.CALL,
)
"""Calls after which something may be new, and the session may be idle."""


def project_of(home: Home, worker_id: str) -> Project | None:
    """Return the project of a worker, or None when it belongs to no project."""
    known = projects.list_known(home.layout)
    for project in known:
        if project.main == worker_id:
            return project
    workers = registry.Registry(home.layout).workers if known else {}
    worker = workers.get(worker_id)
    name = project_of_worker(worker, workers, known) if worker is not None else ""
    return next((project for project in known if project.name == name), None)


class SupervisionOutcome:
    """Result of supervising a project after a tick."""

    __slots__ = ("decision", "item", "project", "target")

    def __init__(
        self, project: Project, decision: Decision, item: NoticeItem | None, target: Worker | None
    ) -> None:
        self.project, self.decision, self.item, self.target = project, decision, item, target

    @property
    def waits_ms(self) -> int | None:
        """Return the milliseconds until another attempt; None when it waits for the next event."""
        timed = self.decision.rule in (Gate.TOO_SOON, Gate.RATE_GUARD)
        return self.decision.again_ms if timed else None


def supervise(
    home: Home, worker: str, call: HookCall, deadline: Deadline
) -> SupervisionOutcome | None:
    """Write the pages of the worker's project, and notify its main worker once if the gates allow.

    Return None when the worker belongs to no project or the event of this call is not in `MOMENTS`.
    """
    if call.event not in MOMENTS:
        return None
    project = project_of(home, worker)
    if project is None:
        return None
    main = registry.Registry(home.layout).workers.get(project.main)
    locks = [(LockKind.NOTICES, project.name)]
    if main is not None:
        locks.append((LockKind.INBOX, main.id))
    with home.held(*locks, deadline=deadline):
        outcome = _tell(home, project, main)
    _afterwards(home, outcome, call, deadline)
    return outcome


def _tell(home: Home, project: Project, main: Worker | None) -> SupervisionOutcome:
    """Write the pages, ask the gates, store the message and save the book, in this order."""
    layout, clock = home.layout, home.clock()
    found = look_for_news(home, project, main, clock)
    book, item, decision = found.book, found.item, found.decision
    notices.save_pages(
        layout,
        project.name,
        to_main(found.books, found.judgement, found.waiting),
        blocked_page(found.books),
    )
    if decision.verdict is DeliveryVerdict.START and main is not None and item is not None:
        message = message_of(home, project, main, found, clock)
        from vyane_cli.mail.enqueue import store_held, target_of

        target = target_of(home, main)
        if not journal.has_record(target.path, b'"id":"%s"' % message.id.encode()):
            store_held(home, target, message, clock)
        from vyane_cli.projects.members import turns_of

        book = notice_rules.tell(book, item, message.id, clock, turns_of(home, main)[0])
        _log(home, project, item, decision, clock, message.id)
    elif item is not None and decision.rule == Gate.SAME_ITEM:
        book = notice_rules.count(book, item)  # the target knows this item: the next one is due
        _log(home, project, item, decision, clock)
    elif (
        item is not None
        and found.is_due
        and book.rule != (refusal := f"{item.key} {decision.rule}")
    ):
        book = book._replace(rule=refusal)
        _log(home, project, item, decision, clock)
    if book != found.before:
        notices.save(layout, project.name, book)
    return SupervisionOutcome(project, decision, item, main)


def _log(
    home: Home,
    project: Project,
    item: NoticeItem,
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
    notices.log(home.layout, project.name, record)


def _afterwards(
    home: Home, outcome: SupervisionOutcome, call: HookCall, deadline: Deadline
) -> None:
    """Make sure that a delayed notice is retried: the target is woken when its time has come.

    Also call the person for a main worker that has exited, and for a stalled project.
    """
    layout, clock, target = home.layout, home.clock(), outcome.target
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
            call_person(home, exited, clock, deadline)
        if outcome.waits_ms is not None and target is not None:
            with home.held((LockKind.INBOX, target.id), deadline=deadline):
                files.touch(layout.due(target.id), str(clock.now_ms + outcome.waits_ms))
                session = registry.read_current(layout, target.id)
                if session != call.session or call.event is HostEvent.STOP:
                    markers.wake(home.layout, session, clock.at)
        settled = outcome.decision.rule in ("all-done", "unreadable")
        if not settled and _is_paused(home, outcome.project.name):
            from vyane_cli.projects.stalled import call_for_alone

            call_for_alone(home, outcome.project, deadline)
    except VyaneError:
        return  # the next tick of the project tries again


def _is_paused(home: Home, project: str) -> bool:
    """Return whether the rounds of a project are paused. Read without the imports of the rules."""
    known = document.load(home.layout.schedules(project))
    plans = known.get("schedules") if known is not None else None
    if not isinstance(plans, dict) or not plans:
        return False
    return all(isinstance(one, dict) and one.get("status") == "PAUSED" for one in plans.values())


class News(NamedTuple):
    """The pending notices of a project and the state that decides about them, at one moment."""

    books: Books
    judgement: Judgement
    before: Book
    """The book of notices as it is on disk."""
    book: Book
    """The book with the observations of this moment."""
    waiting: tuple[NoticeItem, ...]
    """Items for which no notice was sent, the first one first."""
    item: NoticeItem | None
    """The item to send now."""
    decision: Decision
    is_due: bool = True
    """False for a stall that is still too short: its refusal is not logged."""


def look_for_news(home: Home, project: Project, main: Worker | None, clock: Clock) -> News:
    """Read the books and the book of notices, ask the gates, and return the news."""
    layout = home.layout
    books = ledger.read(layout, project.name)
    judgement = judge(books)
    book = before = notices.load(layout, project.name)
    waiting: tuple[NoticeItem, ...] = ()
    if books.ledger is not None:
        book = notice_rules.forget(book, books.ledger)
        waiting = notice_rules.changes(books.ledger, book, project.main)
    book, item, stalled_s = _head(home, project, books, judgement, book, waiting, clock)
    decision = _decide(home, main, books, judgement, book, item, stalled_s, clock)
    due = stalled_s is None or stalled_s >= float(home.config["notices.stall_after_s"])
    return News(
        books=books,
        judgement=judgement,
        before=before,
        book=book,
        waiting=waiting,
        item=item,
        decision=decision,
        is_due=due,
    )


def _head(
    home: Home,
    project: Project,
    books: Books,
    judgement: Judgement,
    book: Book,
    waiting: tuple[NoticeItem, ...],
    clock: Clock,
) -> tuple[Book, NoticeItem | None, float | None]:
    """Return the book, the first item to send, and the seconds without progress if it is a stall.

    A stall counts only when no other notice waits and no worker works.
    """
    if waiting or books.ledger is None or judgement.state is not GoalState.OPEN:
        return book, waiting[0] if waiting else None, None
    moved = max([task.changed_at for task in books.ledger.tasks] + [project.created_at])
    mark = notice_rules.digest_of(
        *(f"{t.id} {t.status} {t.changed_at:.3f}" for t in books.ledger.tasks)
    )
    book = notice_rules.see(book, mark, moved, clock)
    stalled_s = notice_rules.stalled_s(book, clock)
    if stalled_s >= float(home.config["notices.stall_after_s"]):
        from vyane_cli.projects.members import is_at_work, members_of, turns_of

        members = members_of(home, project)
        if any(is_at_work(home, one) for one in members if one.worker.id != project.main):
            return book, None, None
        ends = []
        for one in members:
            turns, at = turns_of(home, one.worker)
            if one.worker.id == project.main:
                heard = notice_rules.heard_of_stall(book, mark, turns)
                at = at if heard is None else heard
            ends.append(at)
        ended = max([at for at in ends if at <= clock.at], default=0.0)  # later: clock was set back
        moved = max(moved, ended)
        stalled_s = min(stalled_s, max(clock.at - ended, 0.0))
    left = tuple(name for one in judgement.evidence for name in one.items)
    item = notice_rules.stall_of(moved, mark, stalled_s, left)
    return book, item if item.key != book.stall else None, stalled_s


def _decide(
    home: Home,
    main: Worker | None,
    books: Books,
    judgement: Judgement,
    book: Book,
    item: NoticeItem | None,
    stalled_s: float | None,
    clock: Clock,
) -> Decision:
    """Ask the gates, unless a notice would be pointless."""
    if books.ledger is None:
        return Decision(DeliveryVerdict.HOLD, "unreadable")
    if judgement.state is GoalState.COMPLETE:
        return Decision(DeliveryVerdict.HOLD, "all-done")
    if item is None:
        return Decision(DeliveryVerdict.HOLD, "nothing-new")
    if main is None or main.final:
        return Decision(DeliveryVerdict.HOLD, "main-not-declared")
    from vyane_cli.sessions.liveness import look

    seen = look(home, main)
    if seen.liveness is Liveness.EXITED:
        return Decision(DeliveryVerdict.HOLD, "main-exited")
    box = inbox.read(home.layout.inbox(main.id)).mailbox
    last = box.find(book.message) if book.message else None
    same_boot = book.boot == clock.boot
    telling = Telling(
        digest=item.digest,
        told_digest=book.digest,
        told_ms=book.boot_ms if same_boot and book.at else None,
        waiting=last.message.id if last is not None and not last.settled else "",
        stall_ms=None if stalled_s is None else int(stalled_s * 1000),
        stall_after_ms=int(home.config["notices.stall_after_s"] * 1000),
    )
    limits = home.config.limits
    return decide_notice(
        Readings(
            head=box.head,
            liveness=seen.liveness,
            boot_ms=clock.boot_ms,
            limits=limits,
            notice=telling,
        )
    )


def message_of(home: Home, project: Project, main: Worker, news: News, clock: Clock) -> Message:
    """Return the news as the one message of their item: the message id follows from the event."""
    item = news.item
    assert item is not None
    text = text_of(home, project, news.judgement, item)
    at = item.task.changed_at if item.task is not None else float(item.key.partition(":")[0])
    at = max(at, project.created_at)  # a task that was edited by hand may lack its time
    notice = notice_rules.notice_id(project.name, main.id, item, at)
    message = from_vyane(notice, clock.at, main.id, MessageKind.CONTEXT_INJECT, text)
    return message._replace(ttl_seconds=MONTH_S)  # it counts as told, so it must not expire early


def text_of(home: Home, project: Project, judgement: Judgement, item: NoticeItem) -> str:
    """Return the text of a notice. Its durations are no finer than the steps of a stall."""
    texts = settings.load_templates(home.language, "rounds")
    task = item.task
    if task is None:
        seconds = int(item.key.rpartition(":")[2])
        how_long = f"{seconds // 3600} h" if seconds >= 3600 else f"{seconds // 60} min"
        left = ", ".join(name for one in judgement.evidence for name in one.items)
        return texts.fill(item.kind, project=project.name, how_long=how_long, left=left or "?")
    made = task.artifact or task.no_artifact_reason
    return texts.fill(
        item.kind,
        project=project.name,
        id=task.id,
        title=task.title,
        reason=task.reason,
        made=made,
    )


def plan_notice(home: Home, worker: str, call: HookCall) -> PlannedNotice | None:
    """Return the notice that the main worker of the worker's project would get now, or None."""
    from dataclasses import replace

    from vyane_cli.delivery.explain import PlannedNotice

    project = project_of(home, worker) if call.event in MOMENTS else None
    if project is None:
        return None
    main = registry.Registry(home.layout).workers.get(project.main)
    told = PlannedNotice(
        project=project.name, to=main.id if main is not None else None, readings={}
    )
    try:
        found = look_for_news(home, project, main, home.clock())
    except CorruptStateError as error:
        return replace(told, readings={"error": error.message})
    item, decision = found.item, found.decision
    if item is None or not found.is_due:
        return None
    return replace(
        told,
        kind=str(item.kind),
        task=item.task.id if item.task is not None else None,
        told=decision.verdict is DeliveryVerdict.START,
        rule=decision.rule,
        readings=decision.readings,
        again_ms=decision.again_ms,
    )
