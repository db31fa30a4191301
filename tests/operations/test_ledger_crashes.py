"""Commands of the ledger, stopped or failed at each call that changes a file."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.operations.faults import ENDLESS, failing_at, stopped_at
from tests.simulated import World, fast_folder
from vyane_cli.projects import ledger, projects
from vyane_cli.projects.catalog import create_project, named
from vyane_cli.projects.claims import claim_head, held_tasks
from vyane_cli.projects.goal import READ
from vyane_cli.projects.goals import accept_goal, set_goal
from vyane_cli.projects.graph import add_node
from vyane_cli.projects.project import Project
from vyane_cli.projects.task import Task
from vyane_cli.projects.task_report import TaskReport, report_task
from vyane_cli.projects.tasks import add_task


def prepared(folder: Path) -> World:
    """A world with a project, two tasks, a goal, and the first task claimed."""
    folder.parent.mkdir()
    world = World(folder)
    create_project(world, "p", str(folder.parent))
    project = named(world, "p")
    add_task(world, project, Task("", "one"))
    add_task(world, project, Task("", "two", after=("T1",)))
    set_goal(world, project, "ship", ["tests"])
    claim_head(world, "p", "r0")
    return world


def state(world: World) -> object:
    """What is decided on, without times and revisions."""
    books = ledger.read(world.layout, "p")
    assert {reading.state for reading in books.readings} <= READ
    assert books.ledger is not None
    assert books.graph is not None
    assert books.goal is not None
    return (
        [(t.id, t.title, str(t.status), t.reason, t.after) for t in books.ledger.tasks],
        books.graph.nodes,
        (books.goal.title, books.goal.acceptance),
        sorted(held_tasks(world, "p")),
    )


def blocked(world: World) -> None:
    report_task(world, TaskReport("T1", "blocked", reason="no key", project="p", cwd="/"))


ACTIONS: dict[str, Callable[[World, Project], object]] = {
    "task add": lambda w, p: add_task(w, p, Task("", "three")),
    "task report": lambda w, p: blocked(w),
    "taskgraph add": lambda w, p: add_node(w, p, "design"),
    "goal set": lambda w, p: set_goal(w, p, "ship more", ["docs"]),
    "goal accept": lambda w, p: accept_goal(w, p, "tests", "pass"),
}


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("fault", ["stop", errno.ENOSPC, errno.EIO])
def test_a_change_that_was_stopped_is_whole_or_not_there(name, fault):
    """What said that it was done is there; after the same command again all is as it should be."""
    with fast_folder() as folder:
        base = prepared(folder / "base" / "vyane")
        before = state(base)
        whole = World(Path(shutil.copytree(folder / "base", folder / "whole"), "vyane"), {})
        ACTIONS[name](whole, named(whole, "p"))
        wanted = state(whole)
        assert wanted != before
        for k in range(1, ENDLESS):
            place = folder / f"k{k}"
            world = World(Path(shutil.copytree(folder / "base", place), "vyane"), {})

            def action(say: Callable[[object], None], world: World = world) -> None:
                ACTIONS[name](world, named(world, "p"))
                say("done")

            outcome = stopped_at(k, action) if fault == "stop" else failing_at(k, action, fault)
            assert not outcome.surprise, outcome
            found = state(world)
            if outcome.said:
                assert found == wanted, outcome.at
            elif name != "task report":  # its claim is the second file: the next test's matter
                assert found in (before, wanted), outcome.at
            if found[:3] == before[:3]:
                ACTIONS[name](world, named(world, "p"))
            elif name == "task report":
                blocked(world)
            assert state(world) == wanted, outcome.at
            shutil.rmtree(place)
            if outcome.finished:
                break


def test_a_project_that_was_stopped_in_the_making_is_made_by_the_same_command():
    with fast_folder() as folder:
        for k in range(1, ENDLESS):
            world = World(folder / f"k{k}", {})
            outcome = stopped_at(k, lambda say, w=world: create_project(w, "p", "/") and say(1))
            there = projects.list_known(world.layout)
            assert bool(there) or not outcome.said
            if there:
                assert ledger.read(world.layout, "p").read, outcome.at
            assert create_project(world, "p", "/").project.dir == "/"
            assert ledger.read(world.layout, "p").read
            if outcome.finished:
                break


def test_a_round_that_was_stopped_while_it_claims_starts_nothing_twice():
    """It has the task or not; the next round gets it, since nobody was spawned."""
    with fast_folder() as folder:
        base = prepared(folder / "base" / "vyane")
        blocked(base)
        add_task(base, named(base, "p"), Task("", "free"))
        for k in range(1, ENDLESS):
            place = folder / f"k{k}"
            world = World(Path(shutil.copytree(folder / "base", place), "vyane"), {})
            outcome = stopped_at(k, lambda say, w=world: say(claim_head(w, "p", "r1").task.id))
            if outcome.said:
                assert outcome.said == ["T3"]
            taken = claim_head(world, "p", "r2")
            assert taken is not None
            assert taken.task.id == "T3"
            assert claim_head(world, "p", "r3") is None
            if outcome.finished:
                break
