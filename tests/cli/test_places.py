"""`vyane doctor`, `topology`, `workers` and `gc` on the places where people follow sessions."""

import json
from pathlib import Path

from vyane_cli import channels
from vyane_cli.channels.port import Conversation
from vyane_cli.children.result import settle_child
from vyane_cli.children.result_rules import Ending, Report
from vyane_cli.conversations import bindings
from vyane_cli.conversations.bind import RequestedBinding, bind
from vyane_cli.conversations.bindings import unbind
from vyane_cli.conversations.push import push
from vyane_cli.conversations.status import describe_mirror
from vyane_cli.health.doctor import examine
from vyane_cli.hosts import claude_settings
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import WorkerStatus
from vyane_cli.upkeep.gc import collect


def set_up(host, text: str = "[channels.file]\n") -> None:
    host.world.channels = channels.ADAPTERS
    host.world._config = None
    Path(host.home, "config.toml").write_text(text)


def found(host) -> dict:
    checks = examine(host.world, claude_settings, "/")
    return {each.check: each for each in checks}


def test_doctor_says_that_nobody_may_write_and_who_tried(one):
    set_up(one)
    push(one.world)
    checks = found(one)

    assert [checks[name].ok for name in ("channels", "bindings", "conversations")] == [True] * 3
    assert "allow_users is empty" in checks["channels"].detail
    assert checks["bindings"].detail == "1 active"


def test_doctor_names_a_channel_that_was_turned_off_with_the_next_step(one):
    set_up(one)
    Path(one.home, "threads").write_text("in the way")
    push(one.world)
    check = found(one)["channels"]

    assert not check.ok
    assert "threads" in check.detail
    assert "channels.file.folder" in check.fix
    assert "--again" in check.fix


def test_doctor_names_a_locked_conversation_and_mentions_a_deleted_one(one):
    set_up(one)
    push(one.world)
    (path,) = Path(one.home, "threads").glob("*.md")
    path.chmod(0o400)
    one.prompt()
    one.stop(last_assistant_message="x")
    push(one.world)
    locked = found(one)["conversations"]
    path.unlink()
    push(one.world, again=True)
    deleted = found(one)["conversations"]
    bind(one.world, RequestedBinding("project", Conversation("file", "default")))
    moved = found(one)["conversations"]

    assert (locked.ok, "chmod u+rw" in locked.fix) == (False, True)
    assert (deleted.ok, "deleted" in deleted.detail) == (True, True)
    assert (moved.ok, "deleted" in moved.detail) == (True, False)
    assert [row.state for row in describe_mirror(one.world)[0].threads] == ["active"]


def test_doctor_counts_results_without_a_place_of_their_own(one):
    set_up(one, '[channels.file]\nsessions = "bound"\n[bindings]\nspawn_child = true\n')
    Path(one.home, "threads").mkdir()
    Path(one.home, "threads", "notes.md").write_text("")
    bind(one.world, RequestedBinding("project", Conversation("file", "default", "notes")))
    child = spawned(one)
    push(one.world)
    kid = registry.Registry(one.world.layout).workers[child].logical_session_id
    assert len(bindings.load(one.world.layout)) == 2  # a child of a bound session has its own
    unbind(one.world, session=kid, reason="enough")
    settle_child(one.world, child, Report(Ending.SUCCESS, "done"))
    push(one.world)

    assert "no-active-binding ×1" in found(one)["bindings"].detail


def spawned(host) -> str:
    world = host.world
    child = world.register("kid")
    known = registry.Registry(world.layout)
    parent = known.workers[host.worker]
    dispatch = world.send(child, "check", kind="task-dispatch")
    known.put(
        known.workers[child]._replace(
            parent_worker_id=parent.id, dispatch_id=dispatch, status=WorkerStatus.RUNNING
        )
    )
    known.put(parent._replace(children_worker_ids=(child,)))
    known.save()
    return child


def test_a_channel_that_is_taken_out_of_the_settings_is_named(one):
    set_up(one)
    push(one.world)
    set_up(one, "")
    check = found(one)["bindings"]

    assert not check.ok
    assert "unbind" in check.fix


def test_the_tree_and_the_list_say_where_a_session_is_shown(one, run):
    set_up(one)
    child = spawned(one)
    push(one.world)
    routing = json.loads(run("--json", "topology", "project")[1])["discord_routing"]
    threads = {w["id"]: w["discord_thread_id"] for w in json.loads(run("--json", "workers")[1])}

    assert routing["primary_thread_id"] == threads[one.worker] == f"project.{one.logical}"
    assert routing["child_thread_ids"] == {child: threads[child]}
    assert routing["summary_message_id"]


def test_gc_forgets_a_binding_when_its_session_is_forgotten(one):
    set_up(one)
    child = spawned(one)
    push(one.world)
    settle_child(one.world, child, Report(Ending.SUCCESS, "done"))
    push(one.world)
    one.world.pass_s(40 * 86_400)
    assert collect(one.world)[0]["bindings"] == 0  # its worker is still on record
    known = registry.Registry(one.world.layout)
    del known.workers[child]
    known.save()

    assert collect(one.world)[0]["bindings"] == 1
    assert len(bindings.load(one.world.layout)) == 1
    assert len(list(Path(one.home, "mirror").rglob("b-*.json"))) == 1


def test_doctor_names_what_a_channel_waits_for_where_its_place_is_gone(one):
    set_up(one)
    one.world.send("channel:file", "first")
    push(one.world)
    (path,) = Path(one.home, "threads").glob("*channel-file*")
    path.unlink()
    one.world.send("channel:file", "second")
    push(one.world)
    check = found(one)["conversations"]

    assert (check.ok, "channel:file" in check.detail, "--again" in check.fix) == (False, True, True)
