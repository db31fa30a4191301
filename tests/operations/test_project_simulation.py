"""A project of thirty tasks, played to its end: failures, blocks, crashes, rounds, hooks, a person.

A fake clock, real files. Two seeds, eight in `.ci/run`, as many as VYANE_SEEDS says. What may
never happen is checked after every step.
"""

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.projects import NAME, Scene, scene
from vyane_cli.projects import schedule
from vyane_cli.projects.schedule import set_status
from vyane_cli.projects.schedule_rules import ScheduleStatus
from vyane_cli.projects.task import TaskStatus

FULL = bool(os.environ.get("VYANE_TEST_FULL"))
SEEDS = range(int(os.environ.get("VYANE_SEEDS", 8 if FULL else 1)))
TASKS = 30
ROUND_S = 1800
MOST_ROUNDS = 600


class Play:
    """One run of one seed."""

    def __init__(self, stage: Scene, seed: int) -> None:
        self.stage = stage
        self.dice = random.Random(seed)
        self.fates: dict[str, str] = {}
        self.over: set[str] = set()
        """Workers whose end was played."""
        self.progress_at = stage.world.clock().at
        self.cells: Counter[str] = Counter()

    def set_up(self) -> None:
        for number in range(1, TASKS + 1):
            before = [f"T{n}" for n in range(1, number) if self.dice.random() < 0.08]
            line = self.dice.choice(["", "", "api", "web"])
            self.stage.add(f"task {number}", after=tuple(before[-3:]), line=line)
        self.stage.ask_for("tests", "docs")
        self.moved()

    def moved(self) -> None:
        self.progress_at = self.stage.world.clock().at

    # ---------------------------------------------------------------- what workers do

    def work(self) -> None:
        """Every worker that lives gets on, or meets its fate."""
        for task, worker in self.stage.started:
            if worker in self.over:
                continue
            status = self.stage.task(task).status
            if status is TaskStatus.PENDING:
                if self.dice.random() < 0.1:  # it dies before it says a word
                    self.end(worker, "crash")
                    continue
                self.stage.report(task, "running", worker)
                self.moved()
                continue
            roll = self.dice.random()
            if roll < 0.45:
                self.stage.report(task, "done", worker)
                self.moved()
                self.end(worker, "exit")
            elif roll < 0.6:
                self.stage.report(task, "blocked", worker, reason=f"key {self.dice.randrange(3)}")
                self.moved()
                self.end(worker, "exit")
            elif roll < 0.7:
                self.end(worker, "crash")
            elif roll < 0.78:
                self.end(worker, self.dice.choice(["fail", "exit"]))

    def give_signs(self) -> None:
        """What works prints something now and then."""
        at = self.stage.world.clock().at
        for worker in self.stage.alive():
            path = Path(self.stage.layout.output(worker))
            path.parent.mkdir(exist_ok=True)
            path.touch()
            os.utime(path, (at, at))

    def end(self, worker: str, how: str) -> None:
        self.over.add(worker)
        match how:
            case "crash":
                self.stage.crash(worker)
            case "fail":
                self.stage.end(worker, 1)
            case _:
                self.stage.end(worker, 0)

    # ---------------------------------------------------------------- what the person does

    def person(self) -> None:
        """Reads what they are needed for, now and then, and puts it right."""
        for key in self.stage.needs():
            kind = key.split(":")[0]
            if kind == "blocked":
                task = self.stage.task(key.split(":")[2])
                if task.status is TaskStatus.BLOCKED:
                    self.stage.report(task.id, "pending")
                    self.moved()
            elif kind == "waiting" and not self.stage.alive():
                for task in self.stage.books().ledger.tasks:
                    if task.status in (TaskStatus.BLOCKED, TaskStatus.RUNNING):
                        self.stage.report(task.id, "pending")
                        self.moved()
            elif kind == "gap":
                self.stage.accept("tests")
                self.stage.accept("docs")
                self.moved()
            self.stage.resolve(key)
        if schedule.load(self.stage.layout, NAME).paused and not self.done():
            set_status(self.stage.world, NAME, ScheduleStatus.ACTIVE)

    def done(self) -> bool:
        return self.cells["D"] > 0

    # ---------------------------------------------------------------- what may never happen

    def check(self) -> None:
        stage = self.stage
        alive = set(stage.alive())
        at_once = Counter(task for task, worker in stage.started if worker in alive)
        assert all(count == 1 for count in at_once.values()), f"started twice: {at_once}"
        assert len(alive) <= 1, "one worker at a time is started by rounds"
        told = stage.told()
        keys = Counter((one["task"], one["key"]) for one in told)
        assert all(count == 1 for count in keys.values()), f"told twice: {keys}"
        ids = Counter(one["message_id"] for one in told)
        assert all(count == 1 for count in ids.values())
        shown = Counter(text.splitlines()[0] for text in stage.shown)
        assert all(count == 1 for count in shown.values()), f"shown twice: {shown}"

    def check_stall(self, before: int) -> None:
        """A notice of a stall comes after 15 minutes without progress, and while nobody works."""
        for one in self.stage.told()[before:]:
            if one["kind"] == "stall":
                assert self.stage.world.clock().at - self.progress_at >= 899
                assert not self.stage.alive()

    # ---------------------------------------------------------------- the play

    def run(self) -> None:
        self.set_up()
        for number in range(MOST_ROUNDS):
            self.between()
            started = len(self.stage.started)
            ledger = Path(self.stage.layout.tasks(NAME)).read_bytes()
            made = self.stage.wake("AB"[number % 2])
            self.cells[made.verdict.cell] += 1
            assert made.error is None
            assert len(self.stage.started) - started <= 1, "one dispatch a round"
            if made.verdict.cell != "A":
                assert len(self.stage.started) == started
            assert Path(self.stage.layout.tasks(NAME)).read_bytes() == ledger
            assert (made.verdict.cell in "CD") == getattr(made.done, "paused", False)
            self.check()
            if self.done():
                return
        raise AssertionError(f"no end: {self.cells}")

    def between(self) -> None:
        """Half an hour, with hooks in it."""
        left = float(ROUND_S)
        while left > 0:
            step = min(left, self.dice.choice([60.0, 299.0, 301.0, 600.0, 905.0]))
            self.stage.world.pass_s(step)
            left -= step
            self.give_signs()
            before = len(self.stage.told())
            match self.dice.randrange(6):
                case 0 | 1 | 2:
                    self.work()
                case 3:
                    self.stage.main.prompt(text="how far are you?")
                    self.stage.world.pass_s(5)
                    self.stage.note(self.stage.main.batch().reply.context)
                    self.stage.main.stop()
                    self.moved()
                case 4:
                    self.stage.look_again()
                case _:
                    self.stage.pump()
            self.check_stall(before)
        if self.dice.random() < 0.4:
            self.person()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_project_comes_to_its_end_and_pauses(seed, monkeypatch):
    """Cell D is reached, A and B are paused, every task is done, and no rule was broken."""
    with scene(monkeypatch) as stage:
        play = Play(stage, seed)
        play.run()

        assert all(task.status is TaskStatus.DONE for task in stage.books().ledger.tasks)
        assert schedule.load(stage.layout, NAME).paused
        assert play.stage.cell() == "skip/paused"
        assert {task for task, _ in stage.started} == {f"T{n}" for n in range(1, TASKS + 1)}
