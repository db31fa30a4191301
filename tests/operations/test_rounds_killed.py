"""A round, and a tick that tells a notice, stopped before each call that changes a file."""

from pathlib import Path

import pytest

from tests.operations.faults import stopped_at
from tests.projects import NAME, Scene, scene
from vyane_cli.children import spawn
from vyane_cli.hosts.port import HookCall, HostEvent
from vyane_cli.projects import dispatch, schedule
from vyane_cli.projects.dispatch import Dispatched
from vyane_cli.projects.supervise import supervise
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import Worker


def only_note_starts(stage: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launchers only write down that they were started, and are not waited for."""

    def start(runtime: object, worker: str, environment: object) -> None:
        with open(stage.main.cwd + "/started", "a") as file:
            file.write(worker + "\n")

    def registered(runtime: object, project: object, claimed: object, worker: Worker) -> object:
        return Dispatched(outcome="started", detail="", task="T1", worker=worker.id)

    monkeypatch.setattr(spawn, "start_launcher", start)
    monkeypatch.setattr(dispatch, "_await", registered)


def started(stage: Scene) -> list[str]:
    path = Path(stage.main.cwd, "started")
    return path.read_text().split() if path.exists() else []


def children(stage: Scene) -> list[Worker]:
    workers = registry.Registry(stage.layout).workers.values()
    return [worker for worker in workers if worker.dispatch_id]


def test_a_dispatch_that_is_killed_anywhere_starts_its_task_once(monkeypatch):
    """The next rounds start it if nobody had; a worker whose launcher never ran is replaced."""
    for k in range(1, 400):
        with scene(monkeypatch) as stage:
            only_note_starts(stage, monkeypatch)
            stage.add()
            done = stopped_at(k, lambda say, stage=stage: say(str(stage.wake().verdict.cell)))
            before = started(stage)
            assert len(before) <= 1
            stage.wake()
            assert len(started(stage)) <= 1
            assert len([one for one in children(stage) if not one.final]) == 1
            if not started(stage):
                stage.world.pass_s(61)  # the spawn was on record, and nothing stands behind it
                stage.wake()
                stage.wake()
            assert len(started(stage)) == 1, (k, done.at)
            monkeypatch.undo()
            if done.finished:
                return
    raise AssertionError("no end")


def test_a_pause_that_is_killed_anywhere_pauses_both_or_none_and_calls_once(monkeypatch):
    for k in range(1, 400):
        with scene(monkeypatch) as stage:
            stage.add()
            stage.report("T1", "blocked", reason="no key")
            done = stopped_at(k, lambda say, stage=stage: say(str(stage.wake().verdict.cell)))
            known = schedule.load(stage.layout, NAME)
            assert len({plan.status for plan in known.plans.values()}) == 1
            assert stage.cell() in ("C/only-blocked-is-left", "skip/paused")
            assert schedule.load(stage.layout, NAME).paused
            assert len(stage.needs()) == 1
            monkeypatch.undo()
            if done.finished:
                return
    raise AssertionError("no end")


def test_a_notice_that_is_killed_anywhere_is_told_once(monkeypatch):
    for k in range(1, 400):
        with scene(monkeypatch) as stage:
            stage.add()
            stage.report("T1", "blocked", reason="no key")
            call = HookCall("generic", HostEvent.CALL, "call", "s")

            def tell(say, stage=stage, call=call) -> None:
                supervise(stage.world, stage.main.worker, call, stage.world.deadline(10))
                say("done")

            done = stopped_at(k, tell)
            for _ in range(2):
                supervise(stage.world, stage.main.worker, call, stage.world.deadline(10))
            box = stage.world.inbox(stage.main.worker).mailbox
            notices = [e for e in box.entries if e.message.from_id == "vyane"]
            assert len(notices) == 1, (k, done.at)
            assert len({one["message_id"] for one in stage.told()}) <= 1
            monkeypatch.undo()
            if done.finished:
                return
    raise AssertionError("no end")
