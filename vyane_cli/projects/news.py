"""News: what the main worker of a project is to be told first, and whether the gates let it.

Nothing is changed here: `supervise` tells it, `tick --dry-run` shows it. What is not needed when
nothing is new (liveness, membership) is imported when it is.
"""

from __future__ import annotations

from vyane_cli.delivery.gating import Decision, Readings, Telling, Verdict, decide_notice
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.mail import inbox
from vyane_cli.mail.message import MONTH_S, Kind, Message, from_vyane
from vyane_cli.projects import ledger, notice_rules, notices
from vyane_cli.projects.books import Books
from vyane_cli.projects.judging import GoalState, Judgement, judge
from vyane_cli.projects.notice_rules import Book, Item
from vyane_cli.projects.project import Project
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import templates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


class News(NamedTuple):
    """How a project stands towards its main worker, at one instant."""

    books: Books
    judgement: Judgement
    before: Book
    """The book as it is on disk."""
    book: Book
    """With what was seen now."""
    waiting: tuple[Item, ...]
    """What it was not told, first things first."""
    item: Item | None
    """The one that is to be told now."""
    decision: Decision
    is_due: bool = True
    """Whether a refusal is worth a line of the log: not that of a stall that is none yet."""


def look_for_news(runtime: Runtime, project: Project, main: Worker | None, clock: Clock) -> News:
    """Read the books and the book of notices, and ask the gates."""
    layout = runtime.layout
    books = ledger.read(layout, project.name)
    judgement = judge(books)
    book = before = notices.load(layout, project.name)
    waiting: tuple[Item, ...] = ()
    if books.ledger is not None:
        book = notice_rules.forget(book, books.ledger)
        waiting = notice_rules.changes(books.ledger, book, project.main)
    book, item, stalled_s = _head(runtime, project, books, judgement, book, waiting, clock)
    decision = _decide(runtime, main, books, judgement, book, item, stalled_s, clock)
    due = stalled_s is None or stalled_s >= float(runtime.config["notices.stall_after_s"])
    return News(books, judgement, before, book, waiting, item, decision, due)


def _head(
    runtime: Runtime,
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
    mark = notice_rules.digest_of(
        *(f"{t.id} {t.status} {t.changed_at:.3f}" for t in books.ledger.tasks)
    )
    book = notice_rules.see(book, mark, moved, clock)
    stalled_s = notice_rules.stalled_s(book, clock)
    if stalled_s >= float(runtime.config["notices.stall_after_s"]):
        from vyane_cli.projects.membership import is_at_work, members_of, turns_of

        members = members_of(runtime, project)
        if any(is_at_work(runtime, one) for one in members if one.worker.id != project.main):
            return book, None, None
        ends = []
        for one in members:
            turns, at = turns_of(runtime, one.worker)
            if one.worker.id == project.main:
                heard = notice_rules.heard_of_stall(book, mark, turns)
                at = at if heard is None else heard
            ends.append(at)
        ended = max([at for at in ends if at <= clock.at], default=0.0)  # later: it was set back
        moved = max(moved, ended)
        stalled_s = min(stalled_s, max(clock.at - ended, 0.0))
    left = tuple(name for one in judgement.evidence for name in one.items)
    item = notice_rules.stall_of(moved, mark, stalled_s, left)
    return book, item if item.key != book.stall else None, stalled_s


def _decide(
    runtime: Runtime,
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
    from vyane_cli.sessions.liveness import look

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


def message_of(
    runtime: Runtime, project: Project, main: Worker, news: News, clock: Clock
) -> Message:
    """The news as the one message of their item: its id follows from what happened."""
    item = news.item
    assert item is not None
    text = text_of(runtime, project, news.judgement, item)
    at = item.task.changed_at if item.task is not None else float(item.key.partition(":")[0])
    at = max(at, project.created_at)  # a task that was edited by hand may have no time
    notice = notice_rules.notice_id(project.name, main.id, item, at)
    message = from_vyane(notice, clock.at, main.id, Kind.CONTEXT_INJECT, text)
    return message._replace(ttl_seconds=MONTH_S)  # it counts as told, so it waits to be read


def text_of(runtime: Runtime, project: Project, judgement: Judgement, item: Item) -> str:
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
