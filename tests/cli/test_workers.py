"""`vyane workers`: who is there, what each does; registered by hand; renamed."""

import json
import os
import subprocess

import pytest

from tests.simulated import vyane
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import WorkerStatus


def listed(run) -> dict[str, dict]:
    return {row["name"]: row for row in json.loads(run("--json", "workers")[1])}


def test_a_session_registers_itself_under_a_readable_unique_name(host, run, tmp_path):
    """From the folder and the branch; the second one of a folder gets a number."""
    repository = tmp_path / "api"
    (repository / ".git").mkdir(parents=True)
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/feature/log-in\n")
    (repository / "src").mkdir()
    first, second = host(cwd=str(repository)), host(cwd=str(repository / "src"))
    first.start()
    second.start()

    assert {"api-feature-log-in", "api-feature-log-in-2"} <= set(listed(run))


@pytest.mark.parametrize("folder", ["all", "Parent", "children", "me", "vs-code", "w-4711"])
def test_the_folder_of_a_session_makes_no_name_of_an_address(host, run, folder):
    """Mail to `all` would go to everybody, and `vs-…` is a logical session."""
    other = host(cwd=f"/tmp/{folder}")
    other.start()
    name = f"session-{folder.lower()}"
    code, out, _ = run("--json", "send", name, "hello")

    assert code == 0
    assert json.loads(out)["to_id"] == other.worker
    assert name in listed(run)


def test_the_list_says_what_each_session_does(host, one, run):
    """From the session's own files: busy in a turn, idle after it, exited when it is gone."""
    assert listed(run)["project"]["liveness"] == "idle"
    one.prompt()
    row = listed(run)["project"]
    assert row["liveness"] == "busy"
    assert row["status"] == "RUNNING"
    one.stop()
    one.world.send("project", "hello")
    row = listed(run)["project"]
    assert (row["liveness"], row["pending"]) == ("idle", 1)
    assert row["transports"] == ["watch", "stop"]
    one.die()
    row = listed(run)["project"]
    assert row["liveness"] == "exited"
    assert row["transports"] == []
    assert row["pending"] == 1


def test_a_turn_is_over_with_its_process_and_its_worker_is_not_busy_any_more(run, one):
    """Else a round would wait for it for ever: an agent of one's own may have no next call."""
    program = subprocess.Popen(["sleep", "600"])
    try:
        assert run("workers", "register", "bob", "--pid", str(os.getpid()))[0] == 0
        assert run("turn", "start", "bob", "--pid", str(program.pid))[0] == 0
        assert listed(run)["bob"]["liveness"] == "busy"
    finally:
        program.kill()
        program.wait()
    row = listed(run)["bob"]

    assert (row["liveness"], row["turn"]) == ("idle", None)
    assert "not finished" in run("timeline", "show", "bob")[1]
    assert run("turn", "start", "bob")[0] == 0
    assert "interrupted (runtime_restart)" in run("timeline", "show", "bob")[1]


def test_a_worker_without_hooks_is_registered_by_hand(run, one):
    """Its id is printed; its mail is read by a generic tick."""
    code, out, _ = run("--json", "workers", "register", "bob", "--pid", str(os.getpid()))
    bob = json.loads(out)

    assert code == 0
    assert bob["name"] == "bob"
    assert bob["transports"] == ["call"]
    assert bob["pid"] == os.getpid()
    assert run("send", bob["id"][:8], "hello")[0] == 0


@pytest.mark.parametrize(
    "name",
    ["", " ", " bob", "bob ", "a\nb", "\x1b[31m", "all", "ALL", "parent", "children", "vs-1", "w-1",
     "channel:x", "-x", "..", "a/../b", "x" * 81, "a\u202eb"],
)  # fmt: skip
def test_a_name_that_is_an_address_of_another_kind_is_refused(run, one, name):
    """By register and by rename."""
    assert run("workers", "register", "--", name)[0] == 2
    assert run("workers", "rename", "--", "project", name)[0] == 2
    assert set(listed(run)) == {"project"}


def test_a_live_workers_name_is_not_handed_on(run, one):
    """Exit 4, whatever the case of the letters; nor can another be renamed to it."""
    assert run("workers", "register", "project")[0] == 4
    assert run("workers", "register", "PROJECT")[0] == 4
    assert run("workers", "register", "bob", "--pid", str(os.getpid()))[0] == 0
    assert run("workers", "rename", "bob", "Project")[0] == 4


def test_a_renamed_worker_keeps_its_mail(run, one):
    """Mail goes by id; the old name finds nobody, the new one does."""
    mail = one.world.send("project", "hello")
    assert run("workers", "rename", "project", "api")[0] == 0
    assert run("send", "project", "x")[0] == 3
    assert run("send", "api", "x")[0] == 0

    assert mail in one.prompt().text


def test_an_agent_renames_itself_and_no_stranger(run, host, one):
    """By the name of another it would get that one's mail."""
    other = host(cwd="/tmp/other")
    other.start()
    rename = ("workers", "rename")
    refused = vyane(one.home, *rename, "project", "x", environ=other.environ())
    own = vyane(one.home, *rename, "other", "mine", environ=other.environ())

    assert (refused.status, own.status) == (5, 0)
    assert {"project", "mine"} <= set(listed(run))


def test_a_renamed_worker_s_conversation_has_its_name(run, one):
    """It is what a message to the logical session says."""
    assert run("workers", "rename", "project", "api")[0] == 0

    assert "for api:" in run("send", one.logical, "x")[1]


def test_the_list_of_all_says_how_each_worker_ended(run, one):
    """Its process may be there still; and a takeover that is not over is named."""
    book = registry.Registry(one.world.layout)
    book.put(book.workers[one.worker]._replace(status=WorkerStatus.COMPLETED))
    book.save()
    one.world.register("bob", os.getpid())
    assert run("takeover", "bob", "stop", "--timeout", "0.01s", "--from-kind", "human")[0] == 0

    out = run("workers", "--all")[1]
    assert [line.split()[2] for line in out.splitlines()[1:]] == ["completed", "idle,"]
    assert out.count("idle, taken over") == 1


@pytest.mark.parametrize("words", [("--pid", "999999999"), ("--session-id", "../x")])
def test_a_process_or_session_that_is_none_is_refused(run, one, words):
    """Nothing is registered."""
    assert run("workers", "register", "bob", *words)[0] in (2, 3)
    assert set(listed(run)) == {"project"}


def test_names_for_completion_are_one_a_line(run, one):
    """A file beside the registry."""
    run("workers", "register", "bob", "--pid", str(os.getpid()))
    with open(one.world.layout.names) as file:
        assert file.read() == "bob\nproject\n"


def test_every_field_of_a_worker_is_told_to_programs(run, one):
    """M-46, M-57…M-63, and name, liveness, pending, transports."""
    fields = set(
        "id name worker_type status session_id logical_session_id task_id parent_worker_id"
        " children_worker_ids last_heartbeat created_at last_used_at liveness pending"
        " transports trace_id span_id generation progress".split()
    )
    assert fields <= set(listed(run)["project"])
