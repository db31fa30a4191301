"""What a kill left: found by age, never what somebody still needs."""

import os
import time
from pathlib import Path

import pytest

from tests.operations.faults import stopped_at
from tests.simulated import World, fast_folder
from tests.workers import named, order, results, workers, world_in
from vyane_cli.children import spawn as spawning
from vyane_cli.children.result import settle_child
from vyane_cli.children.result_rules import Ending, Report
from vyane_cli.children.spawn import spawn as spawn
from vyane_cli.mail import blobs
from vyane_cli.mail.lookup import find_message, whole_text
from vyane_cli.sessions import registry
from vyane_cli.upkeep.gc import collect


@pytest.fixture
def world(world: World, monkeypatch) -> World:
    """With a parent, bob, whose children have no process."""
    monkeypatch.setattr(spawning, "start_launcher", lambda *rest: None)
    world.register("bob")
    return world


def all_files(world: World) -> list[Path]:
    return [path for path in Path(world.layout.root).rglob("*") if path.is_file()]


def grow_old(world: World) -> None:
    """An hour goes by for every file."""
    at = time.time() - 3_700
    for path in all_files(world):
        os.utime(path, (at, at))


def naming(world: World, text: str) -> list[str]:
    return [path.name for path in all_files(world) if text in path.name]


def test_a_spawn_that_was_killed_leaves_nothing_after_an_hour(monkeypatch):
    """At every call before its commit point; a child that came to be keeps everything."""
    monkeypatch.setattr(spawning, "start_launcher", lambda *rest: None)
    swept = 0
    for k in range(1, 400):
        with fast_folder() as folder:
            world = world_in(folder)
            before = {path.name for path in all_files(world)}
            outcome = stopped_at(k, lambda say, world=world: say(spawn(world, order()).id))
            children = [w for w in workers(world).values() if w.parent_worker_id]
            for dry_run in (True, False):
                assert collect(world, dry_run=dry_run)[0]["leftovers"] == 0, outcome.at
            grow_old(world)
            if children:
                assert collect(world)[0]["leftovers"] == 0, outcome.at
                assert len(naming(world, children[0].id)) >= 2, outcome.at
            else:
                dry = collect(world, dry_run=True)[0]["leftovers"]
                assert collect(world)[0]["leftovers"] == dry, outcome.at
                swept += dry
                left = {p.name for p in all_files(world)} - before
                assert not [n for n in left if n.startswith(("w-", "worker-w-", "vs-"))], left
            if outcome.finished:
                break
    assert swept > 4
    assert k > 10


def test_mail_to_a_worker_that_is_on_no_record_stays(world):
    """It may be all that is left of somebody's words: `gc` lets it expire, and tells its sender."""
    child = spawn(world, order(name="kid"))
    sent = world.send("kid", "hello")
    book = registry.Registry(world.layout)
    del book.workers[child.id]
    book.save()
    grow_old(world)
    collect(world)
    assert find_message(world, sent).message.id == sent
    assert naming(world, child.id) == [f"worker-{child.id}.jsonl"]


def test_a_long_result_stays_for_as_long_as_a_message_names_it(world):
    """In an inbox, then in the archive."""
    child = spawn(world, order())
    text = "".join(f"line {number}\n" for number in range(4000))
    message = settle_child(world, child.id, Report(Ending.SUCCESS, text)).message
    assert message is not None
    for _ in range(2):
        grow_old(world)
        assert collect(world)[0]["blobs"] == 0
        assert whole_text(world, find_message(world, message.id).message) == text.strip("\n")
        world.pass_s(31 * 86_400)  # it expires, and is archived


def test_a_long_result_that_was_never_sent_goes(world):
    """Killed between the text and its message. The next try keeps it anew, under the same name."""
    child = spawn(world, order())
    report = Report(Ending.SUCCESS, "long " * 5000)
    for k in range(1, 100):
        stopped_at(k, lambda say: settle_child(world, child.id, report))
        if len([name for name in naming(world, ".txt") if name.endswith(".txt")]) > 1:
            break
    assert results(world, named(world, "bob").id) == []
    assert collect(world)[0]["blobs"] == 0
    grow_old(world)
    assert collect(world, dry_run=True)[0]["blobs"] == 1
    settle_child(world, child.id, report)  # it found the text there
    assert collect(world)[0]["blobs"] == 0
    grow_old(world)
    assert collect(world)[0]["blobs"] == 0


def test_a_text_that_is_kept_anew_is_not_taken_away_under_its_message(world):
    """Its time is that of the last who kept it: `gc` looks again under the lock that they hold."""
    blobs.save_blob(world.layout, "0" * 64, "text")
    grow_old(world)
    blobs.save_blob(world.layout, "0" * 64, "text")
    assert collect(world)[0]["blobs"] == 0
