"""What the main worker of a project does not know yet, in which order, and when it stalls."""

from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.kernel.clock import Clock
from vyane_cli.projects.notice_rules import (
    STALL_STEPS_S,
    Book,
    NoticeKind,
    changes,
    count,
    digest_of,
    forget,
    known,
    notice_id,
    parse_book,
    render_book,
    see,
    stall_of,
    stalled_s,
    tell,
)
from vyane_cli.projects.task import Ledger, Task, TaskStatus

NOW = Clock(1_000_000_000, 5_000_000, "boot")


statuses = st.sampled_from(list(TaskStatus))
ledgers = st.lists(st.tuples(statuses, st.integers(0, 9)), max_size=8).map(
    lambda rows: Ledger(
        tuple(
            Task(f"T{n}", f"task {n}", status=status, changed_at=float(at), reason="why")
            for n, (status, at) in enumerate(rows, 1)
        )
    )
)


@given(ledgers)
def test_each_change_is_told_once_blocked_ones_first(ledger):
    """Told one after the other, the queue ends; nothing is left out and nothing comes twice."""
    book, told = Book(), []
    while items := changes(ledger, book, "main"):
        told.append(items[0])
        book = tell(book, items[0], "m", NOW, 0)

    wanted = [t for t in ledger.tasks if t.status in (TaskStatus.BLOCKED, TaskStatus.DONE)]
    assert sorted(item.task.id for item in told) == sorted(task.id for task in wanted)
    kinds = [item.kind for item in told]
    assert kinds == sorted(kinds, key=list(NoticeKind).index)


@given(ledgers)
def test_what_a_project_begins_with_and_its_own_word_are_no_news(ledger):
    assert not changes(ledger, known(Book(), ledger), "main")
    own = Ledger(tuple(task._replace(worker="main") for task in ledger.tasks))
    assert not changes(own, Book(), "main")


def test_a_task_that_is_blocked_again_is_news_again():
    task = Task("T1", "one", status=TaskStatus.BLOCKED, reason="why", changed_at=1.0)
    (first,) = changes(Ledger((task,)), Book(), "")
    book = count(Book(), first)
    assert not changes(Ledger((task,)), book, "")
    (again,) = changes(Ledger((task._replace(changed_at=2.0),)), book, "")

    assert again.digest == first.digest
    assert notice_id("p", "w", again, 2.0) != notice_id("p", "w", first, 1.0)
    assert notice_id("p", "w", first, 1.0) == notice_id("p", "w", first, 1.0)


def test_the_content_is_the_same_whatever_its_white_space():
    assert digest_of("a  b\n") == digest_of("a b")
    assert digest_of("a", "b") != digest_of("a b")


def test_a_stall_is_another_one_only_at_the_next_step():
    keys = [stall_of(1.0, "m", seconds, ()).key for seconds in range(0, 50_000, 60)]

    assert len(set(keys)) == len(STALL_STEPS_S)


@given(st.integers(-(10**6), 10**6), st.integers(0, 10**6))
def test_after_it_was_seen_no_step_of_the_wall_clock_makes_a_stall(step_s, waited_s):
    book = see(Book(), "mark", NOW.at - 60, NOW)
    later = Clock(NOW.now_ms + (step_s + waited_s) * 1000, NOW.boot_ms + waited_s * 1000, "boot")

    assert see(book, "mark", NOW.at - 60, later) == book
    assert stalled_s(book, later) == 60 + waited_s


def test_a_book_is_read_back_and_forgets_what_the_ledger_has_no_more():
    book = Book(
        told={"T1": "done:1", "T2": "done:2"},
        digest="d",
        message="m",
        at=1.0,
        boot="b",
        boot_ms=2,
        stall="s",
        mark="k",
        mark_boot="b",
        mark_boot_ms=3,
        mark_age_s=4.0,
    )

    assert parse_book(render_book(book)) == book
    assert forget(book, Ledger((Task("T2", "two"),))).told == {"T2": "done:2"}
