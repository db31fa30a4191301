"""Entries that end by themselves: each when its cause is gone, and not before."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.projects import NAME
from tests.simulated import Host, World
from vyane_cli import channels
from vyane_cli.attention import needs
from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of, key_of
from vyane_cli.conversations import rounds
from vyane_cli.conversations.rounds import show_all, take_in
from vyane_cli.errors import RefusedError
from vyane_cli.projects.catalog import create_project, project_of_round
from vyane_cli.projects.schedule import set_status
from vyane_cli.projects.schedule_rules import ScheduleStatus
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import WorkerStatus
from vyane_cli.setup.home import initialise
from vyane_cli.storage.locks import LockKind
from vyane_cli.upkeep.ended_needs import end_calls
from vyane_cli.upkeep.gc import collect
from vyane_cli.upkeep.rounds import show_channels


def kinds(world: World) -> list[str]:
    return [one["key"].partition(":")[0] for one in needs.list_entries(world.layout)]


def change_status(world: World, worker: str, status: WorkerStatus) -> None:
    with world.held((LockKind.REGISTRY, "")):
        book = registry.Registry(world.layout)
        book.put(book.workers[worker]._replace(status=status))
        book.save()


@pytest.mark.parametrize("how", ["removed", "mended"])
@pytest.mark.parametrize("by", ["a round", "gc"])
def test_a_claim_that_is_gone_or_can_be_read_again(stage, how, by):
    stage.add()
    stage.wake()
    path = Path(stage.layout.claim(NAME, "T1"))
    sound = path.read_bytes()
    path.write_text("{")
    for _ in range(2):
        stage.wake()
        assert "claim" in kinds(stage.world)
    path.unlink()
    if how == "mended":
        path.write_bytes(sound)
    stage.wake() if by == "a round" else collect(stage.world)

    assert "claim" not in kinds(stage.world)


def test_a_project_that_can_be_read_again(stage):
    folder = Path(stage.project.dir).parent / "another"
    folder.mkdir()
    create_project(stage.world, "q", str(folder))
    path = Path(stage.layout.project("q"))
    sound = path.read_bytes()
    path.write_text("{")
    project_of_round(stage.world, NAME, dry_run=False)
    collect(stage.world)
    assert kinds(stage.world) == ["project"]
    path.write_bytes(sound)
    collect(stage.world, dry_run=True)
    assert kinds(stage.world) == ["project"], "a dry run changes nothing"
    collect(stage.world)

    assert not kinds(stage.world)


def test_a_damaged_file_that_can_be_read_again(stage):
    path = Path(stage.layout.notices(NAME))
    path.write_text("{")
    stage.main.prompt()
    stage.main.stop()
    collect(stage.world)
    assert kinds(stage.world) == ["damaged"]
    path.write_text(json.dumps({"v": 99}))
    collect(stage.world)
    assert kinds(stage.world) == ["damaged"], "it is of a later version: nothing reads it"
    path.unlink()
    collect(stage.world)

    assert not kinds(stage.world)


@pytest.mark.parametrize("name", ["registry", "inbox"])
def test_a_damaged_file_of_a_session_is_read_as_it_is(stage, name):
    path = Path(
        stage.layout.registry if name == "registry" else stage.layout.inbox(stage.main.worker)
    )
    stage.world.send(stage.main.worker)
    call_person(
        stage.world, call_of(NeedKind.DAMAGED, path=str(path), message="damaged", hint="look")
    )
    sound = path.read_bytes()
    path.write_bytes(b"{]\n" + sound)
    assert end_calls(stage.world) == 0
    path.write_bytes(sound)

    assert end_calls(stage.world) == 1


def test_a_damaged_file_that_nobody_here_reads_stays_for_the_person(stage):
    path = Path(stage.layout.root) / "something.json"
    path.write_text("{}")
    call_person(stage.world, call_of(NeedKind.DAMAGED, path=str(path), message="x", hint=""))

    assert end_calls(stage.world) == 0


def mirrored(folder: Path) -> World:
    world = World(folder / "vyane")
    initialise(world)
    world.channels = channels.ADAPTERS
    Path(world.layout.config).write_text("[channels.file]\n")
    return world


def refuse(home, *, channel):
    raise RefusedError("no token", slug="channel_refused")


def test_a_channel_that_a_round_shows_sessions_in_again(tmp_path, monkeypatch):
    """Not one that is only heard: what was refused is the showing."""
    world = mirrored(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(rounds, "push", refuse)
        show_all(world)
    take_in(world)
    collect(world)
    assert kinds(world) == ["channel"]
    show_channels(world)

    assert not kinds(world)


def test_a_channel_that_is_not_set_up_any_more(tmp_path, monkeypatch):
    world = mirrored(tmp_path)
    monkeypatch.setattr(rounds, "push", refuse)
    show_all(world)
    Path(world.layout.config).write_text("")
    world._config = None
    world.channels, known = None, world.channels
    collect(world)
    assert kinds(world) == ["channel"], "a process without channels reads no settings of theirs"
    world.channels = known
    world._config = None
    collect(world)

    assert not kinds(world)


def not_resumed(bob: Host) -> None:
    call_person(bob.world, call_of(NeedKind.RESUME, worker=bob.worker, name="bob", why="it exited"))


def test_a_session_that_could_not_be_resumed_and_is_back(hosts):
    bob = hosts()
    bob.start()
    bob.die()
    not_resumed(bob)
    collect(bob.world)
    assert kinds(bob.world) == ["resume"]
    bob.process = subprocess.Popen(["sleep", "600"])
    try:
        bob.start("resume")
        collect(bob.world)
    finally:
        bob.die()

    assert not kinds(bob.world)


def test_a_session_that_could_not_be_resumed_and_whose_worker_has_ended(hosts):
    bob = hosts()
    bob.start()
    bob.die()
    not_resumed(bob)
    change_status(bob.world, bob.worker, WorkerStatus.KILLED)
    collect(bob.world)

    assert not kinds(bob.world)


def test_what_expired_waits_for_the_person(hosts):
    bob = hosts()
    bob.start()
    call_person(
        bob.world, call_of(NeedKind.EXPIRED, message="01A", target="bob", said="are you there?")
    )
    collect(bob.world)

    assert kinds(bob.world) == ["expired"]


def test_gc_ends_what_the_ledger_of_a_project_without_rounds_shows(stage):
    """A blocked task, a deadline, and a main worker that is back: no round has to come for them."""
    late_at = stage.world.clock().at + 60
    stage.add("first", deadline_at=late_at)
    stage.report("T1", "blocked", reason="no key")
    stage.world.pass_s(61)
    stage.wake()
    collect(stage.world)
    assert sorted(kinds(stage.world)) == ["blocked", "late"]
    stage.report("T1", "done")
    path = Path(stage.layout.tasks(NAME))
    sound = path.read_bytes()
    path.write_text("{")
    collect(stage.world)
    assert sorted(kinds(stage.world)) == ["blocked", "late"], "a ledger that says nothing"
    path.write_bytes(sound)
    collect(stage.world)

    assert not kinds(stage.world)


def test_gc_ends_nothing_that_only_a_round_can_tell(stage):
    stage.wake()
    (key,) = stage.needs()
    assert key.startswith("goal_unknown:")
    stage.add()
    collect(stage.world)
    assert stage.needs() == [key]
    stage.wake()

    assert not stage.needs()


def test_a_round_ends_nothing_of_another_project(stage):
    given = {"project": "q", "digest": "0", "rounds": 3, "left": "T1"}
    call_person(stage.world, call_of(NeedKind.GAP, **given))
    stage.add()
    stage.wake()

    assert stage.needs() == [key_of(NeedKind.GAP, project="q", digest="0")]


def test_a_main_worker_that_has_exited_is_told_of_in_one_way(stage):
    """A tick of another session and a round say the same, whichever comes first."""
    stage.ask_for("tests")
    stage.add()
    stage.report("T1", "done")
    stage.main.die()
    stage.wake()

    (entry,) = needs.list_entries(stage.layout)
    assert entry["key"] == f"main_exited:{NAME}:{stage.main.worker}"
    assert entry["text"].endswith("has exited and does not see what changed or what is left")
    assert stage.layout.to_main(NAME) in entry["ask"]


def test_a_paused_project_that_moves_again_is_not_alone(stage):
    call = call_of(NeedKind.ALONE, project=NAME, schedules_at=0.0, way="vyane wake")
    call_person(stage.world, call)
    collect(stage.world)
    assert kinds(stage.world) == ["alone"], "no file of schedules, then and now"
    set_status(stage.world, NAME, ScheduleStatus.PAUSED)
    collect(stage.world)

    assert not kinds(stage.world)


def test_an_entry_that_somebody_resolves_at_the_same_moment_is_no_error(stage, monkeypatch):
    call = call_of(NeedKind.CLAIM, project=NAME, path=stage.layout.claim(NAME, "T9"), message="x")
    call_person(stage.world, call)
    real = needs.resolve

    def after_another(layout, names, *more):
        real(layout, [call.key], *more)
        return real(layout, names, *more)

    monkeypatch.setattr(needs, "resolve", after_another)

    assert end_calls(stage.world) == 0
    assert not stage.needs()
