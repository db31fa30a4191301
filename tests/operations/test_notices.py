"""Notices of ticks to a main worker: pages first, then at most one, through every throttle."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.projects import NAME, Scene
from vyane_cli.cli.render.machine import plain
from vyane_cli.delivery.explain import call_for_worker, explain
from vyane_cli.delivery.gating import NOTICE_GATES, Gate
from vyane_cli.hosts import generic, port
from vyane_cli.projects import supervise
from vyane_cli.projects.catalog import create_project
from vyane_cli.projects.supervise import plan_notice
from vyane_cli.storage import journal


def said(stage: Scene) -> list[str]:
    """The first line of each notice that the main session was shown."""
    return [text.splitlines()[1] for text in stage.shown]


def rule(stage: Scene) -> str:
    """The last decision of the delivery log."""
    log = stage.log("deliveries.jsonl")
    return log[-1]["rule"] if log else ""


def page(stage: Scene, name: str) -> str:
    return Path(stage.layout("projects", NAME, name)).read_text()


def tick_of_another(stage: Scene) -> None:
    """A tick of another worker of the project: the round's, which works on a task."""
    stage.registers = True
    stage.add("filler")
    stage.wake()


def test_a_blocked_task_is_told_before_those_that_are_done(stage):
    """One notice a turn, and the next one when its time has come."""
    for title in ("one", "two", "three"):
        stage.add(title)
    stage.report("T1", "done")
    stage.report("T2", "done")
    stage.report("T3", "blocked", reason="no key")
    stage.look_again()

    assert said(stage) == ["[project p] Task T3 is blocked: three"]
    assert rule(stage) == Gate.TOO_SOON
    stage.world.pass_s(301)
    stage.look_again()
    stage.world.pass_s(301)
    stage.look_again()
    assert said(stage)[1:] == [
        "[project p] Task T1 is done: one",
        "[project p] Task T2 is done: two",
    ]
    for _ in range(5):
        stage.world.pass_s(301)
        stage.look_again()
    assert [one["kind"] for one in stage.told()][:4] == ["blocked", "done", "done", "stall"]
    assert len(stage.told()) == 4


def test_the_pages_are_written_although_the_notice_is_refused(stage):
    """Content first: what is not told, and what the goal still needs, stands there to be read."""
    stage.add("one")
    stage.ask_for("tests")
    stage.main.prompt()
    stage.report("T1", "blocked", reason="no key")
    stage.main.call("Notification-idle_prompt", rewake=True, prompt_id="of an earlier turn")
    stage.main.watch()

    assert not stage.told()
    assert rule(stage) == Gate.TARGET_BUSY
    assert "T1 (blocked): one — no key" in page(stage, "TO_MAIN.md")
    assert "Goal: open — ship it\n" in page(stage, "TO_MAIN.md")
    assert "- goal: 0 of 1 acceptances passed; left: tests\n" in page(stage, "TO_MAIN.md")
    assert [one["id"] for one in json.loads(page(stage, "blocked.json"))["blocked"]] == ["T1"]


def test_a_page_that_was_edited_decides_nothing(stage):
    stage.add("one")
    stage.main.watch()
    Path(stage.layout.to_main(NAME)).write_text("- T1 (blocked): one\n")
    Path(stage.layout.blocked(NAME)).write_text("[]")
    stage.look_again()

    assert not stage.told()
    assert "T1 (pending): one" in page(stage, "TO_MAIN.md")


def test_a_page_without_news_is_not_written_anew(stage):
    stage.add("one")
    stage.main.watch()
    before = os.stat(stage.layout.to_main(NAME)).st_mtime_ns
    stage.world.pass_s(60)
    stage.main.watch()

    assert os.stat(stage.layout.to_main(NAME)).st_mtime_ns == before


# ------------------------------------------------------------------ each throttle


def test_every_throttle_has_a_name_and_none_is_left_out():
    assert {Gate.SINGLE_ITEM, Gate.TARGET_BUSY, Gate.SAME_ITEM, Gate.TOO_SOON, Gate.TRUE_STALL} < (
        set(NOTICE_GATES)
    )


def test_single_item_the_next_waits_until_the_turn_of_the_first_is_over(stage):
    stage.add("one")
    stage.add("two")
    stage.report("T1", "done")
    stage.main.watch()  # it becomes a message, and the host is rung
    stage.report("T2", "done")
    launch_tick(stage, stage.main.worker)
    assert rule(stage) == Gate.SINGLE_ITEM, "it was not read yet"
    taken = stage.main.watch()
    stage.world.pass_s(250)
    launch_tick(stage, stage.main.worker)
    assert (len(stage.told()), rule(stage)) == (1, Gate.SINGLE_ITEM), "its turn is not over"
    stage.read(taken)
    stage.world.pass_s(400)
    stage.look_again()
    assert len(stage.told()) == 2


def test_too_soon_is_299_seconds_and_not_300(stage):
    stage.add("one")
    stage.add("two")
    stage.report("T1", "done")
    stage.look_again()
    last = stage.told()[0]["at"]
    stage.report("T2", "done")
    start = max(last, stage.world.clock().at)
    stage.look_again()
    assert (len(stage.told()), rule(stage)) == (1, Gate.TOO_SOON)
    waited = stage.world.clock().at - start
    head = stage.world.inbox(stage.main.worker).mailbox.head
    assert head.normal_ms is not None
    left = 300 - (stage.world.clock().boot_ms - head.normal_ms) / 1000
    stage.world.pass_s(left - 0.5)
    stage.look_again()
    assert len(stage.told()) == 1, waited
    stage.world.pass_s(0.5)
    stage.look_again()
    assert len(stage.told()) == 2


def test_same_item_what_was_told_last_is_told_no_second_time_and_counts_as_told(stage):
    """Blocked, put back, and blocked for the same reason, with nothing told in between."""
    stage.add("one")
    stage.report("T1", "blocked", reason="no key")
    stage.look_again()
    stage.report("T1", "pending")
    stage.world.pass_s(400)
    stage.report("T1", "blocked", reason="no  key")
    stage.look_again()

    assert len(stage.told()) == 1
    assert rule(stage) == Gate.SAME_ITEM
    stage.look_again()
    assert len(stage.log("deliveries.jsonl")) == 2, "it counts as told"
    stage.report("T1", "pending")
    stage.report("T1", "blocked", reason="another reason")
    stage.look_again()
    assert len(stage.told()) == 2


def test_same_item_is_what_was_told_last_and_not_what_was_told_before_that(stage):
    """A, B, A is three notices: the second A is news to one who was told B."""
    stage.add("one")
    for reason in ("no key", "no network", "no key"):
        stage.report("T1", "pending")
        stage.report("T1", "blocked", reason=reason)
        stage.world.pass_s(301)
        stage.look_again()

    assert [one["kind"] for one in stage.told()] == ["blocked"] * 3


@pytest.mark.parametrize("waited_s, told", [(899, 0), (901, 1)])
def test_a_stall_is_told_after_fifteen_minutes_without_progress(stage, waited_s, told):
    """Once, and again when it has lasted four times as long; its text has no finer time."""
    stage.add("one")
    stage.ask_for("tests")
    stage.main.watch()
    stage.world.pass_s(waited_s)
    stage.look_again()

    assert len(stage.told()) == told
    if told:
        assert said(stage) == [
            "[project p] Nothing has moved for 15 min: no task changed and no turn ended well. "
            "The goal is open."
        ]
        assert "Left: T1, tests" in stage.shown[0]


def test_a_stall_is_none_while_somebody_works_or_just_ended_well(stage):
    stage.add("one")
    stage.ask_for("tests")
    stage.wake()
    stage.world.pass_s(2000)
    stage.look_again()
    assert not stage.told(), "the worker is at it"
    stage.crash(stage.started[0][1])
    stage.main.prompt()
    stage.main.stop()
    stage.look_again()
    assert not stage.told(), "a turn has just ended well"
    stage.world.pass_s(1000)
    stage.look_again()
    assert len(stage.told()) == 1


def test_a_stall_that_nobody_has_read_keeps_no_round_from_starting_a_worker(stage):
    """It waits in the inbox; only a turn that it has begun is somebody at work."""
    stage.add("one")
    stage.ask_for("tests")
    stage.main.watch()
    stage.world.pass_s(901)
    launch_tick(stage, stage.main.worker)
    assert [one["kind"] for one in stage.told()] == ["stall"]

    assert stage.cell() == "A/work-and-nobody-works"


def test_one_stall_is_told_of_at_each_step_and_not_in_between(stage):
    """To read of it and to end the turn well moves nothing."""
    stage.add("one")
    stage.ask_for("tests")
    stage.main.watch()
    began = stage.world.clock().at
    for _ in range(288):  # a day
        stage.world.pass_s(300)
        stage.look_again()
    quarters = [(one["at"] - began) // 900 for one in stage.told()]

    assert quarters == [1, 4, 16, 48]
    assert len(stage.shown) == 4


def test_a_turn_of_the_person_after_a_stall_is_progress_and_the_same_words_wait(stage):
    """What the main worker was told last is not told again: the next step says something else."""
    stage.add("one")
    stage.ask_for("tests")
    stage.main.watch()
    stage.world.pass_s(901)
    stage.look_again()
    stage.world.pass_s(2000)
    stage.main.prompt()
    stage.main.stop()
    stage.world.pass_s(1000)
    stage.look_again()
    assert (len(stage.told()), rule(stage)) == (1, Gate.SAME_ITEM)
    stage.world.pass_s(2700)
    stage.look_again()
    assert (len(stage.told()), "for 1 h" in stage.shown[-1]) == (2, True)


def test_a_clock_that_is_set_ahead_makes_no_stall(stage):
    stage.add("one")
    stage.ask_for("tests")
    stage.main.watch()
    stage.world.wall_ahead_ms = 3_600_000
    stage.look_again()

    assert not stage.told()


@pytest.mark.parametrize("step_s", [-3600, 3600])
def test_a_clock_that_steps_changes_no_throttle(stage, step_s):
    stage.add("one")
    stage.add("two")
    stage.report("T1", "done")
    stage.look_again()
    stage.report("T2", "done")
    stage.world.wall_ahead_ms = step_s * 1000
    stage.look_again()

    assert (len(stage.told()), rule(stage)) == (1, Gate.TOO_SOON)


@pytest.mark.parametrize("step_s", [-7200, 7200])
def test_a_clock_that_is_set_back_silences_no_notice(stage, step_s):
    """What is news is what the book does not have, not what is younger than the project."""
    stage.world.wall_ahead_ms = step_s * 1000
    stage.add("one")
    stage.report("T1", "blocked", reason="no key")
    stage.look_again()

    assert [one["task"] for one in stage.told()] == ["T1"]


def test_what_moves_while_the_clock_is_set_back_is_no_stall(stage):
    stage.ask_for("tests")
    for _ in range(8):
        stage.add("one")
    stage.main.watch()
    stage.world.wall_ahead_ms = -7_200_000
    for number in range(1, 7):
        stage.report(f"T{number}", "running")
        stage.world.pass_s(290)
        read, stage.read = stage.read, lambda seen: None  # nobody at it: no turn ends well
        stage.main.watch()
        stage.read = read

    assert not stage.told()
    stage.world.pass_s(901)
    stage.look_again()
    assert [one["kind"] for one in stage.told()] == ["stall"], "now nothing moves"


def test_what_a_project_begins_with_is_no_news(stage):
    stage.add("one")
    stage.report("T1", "done")
    Path(stage.layout.project(NAME)).unlink()
    os.makedirs(stage.project.dir, exist_ok=True)
    create_project(stage.world, NAME, stage.project.dir, stage.main.worker)
    stage.look_again()
    assert not stage.told()

    stage.add("two")
    stage.report("T2", "done")
    stage.look_again()
    assert [one["task"] for one in stage.told()] == ["T2"]


# ------------------------------------------------------------------ whom


def test_what_counts_as_told_waits_for_a_main_worker_that_was_closed_over_the_weekend(stage):
    """Else it would be gone: what was told is told no second time."""
    stage.add("one")
    stage.ask_for("tests")
    stage.report("T1", "blocked", reason="no key")
    launch_tick(stage, stage.main.worker)
    stage.main.die()
    stage.world.pass_s(3 * 86_400)
    stage.wake()
    stage.main.process = subprocess.Popen(["sleep", "600"])
    try:
        told = stage.main.start("resume").text + stage.main.prompt().text
    finally:
        stage.main.die()

    assert told.count("Task T1 is blocked") == 1


def test_an_exited_main_worker_is_told_nothing_and_nobody_else_is(stage):
    """The person is called once; it is told when it comes back."""
    stage.add("one")
    stage.add("two")
    stage.wake()
    other = stage.started[0][1]
    stage.report("T2", "blocked", reason="no key")
    stage.main.die()
    stage.world.pass_s(60)
    launch_tick(stage, other)
    launch_tick(stage, other)

    assert not stage.told()
    assert rule(stage) == "main-exited"
    assert [key for key in stage.needs() if key.startswith("main_exited:p:")]
    assert len(stage.needs()) == 1
    box = stage.world.inbox(other).mailbox
    assert not [one for one in box.entries if one.message.from_id == "vyane"]


def launch_tick(stage: Scene, worker: str) -> None:
    """A call of a worker that a round has started."""
    deadline = stage.world.deadline(10)
    call = port.HookCall("generic", port.HostEvent.CALL, "call", "s")
    supervise.supervise(stage.world, worker, call, deadline)


# ------------------------------------------------------------------ a look at it


def shown_by_a_dry_run(stage: Scene, worker: str = "") -> dict[str, Any] | None:
    """What `tick --dry-run` says of notices, having changed no byte of anything."""
    root = Path(stage.layout.root)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    call = call_for_worker(stage.world, worker or stage.main.worker, looking=True)
    found: dict[str, Any] | None = plain(explain(stage.world, call, generic, plan_notice).notice)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    return found


def test_a_dry_run_shows_what_would_be_told_and_what_holds_it(stage):
    """Neither the pages nor the book of notices nor the log changes by it."""
    assert shown_by_a_dry_run(stage) is None, "nothing is new"
    stage.add("one")
    stage.add("two")
    stage.report("T1", "done")
    found = shown_by_a_dry_run(stage)
    assert found is not None
    assert (found["told"], found["kind"], found["task"]) == (True, "done", "T1")
    assert found["to"] == stage.main.worker

    stage.look_again()
    assert [one["task"] for one in stage.told()] == ["T1"], "a dry run told nothing"
    stage.report("T2", "blocked", reason="no key")
    found = shown_by_a_dry_run(stage)
    assert found is not None
    assert (found["told"], found["rule"], found["task"]) == (False, Gate.TOO_SOON, "T2")
    assert found["readings"]["minimum_s"] == 300
    assert shown_by_a_dry_run(stage, stage.world.register("stranger")) is None


def test_a_dry_run_names_a_book_of_notices_that_cannot_be_read(stage):
    stage.add("one")
    stage.report("T1", "done")
    Path(stage.layout.notices(NAME)).write_text("{")
    found = shown_by_a_dry_run(stage)

    assert found is not None
    assert (found["told"], found["rule"]) == (False, "unreadable")
    assert "notices.json" in found["readings"]["error"]


def test_what_the_main_worker_reported_itself_is_not_told_to_it(stage):
    stage.add("one")
    stage.report("T1", "blocked", worker=stage.main.worker, reason="no key")
    stage.look_again()

    assert not stage.told()


def test_a_complete_goal_is_told_of_by_nobody(stage):
    stage.add("one")
    stage.ask_for("tests")
    stage.accept("tests")
    stage.report("T1", "done")
    stage.look_again()

    assert not stage.told()


def test_two_ticks_at_once_tell_one_notice(stage):
    """The locks are held from the check to the save; a second finds it told."""
    stage.add("one")
    stage.report("T1", "done")
    launch_tick(stage, stage.main.worker)
    launch_tick(stage, stage.main.worker)

    assert len(stage.told()) == 1
    box = stage.world.inbox(stage.main.worker).mailbox
    assert len([one for one in box.entries if one.message.from_id == "vyane"]) == 1


def test_a_kill_between_the_message_and_the_book_sends_no_second_one(stage):
    """The message has the id of what happened."""
    stage.add("one")
    stage.report("T1", "done")
    launch_tick(stage, stage.main.worker)
    os.remove(stage.layout.notices(NAME))
    stage.world.pass_s(400)
    stage.look_again()
    stage.world.pass_s(400)
    stage.look_again()

    path = stage.layout.inbox(stage.main.worker)
    records = [line.record or {} for line in journal.read(path)]
    sent = [one for one in records if one.get("op") == "message"]
    assert [one["message"]["from_id"] for one in sent] == ["vyane"]


def test_a_damaged_book_of_notices_tells_nothing_and_calls_the_person(stage):
    stage.add("one")
    stage.report("T1", "done")
    Path(stage.layout.notices(NAME)).write_text("{")
    stage.look_again()

    assert not stage.told()
    assert [key.split(":")[0] for key in stage.needs()] == ["damaged"]


def test_a_damaged_ledger_tells_nothing_and_the_page_says_so(stage):
    stage.add("one")
    stage.report("T1", "done")
    Path(stage.layout.tasks(NAME)).write_text("{")
    stage.look_again()

    assert not stage.told()
    assert "tasks: " in page(stage, "TO_MAIN.md")
    assert json.loads(page(stage, "blocked.json"))["readable"] is False
