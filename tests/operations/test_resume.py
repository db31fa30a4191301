"""Closed sessions that are opened again: by mail, and children that were broken off."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hostlab.waiting import wait_until
from tests.operations.faults import stopped_at
from tests.simulated import Host, World
from tests.workers import results
from vyane_cli.attention import needs
from vyane_cli.children import launches
from vyane_cli.children import spawn as spawning
from vyane_cli.children.order import Order
from vyane_cli.children.result import settle_lost
from vyane_cli.children.spawn import spawn as spawn
from vyane_cli.delivery import resume
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import WorkerStatus
from vyane_cli.storage import processes
from vyane_cli.upkeep.gc import collect

SESSION = """
import json, os, subprocess, sys
said, folder = sys.stdin.read(), sys.argv[1]
with open(os.path.join(folder, "calls.json")) as file:
    calls = json.load(file)
seen = {"argv": sys.argv[1:], "stdin": said, "env": dict(os.environ), "out": []}
environ = {**os.environ, "CLAUDE_PID": str(os.getpid()), "CLAUDE_CODE_SESSION_ATTENDED": "0"}
for event, payload in calls:
    command = [sys.executable, "-m", "vyane_cli", "tick", "--host", "claude-code", "--event", event]
    ran = subprocess.run(command, input=payload, env=environ, capture_output=True, text=True)
    seen["out"].append(ran.stdout)
with open(os.path.join(folder, "seen.tmp"), "w") as file:
    json.dump(seen, file)
os.replace(os.path.join(folder, "seen.tmp"), os.path.join(folder, "seen.json"))
sys.exit(int(os.environ.get("STATUS", "0")))
"""
"""A client that is resumed: it runs its hooks, and notes how it was started."""


def allow(world: World, what: str, **more: Any) -> Path:
    """The settings that resume `claude` by the program above; the folder where it writes."""
    folder = Path(world.layout.root).parent
    (folder / "session.py").write_text(SESSION)
    command = [sys.executable, str(folder / "session.py"), str(folder), "{session_id}"]
    command = more.get("command", command)
    Path(world.layout.config).write_text(
        f'[delivery]\nresume = "{what}"\n[runtimes.claude]\n'
        f'resume = {json.dumps(command)}\nkeep = ["CLAUDE_CONFIG_DIR"]\n'
    )
    world._config = None
    return folder


def script(folder: Path, host: Host, *calls: tuple[str, dict[str, Any]]) -> None:
    """The hooks that the resumed client runs, each with its payload."""
    made = []
    for name, changes in calls:
        payload = host.payload(name, **changes).decode()
        made.append((name.split("-")[0], payload))
    (folder / "calls.json").write_text(json.dumps(made))


def seen_in(folder: Path) -> dict[str, Any]:
    path = folder / "seen.json"
    wait_until(path.exists, "the child has looked about", timeout_s=30)
    found: dict[str, Any] = json.loads(path.read_text())
    path.unlink()
    return found


def ended(world: World, worker: str) -> launches.Launch:
    """The launch of a worker whose process has ended."""

    def over() -> launches.Launch | None:
        launch = launches.load(world.layout, worker)
        return launch if launch is not None and launch.ended_at is not None else None

    found = wait_until(over, "it is over", timeout_s=30)
    assert isinstance(found, launches.Launch)
    launcher = found.launcher
    wait_until(
        lambda: processes.is_present(launcher) is False,
        "its launcher is gone",
        timeout_s=30,
    )
    return found


def closed(hosts: Callable[..., Host]) -> Host:
    """A session with one turn behind it, whose client is gone."""
    bob = hosts()
    bob.start()
    bob.prompt()
    bob.stop()
    bob.call("SessionEnd", reason="other")
    bob.die()
    return bob


def test_mail_opens_a_closed_session_again_and_its_own_hooks_take_it(hosts):
    """Once; in an environment of its own; with a prompt that says why."""
    bob = closed(hosts)
    world = bob.world
    folder = allow(world, "all")
    script(
        folder,
        bob,
        ("SessionStart-resume", {"source": "resume"}),
        ("UserPromptSubmit", {"prompt": "mail", "prompt_id": "p-2"}),
        ("Stop", {"prompt_id": "p-2", "last_assistant_message": "done"}),
        ("SessionEnd-other", {}),
    )
    world.environ = {**bob.environ(), "CLAUDECODE": "1", "PATH": "/usr/bin:/bin"}
    world.environ.pop("CLAUDE_CONFIG_DIR")
    sent = world.send(bob.worker, "are you there?", kind="context-inject")
    seen = seen_in(folder)

    assert seen["argv"][1] == bob.session
    assert "Mail came for project" in seen["stdin"]
    assert not [name for name in seen["env"] if name.startswith(("CLAUDE_CODE", "CLAUDECODE"))]
    assert seen["env"]["VYANE_WORKER"] == bob.worker
    assert "are you there?" in "".join(seen["out"])
    launch = ended(world, bob.worker)
    assert (launch.exit_status, launch.resumed, launch.dispatch) == (0, 1, "")
    assert world.status(sent) == "consumed"
    assert "attempt:resume/direct" in world.rules(sent)
    assert needs.list_entries(world.layout) == []
    (worker,) = bob.world_workers()
    assert (worker.id, worker.final) == (bob.worker, False)


@pytest.mark.parametrize("what", ["never", "children"])
def test_without_leave_a_closed_session_stays_closed(hosts, what):
    """The default, and a session that a person opened."""
    bob = closed(hosts)
    allow(bob.world, what)
    sent = bob.world.send(bob.worker, "hello")
    assert launches.load(bob.world.layout, bob.worker) is None
    assert bob.world.status(sent) == "pending"
    assert collect(bob.world)[0]["resumed"] == 0


def test_a_session_whose_process_may_be_there_is_not_opened_again(hosts):
    """It has said good-bye, and its process is still ending; or it was cleared."""
    bob = hosts()
    bob.start()
    allow(bob.world, "all")
    bob.call("SessionEnd", reason="other")
    bob.world.send(bob.worker, "hello")
    assert launches.load(bob.world.layout, bob.worker) is None
    other = hosts()
    other.start()
    other.call("SessionEnd", reason="clear")
    other.die()
    other.world.send(other.worker, "hello")
    assert launches.load(bob.world.layout, other.worker) is None


def test_a_session_that_could_not_be_opened_is_tried_once_for_a_message(hosts):
    """The person is called; the mail stays; the next message is another reason to try."""
    bob = closed(hosts)
    world = bob.world
    allow(world, "all", command=["/bin/sh", "-c", "echo no >&2; exit 3"])
    first = world.send(bob.worker, "hello")
    launch = ended(world, bob.worker)
    assert launch.exit_status == 3
    (entry,) = wait_until(
        lambda: needs.list_entries(world.layout), "the person is called", timeout_s=30
    )
    assert "exited with status 3" in entry["text"]
    world.pass_s(400)
    assert collect(world)[0]["resumed"] == 0
    assert world.status(first) == "pending"
    world.send(bob.worker, "again")
    assert launches.load(world.layout, bob.worker).resumed == 2
    ended(world, bob.worker)
    assert len(needs.list_entries(world.layout)) == 1


def broken_off(hosts: Callable[..., Host], monkeypatch: pytest.MonkeyPatch) -> tuple[Host, Host]:
    """A parent, and its child whose client and launcher are gone in the middle of a turn."""
    parent = hosts()
    parent.start()
    world = parent.world
    with monkeypatch.context() as patch:
        patch.setattr(spawning, "start_launcher", lambda *rest: None)
        child = spawn(world, Order("TASK", parent.worker, cwd="/tmp"))
    kid = hosts(attended=False, extra={"VYANE_WORKER": child.id})
    kid.start()
    kid.prompt(text="TASK")
    launch = launches.load(world.layout, child.id)
    assert launch is not None
    gone = subprocess.Popen(["sleep", "600"])
    launcher = world.identify(gone.pid)
    gone.kill()
    gone.wait()
    process = world.identify(kid.process.pid)
    launches.save(world.layout, launch._replace(launcher=launcher, process=process))
    kid.die()
    return parent, kid


def status_of(kid: Host) -> WorkerStatus:
    return registry.Registry(kid.world.layout).workers[kid.worker].status


def test_a_child_that_was_broken_off_goes_on_and_sends_its_result(hosts, monkeypatch):
    """INTERRUPTED, RUNNING, COMPLETED: a reboot costs a child its process and nothing else."""
    parent, kid = broken_off(hosts, monkeypatch)
    world = parent.world
    folder = allow(world, "children")
    script(
        folder,
        kid,
        ("SessionStart-resume", {"source": "resume"}),
        ("UserPromptSubmit", {"prompt": "go on", "prompt_id": "p-2"}),
        ("Stop", {"prompt_id": "p-2", "last_assistant_message": "ANSWER"}),
        ("SessionEnd-other", {}),
    )
    world.environ = {"PATH": "/usr/bin:/bin"}
    worker = registry.Registry(world.layout).workers[kid.worker]
    assert not settle_lost(world, worker)
    assert "broken off" in seen_in(folder)["stdin"]
    ended(world, kid.worker)
    (message,) = results(world, parent.worker)
    assert (message.payload["success"], message.payload["summary"]) == (True, "ANSWER")
    assert status_of(kid) is WorkerStatus.COMPLETED


@pytest.mark.parametrize("before", ["STALE", "RELEASED", "IDLE", "PENDING"])
def test_a_child_that_was_broken_off_is_resumed_whatever_it_was_called_before(
    hosts, monkeypatch, before
):
    """It was found stale before its process ended, for instance."""
    parent, kid = broken_off(hosts, monkeypatch)
    world = parent.world
    allow(world, "children")
    monkeypatch.setattr(resume, "start_launcher", lambda *rest: None)
    book = registry.Registry(world.layout)
    book.put(book.workers[kid.worker]._replace(status=WorkerStatus(before)))
    book.save()
    assert not settle_lost(world, registry.Registry(world.layout).workers[kid.worker])
    assert status_of(kid) is WorkerStatus.INTERRUPTED


def test_a_child_that_breaks_off_again_and_again_has_failed(hosts, monkeypatch):
    """Two times it is resumed; what cannot be resumed fails with its reason."""
    parent, kid = broken_off(hosts, monkeypatch)
    world = parent.world
    allow(world, "children")
    started: list[str] = []
    monkeypatch.setattr(resume, "start_launcher", lambda r, worker, e: started.append(worker))
    gone = world.me()._replace(start=1)
    while not settle_lost(world, registry.Registry(world.layout).workers[kid.worker]):
        assert status_of(kid) is WorkerStatus.INTERRUPTED
        launch = launches.load(world.layout, kid.worker)
        assert launch is not None
        launches.save(world.layout, launch._replace(launcher=gone, process=gone))
    assert len(started) == 2
    (message,) = results(world, parent.worker)
    assert "its process is gone" in message.payload["error"]
    assert status_of(kid) is WorkerStatus.FAILED


def test_a_child_whose_resume_command_is_not_there_has_failed(hosts, monkeypatch):
    """By its launcher, with the reason."""
    parent, kid = broken_off(hosts, monkeypatch)
    allow(parent.world, "children", command=["/no/such/program"])
    settle_lost(parent.world, registry.Registry(parent.world.layout).workers[kid.worker])
    (message,) = wait_until(
        lambda: results(parent.world, parent.worker), "the result", timeout_s=30
    )
    assert "/no/such/program" in message.payload["error"]


def test_a_cancelled_child_is_not_resumed(hosts, monkeypatch):
    """Its end is the cancel's."""
    parent, kid = broken_off(hosts, monkeypatch)
    world = parent.world
    allow(world, "children")
    book = registry.Registry(world.layout)
    book.put(book.workers[kid.worker]._replace(cancel_propagated_from=parent.worker))
    book.save()
    assert settle_lost(world, registry.Registry(world.layout).workers[kid.worker])
    assert launches.load(world.layout, kid.worker).resumed == 0


def test_a_resume_that_is_killed_starts_nothing_twice(hosts, monkeypatch):
    """At every call: no launch, or one that the next round takes for over after a minute."""
    bob = closed(hosts)
    world = bob.world
    sent = world.send(bob.worker, "hello")
    allow(world, "all")
    started = Path(world.layout.root).parent / "started"

    def start(runtime: object, worker: str, environment: object) -> None:
        with started.open("a") as file:
            file.write(worker + "\n")

    monkeypatch.setattr(resume, "start_launcher", start)
    for k in range(1, 200):
        before = launches.load(world.layout, bob.worker)
        outcome = stopped_at(k, lambda say: say(resume.resume_waiting(world, world.clock())))
        after = launches.load(world.layout, bob.worker)
        assert not started.exists() or (outcome.finished and after != before), outcome.at
        assert world.status(sent) == "pending"
        if outcome.finished and started.exists():
            break
        if after != before:  # the kill came between the launch and its launcher
            assert resume.resume_waiting(world, world.clock()) == ()
            Path(world.layout.launch(bob.worker)).unlink()
        world.pass_s(3_700)
    assert started.read_text() == bob.worker + "\n"
    assert k > 5
