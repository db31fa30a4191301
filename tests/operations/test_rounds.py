"""Rounds on real files: each cell, each failure, and what a kill in between leaves."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.projects import NAME, Scene
from vyane_cli.attention import needs
from vyane_cli.cli.render.machine import plain
from vyane_cli.errors import InvalidInputError, NotFoundError
from vyane_cli.mail import inbox
from vyane_cli.projects import claims, schedule
from vyane_cli.projects.catalog import join
from vyane_cli.projects.claim_rules import TaskClaim, renew
from vyane_cli.projects.need_user import ask_person
from vyane_cli.projects.schedule import set_status
from vyane_cli.projects.schedule_rules import ScheduleStatus
from vyane_cli.projects.tasks import list_tasks
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import WorkerStatus
from vyane_cli.storage import locks
from vyane_cli.upkeep import rounds


def statuses(stage: Scene) -> list[str]:
    return [plan.status for plan in schedule.load(stage.layout, NAME).plans.values()]


def project_bytes(stage: Scene) -> dict[str, bytes]:
    """Every file of the project, but what a round writes down of itself."""
    folder = Path(stage.layout("projects", NAME))
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("rounds.jsonl", "domain.lock")
    }


# ------------------------------------------------------------------ each cell


def test_a_task_and_nobody_at_work_start_one_worker(stage):
    """One of three; the ledger is not touched; the next round skips."""
    for title in ("one", "two", "three"):
        stage.add(title)
    before = Path(stage.layout.tasks(NAME)).read_bytes()
    made = stage.wake()

    assert (made.verdict.cell, made.done.outcome, made.done.task) == ("A", "started", "T1")
    assert [task for task, _ in stage.started] == ["T1"]
    assert Path(stage.layout.tasks(NAME)).read_bytes() == before
    worker = stage.worker(stage.started[0][1])
    assert (worker.project, worker.parent_worker_id) == (NAME, stage.main.worker)
    assert worker.name == f"{stage.worker(stage.main.worker).name} / t1-one"
    prompt = Path(stage.layout.prompt(worker.id)).read_text()
    assert "vyane task report T1 --project p --state done --artifact PATH" in prompt
    assert stage.cell("B") == "skip/executing"
    assert len(stage.started) == 1


def test_a_task_that_depends_on_another_is_started_after_it(stage):
    stage.add("first")
    stage.add("second", after=("T1",))
    stage.wake()
    _, worker = stage.started[0]
    stage.report("T1", "running", worker)
    stage.report("T1", "done", worker)
    stage.end(worker)

    stage.wake()

    assert [task for task, _ in stage.started] == ["T1", "T2"]


def test_a_busy_main_session_is_somebody_at_work(stage):
    stage.add()
    stage.main.prompt()

    assert stage.cell() == "skip/executing"
    assert not stage.started


def test_a_session_outside_of_the_project_is_nobody_however_near(stage):
    """A folder is no membership."""
    stage.add()
    other = stage.world.register("stranger", pid=os.getpid())
    assert other

    assert stage.cell() == "A/work-and-nobody-works"


def test_only_blocked_tasks_call_the_person_and_pause_a_and_b_together(stage):
    stage.add("needs a key")
    stage.report("T1", "blocked", reason="the key of the shop is missing")
    rules = [plan.rrule for plan in schedule.load(stage.layout, NAME).plans.values()]

    assert stage.cell() == "C/only-blocked-is-left"
    assert statuses(stage) == ["PAUSED", "PAUSED"]
    assert [plan.rrule for plan in schedule.load(stage.layout, NAME).plans.values()] == rules
    page = Path(stage.layout("queue", "NEED-USER.md")).read_text()
    assert "T1 (needs a key) is blocked: the key of the shop is missing" in page
    assert stage.cell() == "skip/paused"
    assert len(stage.needs()) == 1


def test_a_person_who_is_asked_for_something_is_a_blocker(stage):
    """Until the entry is resolved; one of another project, or of vyane's own, is none."""
    stage.add()
    stage.ask_for("tests")
    stage.report("T1", "done")
    ask_person(stage.world, "the shop is closed", "open it", project="q")
    assert stage.cell() == "B/goal-open"
    ask_person(stage.world, "the shop is closed?", "open it", project=NAME)

    assert stage.cell() == "C/only-blocked-is-left"
    assert statuses(stage) == ["PAUSED", "PAUSED"]


@pytest.mark.parametrize("where", ["folder", "worker", "elsewhere"])
def test_a_question_that_names_no_project_is_about_the_one_where_it_was_asked(
    stage, monkeypatch, tmp_path, where
):
    """In its folder, or by one of its workers; elsewhere it is about none, and is kept."""
    stage.add()
    stage.ask_for("tests")
    stage.accept("tests")
    stage.report("T1", "done")
    monkeypatch.chdir(stage.project.dir if where == "folder" else tmp_path)
    if where != "worker":
        stage.world.environ = {}
    asked = ask_person(stage.world, "the shop is closed", "open it")

    assert asked["project"] == ("" if where == "elsewhere" else NAME)
    assert stage.wake().verdict.cell == ("D" if where == "elsewhere" else "C")
    assert len(stage.needs()) == 1


def test_blocked_beside_pending_goes_on_with_the_pending(stage):
    stage.add("stuck")
    stage.add("free")
    stage.report("T1", "blocked", reason="why")

    assert stage.cell() == "A/work-and-nobody-works"
    assert [task for task, _ in stage.started] == ["T2"]
    assert statuses(stage) == ["ACTIVE", "ACTIVE"]


def test_a_met_goal_pauses_a_and_b(stage):
    """By positive evidence: the ledger, the graph, and each acceptance."""
    stage.add()
    stage.ask_for("tests")
    stage.report("T1", "done")
    assert stage.cell() == "B/goal-open"
    stage.accept("tests")

    assert stage.cell() == "D/goal-complete"
    assert statuses(stage) == ["PAUSED", "PAUSED"]


def test_an_open_goal_without_work_is_told_to_the_main_worker_once(stage):
    """The ledger is not touched, nothing is paused; a third round calls the person."""
    stage.add()
    stage.ask_for("tests", "docs")
    stage.report("T1", "done")
    before = Path(stage.layout.tasks(NAME)).read_bytes()
    made = [stage.wake() for _ in range(5)]

    assert {one.verdict.cell for one in made} == {"B"}
    assert [bool(one.done.message_id) for one in made] == [True, False, False, False, False]
    assert [one.done.called for one in made] == [False, False, True, False, False]
    assert Path(stage.layout.tasks(NAME)).read_bytes() == before
    assert statuses(stage) == ["ACTIVE", "ACTIVE"]
    (told,) = stage.world.inbox(stage.main.worker).mailbox.entries
    assert "Left: tests, docs" in told.message.payload["text"]
    assert [one["rounds"] for one in stage.log("gaps.jsonl")] == [1, 2, 3]
    stage.accept("tests")
    assert stage.wake().done.message_id, "another gap is told"


def test_a_gap_that_comes_back_after_work_is_told_anew_and_counted_anew(stage):
    """Work that came and went between two rounds ends it too: no round has to have seen that."""
    stage.add()
    stage.ask_for("tests")
    stage.report("T1", "done")
    told = []
    for seen in (True, False, True, False):
        made = stage.wake()
        told.append((made.done.message_id, made.done.rounds))
        stage.world.pass_s(60)
        task = stage.add()
        if seen:
            worker = stage.wake().done.worker
            stage.report(task, "running", worker)
            stage.report(task, "done", worker)
            stage.end(worker)
        else:
            stage.report(task, "done")
        stage.world.pass_s(1800)

    assert len({message for message, _ in told}) == 4
    assert {rounds for _, rounds in told} == {1}
    assert not [key for key in stage.needs() if key.startswith("gap:")]


def test_a_question_between_two_gaps_makes_them_two(stage):
    """The ledger did not move: that the round had something else to do ends the gap."""
    stage.add()
    stage.ask_for("tests")
    stage.report("T1", "done")
    first = stage.wake().done.message_id
    ask_person(stage.world, "the shop is closed", "open it", project=NAME)
    assert stage.cell() == "C/only-blocked-is-left"
    stage.resolve("N1")
    set_status(stage.world, NAME, ScheduleStatus.ACTIVE)
    stage.world.pass_s(60)

    again = stage.wake()
    assert (again.verdict.cell, again.done.rounds) == ("B", 1)
    assert again.done.message_id not in (None, first)


def test_what_cannot_be_told_in_between_makes_no_other_gap(stage):
    """A file that is damaged now and then: each of the two is told once."""
    stage.add()
    stage.ask_for("tests")
    stage.report("T1", "done")
    path = Path(stage.layout.taskgraph(NAME))
    good = path.read_text()
    made = []
    for text in (good, "{", good, "{", good):
        path.write_text(text)
        made.append(stage.wake())

    assert [str(one.verdict.cell) for one in made] == ["B", "E", "B", "E", "B"]
    assert [bool(one.done.message_id) for one in made] == [True, True, False, False, False]
    assert [one.done.rounds for one in made] == [1, 1, 2, 2, 3]


def test_work_behind_a_blocked_task_says_why_and_what_lets_it_go_on(stage):
    stage.add("first")
    stage.add("second", after=("T1",))
    stage.report("T1", "blocked", reason="no key")
    stage.wake()

    (entry,) = needs.list_entries(stage.layout)
    assert "T1 (first) is blocked: no key" in entry["text"]
    assert "T2 comes after T1" in entry["text"]
    assert "`vyane task report T1 --project p --state pending`" in entry["ask"]


def test_a_running_task_that_is_left_lying_names_who_has_it(stage):
    """It is not started beside its worker, which may go on: the person sees and decides."""
    stage.add("first")
    stage.report("T1", "running", stage.main.worker)
    assert stage.wake().done.called

    (entry,) = needs.list_entries(stage.layout)
    assert "T1 (first) is running, but project has it and does nothing" in entry["text"]
    assert "`vyane task report T1 --project p --state pending`" in entry["ask"]
    stage.report("T1", "pending")
    assert stage.wake().done.task == "T1"


def test_what_the_person_was_called_for_is_resolved_when_it_is_over(stage):
    """Else the list is no longer true, and the next of its kind is not called for."""
    stage.wake()
    stage.add("first")
    stage.ask_for("tests")
    stage.report("T1", "blocked", reason="no key")
    ask_person(stage.world, "the shop is closed", "open it", project=NAME)
    assert [key.split(":")[0] for key in stage.needs()] == ["goal_unknown", "ask"]
    stage.wake()
    assert [key.split(":")[0] for key in stage.needs()] == ["ask", "blocked"]
    set_status(stage.world, NAME, ScheduleStatus.ACTIVE)
    stage.wake()
    assert [key.split(":")[0] for key in stage.needs()] == ["ask", "blocked"], "it still holds"
    stage.report("T1", "pending")
    set_status(stage.world, NAME, ScheduleStatus.ACTIVE)
    stage.wake()

    assert [key.split(":")[0] for key in stage.needs()] == ["ask"]
    assert "no key" not in Path(stage.layout("queue", "NEED-USER.md")).read_text()


def test_a_task_past_its_deadline_calls_the_person_once_until_it_is_done(stage):
    """Also while somebody works: it says when it was to be done, not who has to do it."""
    late_at = stage.world.clock().at + 60
    stage.add("first", deadline_at=late_at)
    stage.wake()
    assert not stage.needs()
    stage.world.pass_s(61)
    for _ in range(2):
        assert stage.cell() == "skip/executing"
        assert stage.needs() == [f"late:{NAME}:T1:{late_at:.0f}"]
    (entry,) = needs.list_entries(stage.layout)
    assert "T1 (first) is past its deadline" in entry["text"]
    stage.report("T1", "done")
    stage.end(stage.started[0][1])
    stage.wake()

    assert not [key for key in stage.needs() if key.startswith("late:")]


def test_a_start_that_failed_is_nothing_to_look_at_once_its_task_is_done(stage):
    stage.add()
    stage.ask_for("tests")
    stage.wake()
    stage.end(stage.started[0][1], 1)
    for _ in range(2):
        stage.wake()
        assert [key.split(":")[0] for key in stage.needs()] == ["start"]
    stage.report("T1", "done")
    stage.wake()

    assert not stage.needs()


def test_a_main_worker_that_exits_a_second_time_is_called_for_again(stage):
    stage.add()
    stage.ask_for("tests")
    stage.report("T1", "done")
    key, called = f"main_exited:{NAME}:{stage.main.worker}", []
    for _ in range(2):
        stage.main.die()
        stage.wake()
        called.append(key in stage.needs())
        stage.main.process = subprocess.Popen(["sleep", "600"])
        stage.main.start("resume")
        stage.wake()
        called.append(key in stage.needs())
    stage.main.die()

    assert called == [True, False, True, False]


def test_a_main_worker_that_ended_is_not_one_that_was_never_declared(stage):
    stage.add()
    with stage.world.held((locks.LockKind.REGISTRY, "")):
        book = registry.Registry(stage.layout)
        ended = book.workers[stage.main.worker]._replace(status=WorkerStatus.KILLED)
        book.put(ended)
        book.save()

    assert stage.cell() == "E/main-ended"
    (entry,) = needs.list_entries(stage.layout)
    assert entry["key"].startswith("main_ended:")
    assert "`vyane project edit p --main WORKER`" in entry["ask"]


@pytest.mark.parametrize("name", ["tasks.json", "taskgraph.json", "goal.json"])
@pytest.mark.parametrize(
    "text", [b"{", b"", b"[]", b'{"v": 9}', b"\xff\xfe", b'{"tasks": 3, "nodes": 3, "title": 3}']
)
def test_a_file_that_cannot_be_read_starts_nothing_and_pauses_nothing(stage, name, text):
    """Whatever the others say; the person is told which one, once; the file is left as it is."""
    stage.add()
    path = Path(stage.layout("projects", NAME, name))
    path.write_bytes(text)

    assert stage.cell() == "E/unreadable"
    assert stage.cell() == "E/unreadable"
    assert not stage.started
    assert statuses(stage) == ["ACTIVE", "ACTIVE"]
    assert path.read_bytes() == text
    (key,) = stage.needs()
    assert key.startswith("unreadable:p:")
    assert Path(stage.layout("queue", "NEED-USER.md")).read_text().count(str(path)) == 1


def test_a_file_that_the_system_refuses_is_named_once(stage):
    path = Path(stage.layout.tasks(NAME))
    path.unlink()
    path.symlink_to(path.name)

    assert stage.cell() == "E/unreadable"
    assert Path(stage.layout("queue", "NEED-USER.md")).read_text().count(str(path)) == 1


@pytest.mark.parametrize("name", ["tasks.json", "taskgraph.json", "goal.json"])
def test_a_missing_file_completes_nothing(stage, name):
    """An empty state looks complete to nobody."""
    stage.add()
    stage.ask_for("tests")
    stage.report("T1", "done")
    stage.accept("tests")
    os.remove(stage.layout("projects", NAME, name))

    assert stage.cell() == "E/unreadable"
    assert statuses(stage) == ["ACTIVE", "ACTIVE"]


def test_an_empty_project_never_pauses_and_never_starts(stage):
    assert stage.cell() == "E/goal-unknown"
    assert statuses(stage) == ["ACTIVE", "ACTIVE"]
    assert not stage.started


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"schedules": {"A": {"rrule": "FREQ=HOURLY", "status": "PAUSED"}}}',
        '{"schedules": {"A": {"rrule": "x", "status": "ACTIVE"}, "B": {}}}',
        '{"v": 2}',
    ],
)
def test_damaged_schedules_start_nothing_and_are_not_overwritten(stage, text):
    stage.add()
    path = Path(stage.layout.schedules(NAME))
    path.write_text(text)

    assert stage.cell("A") == "E/schedule-unreadable"
    assert path.read_text() == text
    assert not stage.started


def test_a_schedule_that_does_not_exist_is_refused(stage):
    with pytest.raises(InvalidInputError) as refused:
        stage.wake("C")
    assert refused.value.slug == "unknown_schedule"


def test_without_a_main_worker_nothing_is_started(stage):
    """None is guessed: not the nearest, not the last."""
    stage.add()
    stage.project = stage.project._replace(main="")

    assert stage.cell() == "E/main-not-declared"
    assert [key.split(":")[0] for key in stage.needs()] == ["main_not_declared"]


@pytest.mark.parametrize("status", ["IDLE", "PENDING", "INTERRUPTED"])
def test_a_member_of_whom_nothing_can_be_told_holds_rounds_up_until_it_was_silent(stage, status):
    """It may be at work: nothing is started beside it, and nothing is paused."""
    stage.add()
    ghost = stage.world.register("ghost")
    with stage.world.held((locks.LockKind.REGISTRY, "")):
        book = registry.Registry(stage.layout)
        book.put(book.workers[ghost]._replace(project=NAME, status=WorkerStatus(status)))
        book.save()

    assert stage.cell() == "E/executing-unknown"
    assert not stage.started
    assert statuses(stage) == ["ACTIVE", "ACTIVE"]
    stage.world.wall_ahead_ms += 3_600_000
    assert stage.cell() == "E/executing-unknown", "a clock that was set ahead is no silence"
    stage.world.pass_s(1400)
    assert stage.cell() == "E/executing-unknown"
    stage.world.pass_s(101)
    assert stage.cell() == "A/work-and-nobody-works"
    assert stage.worker(ghost).status in (status, WorkerStatus.STALE)


def test_one_that_left_the_project_holds_no_round_up(stage):
    """As the person is told who is called because of it."""
    stage.add()
    stage.world.register("ghost")
    join(stage.world, NAME, "ghost")
    assert stage.cell() == "E/executing-unknown"
    (entry,) = needs.list_entries(stage.layout)
    assert "`vyane project leave NAME`" in entry["ask"]
    join(stage.world, "", "ghost")

    assert stage.cell() == "A/work-and-nobody-works"


def test_an_exited_main_worker_lets_the_round_go_on(stage):
    """The worker that it starts goes on without it: it is nobody's orphan."""
    stage.add()
    stage.main.die()

    assert stage.cell() == "A/work-and-nobody-works"
    stage.world.pass_s(1300)
    assert stage.cell() == "skip/executing"
    assert stage.worker(stage.started[0][1]).status not in ("INTERRUPTED", "FAILED")
    assert not [key for key in stage.needs() if key.startswith("orphan:")]


# ------------------------------------------------------------------ pause and lock


def test_a_paused_schedule_ends_at_once_and_touches_nothing(stage):
    """No lock file, no read of what else there is: the ledger may be damaged."""
    stage.add()
    set_status(stage.world, NAME, ScheduleStatus.PAUSED)
    Path(stage.layout.tasks(NAME)).write_text("{")
    before = project_bytes(stage)

    assert stage.cell("A") == "skip/paused"
    assert not os.path.exists(stage.layout.domain(NAME))
    assert project_bytes(stage) == before
    assert stage.cell("") == "E/unreadable", "a round by hand is stopped by no pause"


def test_a_round_beside_another_ends_at_once(stage):
    stage.add()
    lock = locks.take_now(stage.layout.domain(NAME))
    assert lock is not None

    made = stage.wake()
    assert (made.verdict.cell, made.verdict.reason) == ("skip", "domain-locked")
    assert [one.name for one in made.seen.readings] == ["schedule", "lock"]
    assert stage.wake(dry_run=True).verdict.reason == "domain-locked"
    locks.give_back(lock)
    assert stage.cell() == "A/work-and-nobody-works"


def test_a_look_at_what_a_round_would_do_keeps_no_round_out(stage, monkeypatch):
    """It has the domain for a moment, and a round that comes in it waits that long."""
    stage.add()
    looker = locks.take_now(stage.layout.domain(NAME))
    real = locks._wait

    def wait(fd, path, deadline):
        locks.give_back(looker)
        real(fd, path, deadline)

    monkeypatch.setattr(locks, "_wait", wait)

    assert stage.cell() == "A/work-and-nobody-works"


def test_a_dry_run_changes_no_byte(stage):
    stage.add()
    before = project_bytes(stage)
    made = stage.wake(dry_run=True)

    assert (made.verdict.cell, made.done) == ("A", None)
    assert project_bytes(stage) == before
    assert not stage.started
    assert not os.path.exists(stage.layout.domain(NAME))


def test_a_round_prints_every_reading_with_its_file_in_order(stage):
    stage.add()
    data = plain(stage.wake(dry_run=True).report())

    assert json.loads(json.dumps(data)) == data
    names = [one["name"] for one in data["readings"]]
    assert names[:5] == ["schedule", "lock", "queue", "executing", "goal"]
    for one in data["readings"]:
        assert one["file"].startswith(stage.layout.root)
        assert one["value"]


def test_a_pause_changes_both_or_none(stage, monkeypatch):
    """And only `status`: what a person wrote beside it stays."""
    path = Path(stage.layout.schedules(NAME))
    set_status(stage.world, NAME, ScheduleStatus.ACTIVE)
    schedule.save(stage.layout, NAME, schedule.load(stage.layout, NAME))
    data = json.loads(path.read_text())
    data["schedules"]["A"]["note"] = "mine"
    path.write_text(json.dumps(data))
    set_status(stage.world, NAME, ScheduleStatus.PAUSED)
    after = json.loads(path.read_text())

    for name in ("A", "B"):
        data["schedules"][name]["status"] = "PAUSED"
    assert after == data


# ------------------------------------------------------------------ a worker that fails


def test_a_program_that_is_not_there_is_named_and_nothing_is_claimed(stage):
    """No second way is tried, nothing is paused, and the person is called once."""
    stage.add()
    with open(stage.layout.config, "a") as file:
        file.write('\n[runtimes.gone]\nspawn = ["/no/such/program"]\n')
    text = Path(stage.layout.config).read_text().replace('runtime = "sh"', 'runtime = "gone"')
    Path(stage.layout.config).write_text(text)
    for _ in range(2):
        stage.world._config = None
        made = stage.wake()
        assert isinstance(made.error, NotFoundError)
        assert made.verdict.cell == "A"

    assert not stage.started
    assert not stage.held()
    assert statuses(stage) == ["ACTIVE", "ACTIVE"]
    assert len(stage.needs()) == 1


def test_an_unknown_runtime_is_named(stage):
    stage.add()
    text = Path(stage.layout.config).read_text().replace('runtime = "sh"', 'runtime = "shh"')
    Path(stage.layout.config).write_text(text)
    stage.world._config = None

    assert stage.wake().error.slug == "unknown_runtime"
    assert not stage.held()


def wait_for_a_start(stage: Scene, seconds: int) -> None:
    text = Path(stage.layout.config).read_text()
    Path(stage.layout.config).write_text(
        text.replace("\n[wake]\n", f"\n[wake]\nstart_wait_s = {seconds}\n")
    )
    stage.world._config = None


def test_a_worker_that_does_not_register_keeps_its_task_and_calls_the_person(stage):
    stage.registers = False
    stage.add()
    wait_for_a_start(stage, 1)
    made = stage.wake()

    assert made.done.outcome == "not-registered"
    (key,) = stage.needs()
    assert key.startswith("start:p:T1:")
    assert "tries again by itself" in needs.list_entries(stage.layout)[0]["ask"]
    lock = locks.take_now(stage.layout.domain(NAME))
    assert lock is not None, "the domain is free again"
    locks.give_back(lock)
    assert stage.cell() == "skip/executing", "it may still come"
    assert len(stage.started) == 1


@pytest.mark.parametrize("status, fate", [(1, "failed"), (0, "ended-without-a-report")])
def test_a_worker_that_failed_is_not_started_again_until_the_person_has_looked(stage, status, fate):
    stage.add()
    stage.add("another")
    stage.wake()
    _, worker = stage.started[0]
    stage.end(worker, status)
    stage.wake()
    assert [task for task, _ in stage.started] == ["T1", "T2"], "the others go on"
    stage.report("T2", "done")
    stage.end(stage.started[1][1])

    assert stage.wake(dry_run=True).would == "call-the-person"
    made = stage.wake()
    assert made.done.outcome == "nothing-can-start"
    assert made.done.stuck == ("T1",)
    assert [row.stuck for row in list_tasks(stage.world, stage.project)] == [fate, None]
    (key,) = stage.needs()
    assert fate in Path(stage.layout("queue", "NEED-USER.md")).read_text()
    assert stage.wake().done.stuck == ("T1",)
    assert stage.needs() == [key]
    stage.resolve(key)
    assert [row.stuck for row in list_tasks(stage.world, stage.project)] == [None, None]
    stage.wake()
    assert [task for task, _ in stage.started] == ["T1", "T2", "T1"]


def test_a_worker_that_was_killed_is_replaced_at_once_but_not_for_ever(stage):
    """Three times; then somebody has to look."""
    stage.add()
    for number in range(1, 4):
        stage.wake()
        assert len(stage.started) == number
        stage.crash(stage.started[-1][1])
    made = stage.wake()

    assert len(stage.started) == 3
    assert made.done.stuck == ("T1",)
    assert statuses(stage) == ["ACTIVE", "ACTIVE"]


@pytest.mark.parametrize("reports", [("pending",), ("running", "pending"), ("done", "pending")])
def test_what_a_person_reports_frees_no_task_of_a_live_worker(stage, reports):
    """It is silent and the project goes on; its own task stays with it."""
    stage.add()
    stage.wake()
    ((_, worker),) = stage.started
    stage.world.pass_s(60)
    for status in reports:
        stage.report("T1", status)
    for _ in range(4):
        stage.world.pass_s(1800)
        stage.wake()

    assert stage.alive() == [worker]
    assert stage.started == [("T1", worker)]
    stage.crash(worker)
    stage.wake()
    assert [task for task, _ in stage.started] == ["T1", "T1"], "its end frees the task"


def test_a_worker_gives_its_own_task_back_and_no_claim_of_another(stage):
    """A late word of the first worker is no word of the one that was started after it."""
    stage.add()
    stage.wake()
    _, first = stage.started[0]
    stage.report("T1", "running", first)
    stage.report("T1", "pending", first)
    assert stage.held() == frozenset()
    stage.end(first, -9)
    stage.wake()
    _, second = stage.started[1]
    stage.report("T1", "blocked", first, reason="late")
    stage.report("T1", "pending", first)

    assert stage.held() == {"T1"}
    stage.report("T1", "running", second)
    stage.report("T1", "blocked", second, reason="no key")
    assert stage.held() == frozenset()


def test_a_report_and_its_claim_are_one_step_to_a_round(stage, monkeypatch):
    """The lock of the ledger is held from the one to the other: no round comes in between."""
    stage.add()
    stage.wake()
    _, worker = stage.started[0]
    stage.report("T1", "running", worker)
    real, taken = stage.world.held, []

    def held(*wanted, **more):
        taken.extend(kind for kind, _ in wanted)
        return real(*wanted, **more)

    monkeypatch.setattr(stage.world, "held", held)
    stage.report("T1", "blocked", worker, reason="no key")

    assert taken == [locks.LockKind.LEDGER]
    assert stage.held() == frozenset()


def test_a_running_task_whose_worker_died_is_taken_up_again(stage):
    """The round does not edit the ledger: the new worker reports."""
    stage.add()
    stage.wake()
    stage.report("T1", "running", stage.started[0][1])
    stage.crash(stage.started[0][1])
    before = Path(stage.layout.tasks(NAME)).read_bytes()

    assert stage.cell() == "A/work-and-nobody-works"
    assert [task for task, _ in stage.started] == ["T1", "T1"]
    assert Path(stage.layout.tasks(NAME)).read_bytes() == before


def test_a_claim_that_cannot_be_read_holds_its_task_and_calls_the_person_once(stage):
    stage.add()
    stage.add()
    path = Path(stage.layout.claim(NAME, "T1"))
    path.parent.mkdir()
    path.write_text("{")
    stage.wake()
    stage.wake()

    assert [task for task, _ in stage.started] == ["T2"], "the others go on"
    assert stage.needs() == [f"claim:{path}"]
    page = Path(stage.layout("queue", "NEED-USER.md")).read_text()
    assert f"remove {path}" in page
    stage.crash(stage.started[0][1])
    path.unlink()
    stage.wake()
    assert stage.started[-1][0] == "T1"


def test_a_running_task_that_no_known_worker_runs_is_not_started_a_second_time(stage):
    """A person, or a session that lives, may be at it: the person is called."""
    stage.add()
    stage.report("T1", "running")
    assert stage.wake(dry_run=True).would == "call-the-person"
    made = stage.wake()

    assert made.done.outcome == "nothing-can-start"
    assert not stage.started
    assert [key.split(":")[0] for key in stage.needs()] == ["waiting"]
    assert stage.wake().verdict.cell == "A"
    assert len(stage.needs()) == 1


def test_work_that_waits_for_what_is_blocked_is_not_no_work(stage):
    stage.add("needs a key")
    stage.add("after it", after=("T1",))
    stage.report("T1", "blocked", reason="why")

    assert stage.cell() == "A/work-and-nobody-works"
    assert statuses(stage) == ["ACTIVE", "ACTIVE"]
    assert "T2 comes after T1" in Path(stage.layout("queue", "NEED-USER.md")).read_text()


# ------------------------------------------------------------------ time


@pytest.mark.parametrize("step_s", [-7200, 7200])
def test_a_clock_that_is_set_back_makes_no_failing_task_start_again(stage, step_s):
    """Which starts count, and in which order, is a matter of numbers, not of times."""
    stage.add()
    stage.world.wall_ahead_ms = step_s * 1000
    for _ in range(3):
        stage.wake()
        for worker in stage.alive():
            stage.end(worker, 1)
        stage.world.wall_ahead_ms -= 900_000

    assert len(stage.started) == 1
    (key,) = [one for one in stage.needs() if one.startswith("start:")]
    stage.resolve(key)
    stage.wake()
    stage.end(stage.started[1][1], 1)
    stage.wake()
    assert len(stage.started) == 2, "the look was at the first start, not at the second"

    stage.report("T1", "blocked", reason="no key")
    stage.report("T1", "pending")
    assert stage.wake().done.outcome == "started", "what was tried before that is over"


@pytest.mark.parametrize("step_s", [-3600, 3600, -86_400 * 400, 86_400 * 30])
def test_a_step_of_the_wall_clock_starts_nothing_twice_and_pauses_nothing(stage, step_s):
    stage.add()
    stage.add()
    stage.wake()
    Path(stage.layout.output(stage.started[0][1])).parent.mkdir(exist_ok=True)
    stage.world.wall_ahead_ms = step_s * 1000

    assert stage.cell() == "skip/executing"
    stage.world.wall_ahead_ms = 0
    Path(stage.layout.output(stage.started[0][1])).write_text("a sign of life\n")
    assert stage.cell() == "skip/executing"
    assert len(stage.started) == 1
    assert statuses(stage) == ["ACTIVE", "ACTIVE"]


@pytest.mark.parametrize("step_s", [-86_400, 86_400])
def test_a_step_of_the_wall_clock_frees_no_task_of_an_idle_worker_and_keeps_none(stage, step_s):
    """A claim is as old as the boot clock says."""
    stage.add()
    idle = stage.world.register("idle", os.getpid())
    clock = stage.world.clock()
    with stage.world.held((locks.LockKind.LEDGER, NAME)):
        claims.take(
            stage.layout,
            NAME,
            renew(
                TaskClaim(task="T1", worker=idle, round="r", at=clock.at, renewed_at=clock.at),
                clock,
            ),
        )
    stage.world.wall_ahead_ms = step_s * 1000
    assert stage.wake(dry_run=True).would == "nothing-can-start"
    assert stage.wake().done.outcome == "nothing-can-start"
    stage.world.sleep_s(7_200)
    assert stage.wake().done.outcome == "nothing-can-start", "nobody could report in its sleep"
    stage.world.pass_s(1_201)
    assert stage.wake().done.outcome == "started"


@pytest.mark.parametrize("step_s", [-86_400, 86_400])
def test_a_child_whose_launcher_never_came_holds_rounds_up_for_a_minute(stage, step_s):
    """And neither longer nor shorter because the wall clock was set."""
    stage.registers = False
    stage.add()
    wait_for_a_start(stage, 1)
    assert stage.wake().done.outcome == "not-registered"
    stage.world.wall_ahead_ms = step_s * 1000
    assert stage.cell() == "skip/executing"
    stage.world.pass_s(61)
    assert stage.cell() == "A/work-and-nobody-works"


@pytest.mark.parametrize("jump", ["wall clock", "suspend", "two suspends"])
def test_time_that_nobody_could_work_in_starts_no_second_worker_beside_a_live_one(stage, jump):
    """The first round after it finds the worker stale; the next ones give it its time."""
    stage.add()
    stage.add()
    stage.wake()
    stage.world.pass_s(120)
    if jump == "wall clock":
        stage.world.wall_ahead_ms += 3_600_000
    else:
        stage.world.sleep_s(3600)
    for _ in range(3):
        assert stage.cell() == "skip/executing"
        stage.world.pass_s(60)
        if jump == "two suspends":
            stage.world.sleep_s(3600)

    assert len(stage.started) == 1
    stage.world.pass_s(1500)
    stage.wake()
    assert [task for task, _ in stage.started] == ["T1", "T2"], "it is given up in the end"


def test_a_worker_without_a_sign_holds_up_the_project_no_longer_than_two_rounds(stage):
    """Its own task stays with it as long as its process lives."""
    stage.add()
    stage.add()
    stage.wake()
    stage.world.pass_s(1800)
    assert stage.cell() == "skip/executing"
    stage.world.pass_s(1800)

    assert stage.cell() == "A/work-and-nobody-works"
    assert [task for task, _ in stage.started] == ["T1", "T2"]


def test_a_start_that_the_main_session_lets_pass_holds_no_round_up(stage):
    """It is given up by the round itself, the person is called once, and the mail waits again."""
    stage.add()
    mail = stage.world.send(stage.main.worker, "hello")
    assert stage.main.watch().reply.wake
    assert stage.cell() == "skip/executing"
    stage.world.pass_s(300)

    assert stage.wake(dry_run=True).verdict.cell == "A"
    assert stage.cell() == "A/work-and-nobody-works"

    box = inbox.read(stage.layout.inbox(stage.main.worker)).mailbox
    assert box.head.handshake is None
    assert box.find(mail).waiting
    assert [key.partition(":")[0] for key in stage.needs()] == [stage.main.worker]
    assert mail in stage.needs()[0]


def test_an_inbox_that_cannot_be_read_holds_up_the_mail_of_no_other(stage):
    """What is too old in one is settled, whatever lies in the place of another."""
    old = stage.world.register("old")
    late = stage.world.send(old, "hello", ttl_s=60)
    os.makedirs(stage.layout.inbox(stage.world.register("odd", os.getpid())))
    stage.world.pass_s(120)
    made = stage.wake()

    assert "registry" not in [one["what"] for one in made.maintenance["skipped"]]
    left = inbox.read(stage.layout.inbox(old)).mailbox.find(late)
    assert left is None or left.status == "expired", "it is settled, and may be archived by now"


def test_rounds_that_were_missed_are_one(stage):
    """Twenty at once after a night: each looks at how things are."""
    stage.add()
    stage.add()
    for number in range(20):
        stage.wake("AB"[number % 2])

    assert len(stage.started) == 1


def test_a_round_advances_no_notice(stage):
    """The main worker is idle and a task is blocked: telling it is a tick's part."""
    stage.add()
    stage.report("T1", "blocked", reason="why")

    assert stage.cell() == "C/only-blocked-is-left"
    assert not [name for name in project_bytes(stage) if "notice" in name or "deliver" in name]


def test_while_a_round_shows_what_happened_another_may_begin(stage, monkeypatch):
    """A channel that is slow to answer holds up no round but its own."""
    seen: list[str] = []

    def show(home, reached) -> int:
        if not seen:
            seen.append("")
            seen[0] = str(stage.wake("B").verdict.cell)
        return 0

    monkeypatch.setattr(rounds, "show_all", show)
    stage.wake("A")

    assert seen[0] not in ("", "skip")
