"""Supervise: what a tick of a project's worker does beside its own: pages, then at most one notice.

What is not needed when nothing is new (liveness, storing) is imported when it is.

Only a tick advances the queue of notices. The locks are held from the check to the save, so that
of two ticks at once one tells and the other finds it told.
"""

from vyane_cli.core import notices as rules
from vyane_cli.core.books import Books
from vyane_cli.core.calls import Event, HookCall
from vyane_cli.core.gating import Decision, Gate, Readings, Verdict, decide_notice
from vyane_cli.core.goals import GoalState, Judgement, judge
from vyane_cli.core.liveness import Liveness
from vyane_cli.core.messages import DAY_S, FromKind, Kind, Message, ToKind, decide_lane, first_line
from vyane_cli.core.notices import Book, Item, Telling
from vyane_cli.core.projections import blocked_page, to_main
from vyane_cli.core.projects import Project, project_of_worker
from vyane_cli.core.turns import Clock
from vyane_cli.core.workers import Worker
from vyane_cli.errors import VyaneError
from vyane_cli.operations.needs import call_person
from vyane_cli.operations.nudge import publish
from vyane_cli.store import (
    document,
    files,
    inbox,
    journal,
    ledger,
    notices,
    projects,
    registry,
    templates,
)
from vyane_cli.store.locks import Kind as LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vyane_cli.runtime import Runtime
    from vyane_cli.store.locks import Deadline

MOMENTS = (
    Event.STOP,
    Event.STOP_FAILURE,
    Event.SESSION_END,
    Event.FILE_CHANGED,
    Event.IDLE,
    Event.CALL,
)
"""Calls after which something may be new, and the session may be idle."""
VYANE = "vyane"


def project_of(runtime: "Runtime", worker_id: str) -> Project | None:
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


def supervise(
    runtime: "Runtime", worker: str, call: HookCall, deadline: "Deadline"
) -> Outcome | None:
    """Make the pages of the worker's project, and tell its main worker one thing if the gates let.

    None: the worker belongs to no project, or this call is none for it.
    """
    if call.event not in MOMENTS:
        return None
    project = project_of(runtime, worker)
    if project is None:
        return None
    main = registry.Registry(runtime.layout).workers.get(project.main)
    locks = [(LockKind.NOTICES, project.name)]
    if main is not None:
        locks.append((LockKind.INBOX, main.id))
    with runtime.held(*locks, deadline=deadline):
        outcome = _tell(runtime, project, main)
    _afterwards(runtime, outcome, call, deadline)
    return outcome


def _tell(runtime: "Runtime", project: Project, main: Worker | None) -> Outcome:
    """The pages first, then the gates, then the message, then the book."""
    layout, clock = runtime.layout, runtime.clock()
    books = ledger.read(layout, project.name)
    judgement = judge(books)
    book = notices.load(layout, project.name)
    before = book
    waiting: tuple[Item, ...] = ()
    if books.ledger is not None:
        book = rules.forget(book, books.ledger)
        waiting = rules.changes(books.ledger, book, project.main)
    notices.show(layout, project.name, to_main(books, judgement, waiting), blocked_page(books))
    book, item, stalled_s = _head(runtime, project, books, judgement, book, waiting, clock)
    decision = _decide(runtime, main, books, judgement, book, item, stalled_s, clock)
    if decision.verdict is Verdict.START and main is not None and item is not None:
        message = _message(runtime, project, main, books, judgement, item, clock)
        from vyane_cli.operations.storing import store_held, target_of

        target = target_of(runtime, main)
        if not journal.contains(target.path, b'"id":"%s"' % message.id.encode()):
            store_held(runtime, target, message, clock)
        book = rules.tell(book, item, message.id, clock)
        _log(runtime, project, item, decision, clock, message.id)
    elif item is not None and decision.rule == Gate.SAME_ITEM:
        book = rules.count(book, item)  # it knows this: the next one is due
        _log(runtime, project, item, decision, clock)
    elif (
        item is not None
        and _is_due(runtime, stalled_s)
        and book.rule != (refusal := f"{item.key} {decision.rule}")
    ):
        book = book._replace(rule=refusal)
        _log(runtime, project, item, decision, clock)
    if book != before:
        notices.save(layout, project.name, book)
    return Outcome(project, decision, item, main)


def _is_due(runtime: "Runtime", stalled_s: float | None) -> bool:
    """Whether a refusal is worth a line of the log: not that of a stall that is none yet."""
    return stalled_s is None or stalled_s >= float(runtime.config["notices.stall_after_s"])


def _head(
    runtime: "Runtime",
    project: Project,
    books: Books,
    judgement: Judgement,
    book: Book,
    waiting: tuple[Item, ...],
    clock: Clock,
) -> tuple[Book, Item | None, float | None]:
    """What is to be told first, and for how long nothing moved if that is it.

    A stall is one only when nothing else is to be told, and nobody works.
    """
    if waiting or books.ledger is None or judgement.state is not GoalState.OPEN:
        return book, waiting[0] if waiting else None, None
    moved = max([task.changed_at for task in books.ledger.tasks] + [project.created_at])
    mark = rules.digest_of(*(f"{t.id} {t.status} {t.changed_at:.3f}" for t in books.ledger.tasks))
    book = rules.see(book, mark, moved, clock)
    stalled_s = rules.stalled_s(book, clock)
    if stalled_s >= float(runtime.config["notices.stall_after_s"]):
        from vyane_cli.operations.membership import is_at_work, last_success_at, members_of

        members = members_of(runtime, project)
        if any(is_at_work(runtime, one) for one in members if one.worker.id != project.main):
            return book, None, None
        ends = [last_success_at(runtime, one.worker) for one in members]
        ended = max([at for at in ends if at <= clock.at], default=0.0)  # later: it was set back
        moved = max(moved, ended)
        stalled_s = min(stalled_s, max(clock.at - ended, 0.0))
    left = tuple(name for one in judgement.evidence for name in one.items)
    item = rules.stall_of(f"{moved:.3f}:{mark}", stalled_s, left)
    return book, item if item.key != book.stall else None, stalled_s


def _decide(
    runtime: "Runtime",
    main: Worker | None,
    books: Books,
    judgement: Judgement,
    book: Book,
    item: Item | None,
    stalled_s: float | None,
    clock: Clock,
) -> Decision:
    """The gates, after what makes them pointless."""
    if books.ledger is None:
        return Decision(Verdict.HOLD, "unreadable")
    if judgement.state is GoalState.COMPLETE:
        return Decision(Verdict.HOLD, "all-done")
    if item is None:
        return Decision(Verdict.HOLD, "nothing-new")
    if main is None or main.final:
        return Decision(Verdict.HOLD, "main-not-declared")
    from vyane_cli.operations.liveness import look

    seen = look(runtime, main)
    if seen.liveness is Liveness.EXITED:
        return Decision(Verdict.HOLD, "main-exited")
    box = inbox.read(runtime.layout.inbox(main.id)).mailbox
    last = box.find(book.message) if book.message else None
    same_boot = book.boot == clock.boot
    telling = Telling(
        item.digest,
        book.digest,
        book.boot_ms if same_boot and book.at else None,
        last.message.id if last is not None and not last.settled else "",
        None if stalled_s is None else int(stalled_s * 1000),
        int(runtime.config["notices.stall_after_s"] * 1000),
    )
    limits = runtime.config.limits
    return decide_notice(Readings(box.head, seen.liveness, clock.boot_ms, limits, telling))


def _message(
    runtime: "Runtime",
    project: Project,
    main: Worker,
    books: Books,
    judgement: Judgement,
    item: Item,
    clock: Clock,
) -> Message:
    text = text_of(runtime, project, judgement, item)
    at = item.task.changed_at if item.task is not None else float(item.key.partition(":")[0])
    at = max(at, project.created_at)  # a task that was edited by hand may have no time
    return Message(
        rules.notice_id(project.name, main.id, item, at),
        clock.at,
        DAY_S,
        FromKind.EXTERNAL,
        VYANE,
        VYANE,
        ToKind.WORKER,
        main.id,
        Kind.CONTEXT_INJECT,
        decide_lane(Kind.CONTEXT_INJECT, FromKind.EXTERNAL, ToKind.WORKER),
        first_line(text),
        {"text": text},
    )


def text_of(runtime: "Runtime", project: Project, judgement: Judgement, item: Item) -> str:
    """What a notice says: no time finer than the step of a stall."""
    texts = templates.load(runtime.language, "rounds")
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


def _log(
    runtime: "Runtime",
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


def _afterwards(runtime: "Runtime", outcome: Outcome, call: HookCall, deadline: "Deadline") -> None:
    """Nothing waits for a retry that nobody makes: the target is rung when its time has come."""
    layout, clock, target = runtime.layout, runtime.clock(), outcome.target
    try:
        if outcome.decision.rule == "main-exited" and target is not None:
            name = outcome.project.name
            call_person(
                runtime,
                f"main_exited:{name}:{target.id}",
                f"{target.name}, the main worker, has exited and does not see what changed",
                clock,
                deadline,
                project=name,
                ask=f"start it again, or read {layout.to_main(name)}",
            )
        if outcome.waits_ms is not None and target is not None:
            with runtime.held((LockKind.INBOX, target.id), deadline=deadline):
                files.touch(layout.due(target.id), str(clock.now_ms + outcome.waits_ms))
                session = registry.read_current(layout, target.id)
                if session != call.session or call.event is Event.STOP:
                    publish(runtime, session, clock)
        settled = outcome.decision.rule in ("all-done", "unreadable")
        if not settled and _is_paused(runtime, outcome.project.name):
            from vyane_cli.operations.alone import call_for_alone

            call_for_alone(runtime, outcome.project, deadline)
    except VyaneError:
        return  # the next tick of the project does it


def _is_paused(runtime: "Runtime", project: str) -> bool:
    """Whether no round of a project runs until it is resumed; read without what rules need."""
    known = document.load(runtime.layout.schedules(project))
    plans = known.get("schedules") if known is not None else None
    if not isinstance(plans, dict) or not plans:
        return False
    return all(isinstance(one, dict) and one.get("status") == "PAUSED" for one in plans.values())
