"""Two rounds and ten hooks at once, as processes, killed at random: one dispatch, one notice.

Three repetitions, eight in `.ci/run`, as many as VYANE_SEEDS says.
"""

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.projects import NAME, Scene, Table, make_project
from tests.simulated import Host, machine, vyane
from vyane_cli.children import launches
from vyane_cli.sessions import registry
from vyane_cli.storage import locks

FULL = bool(os.environ.get("VYANE_TEST_FULL"))
REPETITIONS = range(int(os.environ.get("VYANE_SEEDS", 8 if FULL else 3)))
RUNTIME = """
[delivery]
handed_grace_s = 2
[wake]
runtime = "x"
start_wait_s = 20
[runtimes.x]
spawn = ["sh", "-c", "echo $VYANE_WORKER >>started; exec sleep 600"]
"""


def prepare(main: Host) -> Scene:
    """One task to start, one that is blocked: a dispatch and a notice are due."""
    main.start()
    main.prompt()
    main.stop()
    with open(main.world.layout.config, "a") as file:
        file.write(RUNTIME)
    main.world._config = None
    project = make_project(main.world, main.worker, main.cwd)
    stage = Scene(main.world, main, Table(), project)
    stage.add("start me")
    stage.add("tell of me")
    stage.report("T2", "blocked", reason="no key")
    return stage


def begin_round(stage: Scene, schedule: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "vyane_cli", "wake", "--project", NAME]
    command += ["--schedule", schedule, "--json"]
    environ = {"PATH": os.environ["PATH"], "VYANE_HOME": stage.layout.root}
    return subprocess.Popen(
        command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def begin_hook(stage: Scene, name: str) -> "subprocess.Popen[bytes]":
    rewake = name in ("FileChanged", "Notification-idle_prompt")
    changes = {"file_path": stage.layout.wake(stage.main.session)} if rewake else {}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = stage.main.begin(name, rewake=rewake, **quiet)
    assert process.stdin is not None
    process.stdin.write(stage.main.payload(name, **changes))
    process.stdin.close()
    return process


def started(stage: Scene) -> list[str]:
    """The workers whose program ran."""
    path = Path(stage.main.cwd, "started")
    return path.read_text().split() if path.exists() else []


def until_quiet(stage: Scene) -> None:
    """A round and a few hooks that nobody kills, after what was killed has had its time."""
    for _ in range(3):
        stage.world.pass_s(61)
        assert vyane(stage.layout.root, "wake", "--project", NAME, "--schedule", "A").status == 0
        stage.main.watch()


@pytest.mark.parametrize("seed", REPETITIONS)
def test_whatever_is_killed_there_is_one_dispatch_and_one_notice(seed):
    dice = random.Random(seed)
    with machine() as host:
        stage = prepare(host())
        try:
            names = ["FileChanged", "Notification-idle_prompt", "Stop", "FileChanged", "Stop"] * 2
            running = [begin_round(stage, schedule) for schedule in "AB"]
            running += [begin_hook(stage, name) for name in names]
            timers = [
                threading.Timer(dice.uniform(0.05, 1.5), process.kill)
                for process in running
                if dice.random() < 0.6
            ]
            for timer in timers:
                timer.start()
            for process in running:
                process.wait()
            for timer in timers:
                timer.cancel()
                timer.join()
            assert locks.take_now(stage.layout.domain(NAME)) is not None, "a kill frees the domain"
            until_quiet(stage)

            workers = registry.Registry(stage.layout).workers
            children = [worker for worker in workers.values() if worker.dispatch_id]
            alive = [worker for worker in children if not worker.final]
            head = stage.world.inbox(stage.main.worker).mailbox.head
            assert children or head.handshake, "a turn of the notice is awaited: somebody works"
            assert len(alive) <= 1
            assert len(started(stage)) <= 1, "the task was begun twice"
            notices = [
                entry.message
                for entry in stage.world.inbox(stage.main.worker).mailbox.entries
                if entry.message.summary.startswith("[project p] Task T2 is blocked")
            ]
            assert len(notices) == 1
        finally:
            stop_programs(stage)


def stop_programs(stage: Scene) -> None:
    for worker in registry.Registry(stage.layout).workers.values():
        launch = launches.load(stage.layout, worker.id)
        for process in (launch.process, launch.launcher) if launch is not None else ():
            if process is not None:
                try:
                    os.kill(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
