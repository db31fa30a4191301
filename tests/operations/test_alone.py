"""A project that nothing moves any more, although something is left: the person is called, once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.projects import NAME, Scene, scene
from vyane_cli.attention import needs
from vyane_cli.health.projects import schedule_timers
from vyane_cli.health.subject import Finding, Subject
from vyane_cli.home import local_time
from vyane_cli.hosts import claude_settings
from vyane_cli.projects import schedule, timers
from vyane_cli.projects.catalog import create_project
from vyane_cli.projects.schedule import set_status
from vyane_cli.projects.schedule_rules import DEFAULT, Installed, ScheduleStatus, With
from vyane_cli.upkeep.rounds import run_round


@pytest.fixture
def stage(monkeypatch) -> Iterator[Scene]:
    """A project whose timers were made, with one task to do."""
    with scene(monkeypatch) as made:
        install(made)
        made.add("one")
        yield made


def install(stage: Scene, rule: str = "") -> None:
    known = DEFAULT.with_rules({"A": rule, "B": rule}) if rule else DEFAULT
    installed = Installed(With.CRON, {}, stage.world.clock().at)
    schedule.save(stage.layout, NAME, known._replace(installed=installed))


def pause(stage: Scene) -> None:
    set_status(stage.world, NAME, ScheduleStatus.PAUSED)


def rest(stage: Scene) -> None:
    """The main session has a turn, and comes to rest."""
    stage.main.prompt()
    stage.main.stop()


def calls(stage: Scene) -> list[str]:
    found = [one for one in needs.list_entries(stage.layout) if one["key"].startswith("alone:")]
    return [one["ask"] for one in found]


def round_of_another(stage: Scene) -> None:
    folder = Path(stage.project.dir).parent / "another"
    folder.mkdir(exist_ok=True)
    project = create_project(stage.world, "q", str(folder)).project
    stage.world.environ = {"PATH": "/usr/bin:/bin"}
    run_round(stage.world, project, "A")


def test_work_in_a_paused_project_is_told_of_once_until_its_schedules_change(stage):
    rest(stage)
    assert not calls(stage), "a round comes within the hour"
    pause(stage)
    for _ in range(3):
        rest(stage)
    assert calls(stage) == [f"`vyane schedule resume --project {NAME}`"]
    page = Path(stage.layout("queue", "NEED-USER.md")).read_text()
    assert "no round is due within the hour" in page
    stage.resolve(next(key for key in stage.needs() if key.startswith("alone:")))
    rest(stage)
    assert not calls(stage), "the person has looked"
    set_status(stage.world, NAME, ScheduleStatus.ACTIVE)
    pause(stage)
    rest(stage)
    assert len(calls(stage)) == 1


def test_a_round_of_another_project_speaks_for_one_that_no_session_speaks_for(stage):
    stage.main.die()
    pause(stage)
    for _ in range(2):
        round_of_another(stage)

    assert calls(stage) == [f"`vyane schedule resume --project {NAME}`"]


def test_rounds_that_come_once_a_day_are_none_within_the_hour(stage):
    hour = (local_time(stage.world.clock().at)[1] + 5) % 24
    install(stage, f"FREQ=DAILY;BYHOUR={hour}")
    round_of_another(stage)

    assert calls(stage) == [f"`vyane wake --project {NAME}`"]


def timers_of(stage: Scene, monkeypatch) -> Finding:
    """What `doctor` says of them; the lines themselves are there."""
    monkeypatch.setattr(timers, "missing", lambda *given: [])
    return schedule_timers(Subject(stage.world, claude_settings, "/"))


def test_doctor_sees_timers_that_have_never_fired(stage, monkeypatch):
    stage.world.pass_s(1800)
    assert timers_of(stage, monkeypatch).ok
    stage.world.pass_s(1800)
    assert not timers_of(stage, monkeypatch).ok


@pytest.mark.parametrize("happens", ["nothing", "a round", "paused", "sleep"])
def test_doctor_sees_timers_that_do_not_fire(stage, monkeypatch, happens):
    """Not those of a project that is paused, nor what a sleeping machine has missed."""
    stage.wake()
    assert timers_of(stage, monkeypatch).ok
    if happens == "paused":
        pause(stage)
    if happens == "sleep":
        stage.world.sleep_s(7200)
    else:
        stage.world.pass_s(7200)
    if happens == "a round":
        stage.wake()
    found = timers_of(stage, monkeypatch)

    assert found.ok is (happens != "nothing")
    assert found.ok or f"rounds of {NAME} did not come" in found.detail


@pytest.mark.parametrize("why", ["somebody works", "blocked", "asked", "met", "no timers"])
def test_a_project_that_is_not_alone_or_is_spoken_for_calls_nobody(stage, why):
    match why:
        case "somebody works":
            stage.wake()
        case "blocked":
            stage.report("T1", "blocked", reason="no key")
        case "asked":
            stage.report("T1", "done")
            stage.ask_for("tests")
            needs.add(
                stage.layout, "ask:p:x", "why", stage.world.clock(), stage.world.deadline(),
                project=NAME,
            )  # fmt: skip
        case "met":
            stage.report("T1", "done")
            stage.ask_for("tests")
            stage.accept("tests")
        case "no timers":
            schedule.save(stage.layout, NAME, DEFAULT)
    pause(stage)
    rest(stage)
    round_of_another(stage)

    assert not calls(stage)
