"""A project on a simulated machine: its main session, its ledger, and workers that rounds start.

Workers and their launchers are entries in a table of processes, so that hundreds cost nothing and
a test decides when one dies. Files, locks, rounds and ticks are real.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.simulated import Host, World, machine
from vyane_cli.attention import needs
from vyane_cli.children import launches, spawn
from vyane_cli.children.result import settle_exit
from vyane_cli.errors import CorruptStateError
from vyane_cli.home import Home
from vyane_cli.hosts import generic
from vyane_cli.hosts.port import HookCall, HostEvent
from vyane_cli.kernel.process import Process
from vyane_cli.projects import claims, ledger, projects, queue
from vyane_cli.projects.after_tick import tick_and_supervise
from vyane_cli.projects.goal import Acceptance, Goal, accept, new_goal
from vyane_cli.projects.project import Project
from vyane_cli.projects.round import Round, preview_round
from vyane_cli.projects.task import Ledger, Task
from vyane_cli.projects.task_report import TaskReport, report_task
from vyane_cli.sessions import registry
from vyane_cli.storage import files, journal, locks, processes
from vyane_cli.upkeep.rounds import run_round

NAME = "p"
RUNTIME = """
[wake]
runtime = "sh"
[runtimes.sh]
spawn = ["sh", "-c", "exit 0"]
"""


@dataclass
class Table:
    """The simulated processes of workers and launchers."""

    alive: set[int] = field(default_factory=set)
    last: int = 0

    def start(self) -> Process:
        self.last += 1
        self.alive.add(self.last)
        return Process("sim", "sim", self.last, 1)

    def kill(self, process: Process | None) -> None:
        if process is not None:
            self.alive.discard(process.pid)


@dataclass
class Scene:
    """One project, with the actions of its person, its main session and its workers."""

    world: World
    main: Host
    table: Table
    project: Project
    registers: bool = True
    """Whether started workers register; if false, their launcher starts nothing."""
    started: list[tuple[str, str]] = field(default_factory=list)
    """(task, worker) of each start, in order."""
    pids: dict[str, int] = field(default_factory=dict)
    """The process of each worker that registered."""
    shown: list[str] = field(default_factory=list)
    """Texts with messages from vyane itself that the main session read."""
    rung: tuple[int, int] = (0, 0)

    @property
    def layout(self) -> Any:
        return self.world.layout

    # ---------------------------------------------------------------- the ledger

    def books(self) -> Any:
        return ledger.read(self.layout, NAME)

    def task(self, task_id: str) -> Task:
        found = self.books().ledger.get(task_id)
        assert found is not None
        return found

    def change(self, make: Callable[[Ledger, Any, float], Ledger]) -> None:
        with self.world.held((locks.LockKind.LEDGER, NAME)):
            before = ledger.stamp(self.layout.tasks(NAME))
            books = ledger.load(self.layout, NAME)
            assert books.ledger is not None
            after = make(books.ledger, books.graph, self.world.clock().at)
            ledger.save_ledger(self.layout, NAME, after, before)

    def add(self, title: str = "do it", **more: Any) -> str:
        made: list[Task] = []

        def one_more(known: Ledger, graph: Any, at: float) -> Ledger:
            after, task = queue.add(known, Task("", title, **more), at)
            made.append(task)
            return after

        self.change(one_more)
        return made[0].id

    def report(self, task_id: str, status: str, worker: str = "", **more: str) -> None:
        """Report a task as `vyane task report` does, by a worker or, without one, by a person."""
        if status == "done" and not more:
            more = {"no_artifact_reason": "a test"}
        before = self.world.environ
        self.world.environ = {"VYANE_WORKER": worker} if worker else {}
        try:
            report_task(self.world, TaskReport(task_id, status, project=NAME, **more))
        finally:
            self.world.environ = before

    def goal(self, change: Callable[[Goal], Goal]) -> None:
        path = self.layout.goal(NAME)
        known = self.books().goal
        ledger.save_goal(self.layout, NAME, change(known), ledger.stamp(path))

    def ask_for(self, *names: str) -> None:
        at = self.world.clock().at
        self.goal(lambda before: new_goal(before, "ship it", names, at))

    def accept(self, name: str) -> None:
        at = self.world.clock().at
        self.goal(lambda before: accept(before, name, Acceptance.PASS, "ann", at))

    # ---------------------------------------------------------------- rounds and workers

    def wake(self, schedule: str = "A", **more: Any) -> Round:
        self.world.environ = {"PATH": "/usr/bin:/bin"}
        step = preview_round if more.get("dry_run") else run_round
        return step(self.world, self.project, schedule)

    def cell(self, schedule: str = "A", **more: Any) -> str:
        made = self.wake(schedule, **more)
        return f"{made.verdict.cell}/{made.verdict.reason}"

    def launch(self, worker: str) -> None:
        """Do the first steps of the launcher of a worker without hooks."""
        found = launches.load(self.layout, worker)
        assert found is not None
        self.started.append((self._task_of(worker), worker))
        if not self.registers:
            return
        launch = found._replace(launcher=self.table.start(), process=self.table.start())
        launches.save(self.layout, launch)
        assert launch.process is not None
        self.pids[worker] = launch.process.pid
        call = HookCall(
            "generic", HostEvent.CALL, "launch", launch.session, attended=False, cwd=launch.cwd,
            process=launch.process, worker=worker,
        )  # fmt: skip
        deadline = locks.Deadline(10)
        tick_and_supervise(self.world, call, generic, lambda reply: None, deadline, rerun=True)

    def _task_of(self, worker: str) -> str:
        for task in claims.list_claims(self.layout, NAME):
            with suppress(CorruptStateError):
                claim = claims.load(self.layout, NAME, task)
                if claim is not None and claim.worker == worker:
                    return task
        raise AssertionError(f"no claim names {worker}")

    def end(self, worker: str, status: int = 0) -> None:
        """End the program of a worker; its launcher records the exit status."""
        launch = launches.load(self.layout, worker)
        assert launch is not None
        self.table.kill(launch.process)
        ended = launch._replace(exit_status=status, ended_at=self.world.clock().at)
        launches.save(self.layout, ended)
        settle_exit(self.world, ended, status)
        self.table.kill(launch.launcher)

    def crash(self, worker: str) -> None:
        """Kill a worker and its launcher, which leaves no record of an end."""
        launch = launches.load(self.layout, worker)
        assert launch is not None
        self.table.kill(launch.process)
        self.table.kill(launch.launcher)

    def alive(self) -> list[str]:
        """Return the workers whose process is alive."""
        return [worker for worker, pid in self.pids.items() if pid in self.table.alive]

    def worker(self, worker: str) -> Any:
        return registry.Registry(self.layout).workers[worker]

    def needs(self) -> list[str]:
        """What a person is called for: keys."""
        return [entry["key"] for entry in needs.list_entries(self.layout)]

    def resolve(self, key: str) -> None:
        needs.resolve(self.layout, [key], "ann", self.world.clock(), locks.Deadline(10))

    def held(self) -> frozenset[str]:
        return claims.held_tasks(self.world, NAME)

    # ---------------------------------------------------------------- the main session

    def pump(self) -> None:
        """Act as the host does by itself: run the watch handler after each change of the wake file.

        Raises AssertionError after 50 wakes.
        """
        for _ in range(50):
            if self.rings() == self.rung:
                return
            self.rung = self.rings()
            self.read(self.main.watch())
        raise AssertionError("the main session is woken without end")

    def rings(self) -> tuple[int, int]:
        import os

        found = os.stat(self.layout.wake(self.main.session))
        return found.st_mtime_ns, found.st_size

    def read(self, seen: Any) -> None:
        """Play the turn that a wake starts, to its end; without a wake do nothing."""
        if not seen.reply.wake:
            return
        self.note(seen.reply.wake)
        self.main.woken(seen.reply.wake)
        self.world.pass_s(1)
        self.note(self.main.batch().reply.context)
        self.world.pass_s(1)
        stopped = self.main.stop()
        while stopped.reply.context:
            self.note(stopped.reply.context)
            self.world.pass_s(1)
            stopped = self.main.stop(stop_hook_active=True)

    def note(self, text: str) -> None:
        if "Message from external vyane" in text:
            self.shown.append(text)

    def look_again(self) -> None:
        """Retry a delivery, as the main session's sleeper or another session's tick does."""
        self.read(self.main.watch())
        self.pump()

    def log(self, name: str) -> list[dict[str, Any]]:
        """Return the records of a journal of the project."""
        path = self.layout("projects", NAME, name)
        return [dict(line.record) for line in journal.read(path) if line.record is not None]

    def told(self) -> list[dict[str, Any]]:
        """Return the records of the notices that became messages."""
        return [one for one in self.log("deliveries.jsonl") if one["outcome"] == "told"]


def make_project(world: Home, main: str, folder: str) -> Project:
    """Make a project with an empty ledger."""
    files.make_directories(world.layout("projects", NAME))
    ledger.make_files(world.layout, NAME)
    project = Project(NAME, folder, main, created_at=world.clock().at)
    projects.save(world.layout, project)
    return project


@contextmanager
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Make a project with an idle main session and a configured runtime for rounds."""
    table = Table()
    real = processes.is_present

    def is_present(process: Process | None) -> bool | None:
        if process is not None and process.boot == "sim":
            return process.pid in table.alive
        return real(process)

    monkeypatch.setattr(processes, "is_present", is_present)
    with machine() as host:
        main = host()
        main.start()
        main.prompt()
        main.stop()
        world = main.world
        with open(world.layout.config, "a") as file:
            file.write(RUNTIME)
        world._config = None
        made = Scene(world, main, table, make_project(world, main.worker, main.cwd))
        made.rung = made.rings()
        monkeypatch.setattr(
            spawn, "start_launcher", lambda home, worker, environment: made.launch(worker)
        )
        monkeypatch.setattr("vyane_cli.projects.dispatch.LOOK_S", 0.0)
        yield made
