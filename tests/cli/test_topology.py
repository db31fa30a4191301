"""`vyane topology`: the tree, as data and for people."""

import json
import os
import pty
import signal
import subprocess
import sys

import pytest

from tests.simulated import World
from tests.workers import grow
from vyane_cli.cli.render.machine import plain
from vyane_cli.delivery.topology import topology
from vyane_cli.sessions import registry

SOON = "from vyane_cli.cli import app, workers; workers.EVERY_S = 0.1;"
WATCH = [sys.executable, "-c", f"{SOON} app.main()", "topology", "--watch"]


def names(nodes: list) -> list:
    return [(node["name"], names(node["children"])) for node in nodes]


@pytest.fixture
def world(one) -> World:
    one.world.environ = {}
    return one.world


def test_the_tree_has_exactly_four_keys_and_every_child_once(run, world):
    """Status, liveness, pending mail and the last progress are at each worker."""
    ids = grow(world, 5)
    world.send(ids[3], "hello")
    code, out, _ = run("--json", "topology", ids[0])
    found = json.loads(out)

    assert code == 0
    assert list(found) == ["logical", "workers", "children", "discord_routing"]
    assert found["logical"]["id"] == "vs-000000"
    assert names(found["workers"]) == [("n0", [("n1", [("n4", [])]), ("n2", []), ("n3", [])])]
    (root,) = found["workers"]
    assert (root["status"], root["liveness"]) == ("IDLE", "idle")
    assert [child["pending"] for child in root["children"]] == [0, 0, 1]
    assert root["progress"] == ""


def test_a_logical_session_is_an_address_and_lists_those_spawned_from_it(run, world):
    """`children` are logical sessions, `workers` are workers."""
    grow(world, 2)
    child = registry.load_logical_session(world.layout, "vs-000001")
    assert child is not None
    registry.save_logical_session(world.layout, child._replace(parent_logical_id="vs-000000"))
    found = json.loads(run("--json", "topology", "vs-000000")[1])

    assert [row["id"] for row in found["children"]] == ["vs-000001"]
    assert names(found["workers"]) == [("n0", [("n1", [])])]


def test_outside_of_a_session_all_trees_are_shown(run, world):
    """Each once, at its top."""
    grow(world, 2)
    found = json.loads(run("--json", "topology")[1])

    assert found["logical"] is None
    assert [node["name"] for node in found["workers"]] == ["project", "n0"]


def test_messages_are_a_fifth_key_on_request(run, world):
    """What waits in the inboxes of the tree."""
    ids = grow(world, 2)
    mail = world.send(ids[1], "hello")
    found = json.loads(run("--json", "topology", ids[0], "--messages")[1])

    assert [message["id"] for message in found["messages"]] == [mail]


def test_the_last_progress_is_one_line_of_80_characters(one, run):
    """The last answer, or the last tool."""
    one.prompt()
    one.stop(last_assistant_message="\n" + "long " * 40 + "\nsecond line")
    (root,) = json.loads(run("--json", "topology", "project")[1])["workers"]

    assert len(root["progress"]) == 80
    assert root["progress"].endswith("…")


def test_a_person_sees_a_tree(run, world):
    """Branches before the names."""
    grow(world, 5)
    out = run("topology", "n0")[1]

    assert "├─ n1" in out
    assert "│  └─ n4" in out
    assert "└─ n3" in out


def test_a_cycle_of_links_is_no_endless_tree(world):
    """A damaged registry."""
    ids = grow(world, 2)
    book = registry.Registry(world.layout)
    book.put(book.workers[ids[0]]._replace(parent_worker_id=ids[1]))
    book.save()

    assert names(plain(topology(world, ids[0]).workers)) == [("n0", [("n1", [])])]


@pytest.mark.parametrize("who", ["nobody", "vs-ffffff"])
def test_an_unknown_worker_or_session_is_not_found(run, who):
    """Exit 3."""
    assert run("topology", who)[0] == 3


def test_a_watched_tree_is_shown_again_and_again_until_it_is_ended(world):
    """One document a line; a worker that comes is in the next one; Ctrl-C ends it with 130."""
    command = [*WATCH, "--json"]
    environ = {"PATH": os.environ["PATH"], "VYANE_HOME": world.layout.root}
    running = subprocess.Popen(command, stdout=subprocess.PIPE, env=environ, text=True)
    assert running.stdout is not None
    with running:
        first = json.loads(running.stdout.readline())
        world.register("late")
        seen = first
        while [node["name"] for node in seen["workers"]] != ["project", "late"]:
            seen = json.loads(running.stdout.readline())
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
    assert [node["name"] for node in first["workers"]] == ["project"]


def test_a_watched_tree_stays_where_it_is_on_a_terminal(world):
    """The screen is cleared before each, so that the tree does not run away."""
    command = WATCH
    environ = {"PATH": os.environ["PATH"], "VYANE_HOME": world.layout.root, "TERM": "xterm"}
    ours, theirs = pty.openpty()
    running = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
    os.close(theirs)
    shown = b""
    try:
        while shown.count(b"project") < 2:
            shown += os.read(ours, 4096)
    finally:
        running.kill()
        running.wait()
        os.close(ours)
    assert shown.count(b"\x1b[2J") >= 2


def test_a_watched_tree_ends_quietly_with_its_reader(world):
    """`vyane topology --watch | head -1`."""
    command = [*WATCH, "--json"]
    environ = {"PATH": os.environ["PATH"], "VYANE_HOME": world.layout.root}
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ)
    assert running.stdout is not None
    assert running.stderr is not None
    assert running.stdout.readline()
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait(30) == 0
    running.stderr.close()
