"""`vyane project`, `task`, `taskgraph`, `goal`: what is taken, what is refused, what is kept."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.simulated import files_of
from vyane_cli.projects import claims
from vyane_cli.projects.catalog import named
from vyane_cli.projects.claim_rules import TaskClaim
from vyane_cli.projects.claims import claim_head, held_tasks
from vyane_cli.sessions import registry
from vyane_cli.storage import journal


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder that nobody declared for a project, and the working folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("VYANE_WORKER", "CLAUDE_CODE_SESSION_ID", "CLAUDECODE", "CLAUDE_PID"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def ledger(run, folder):
    """Commands in the folder of project `p`: each gives what it prints, or (code, error)."""

    def command(*words: str) -> object:
        code, out, err = run("--json", *words)
        return json.loads(out) if code == 0 else (code, json.loads(err)["error"])

    command("project", "create", "p", "--dir", ".")
    command.home = os.environ["VYANE_HOME"]  # type: ignore[attr-defined]
    return command


def error(found: object) -> tuple[int, str, str]:
    assert isinstance(found, tuple), found
    code, said = found
    return code, said["code"], said["message"] + " " + said["hint"]


# ------------------------------------------------------------------ projects


def test_a_project_is_made_once_and_again_only_makes_what_is_missing(ledger, folder):
    """Nothing that is there is touched by the same command."""
    ledger("task", "add", "one")
    before = files_of(ledger.home)
    again = ledger("project", "create", "p", "--dir", str(folder))
    assert (again["created"], again["files"]) == (False, [])
    assert files_of(ledger.home) == before

    os.remove(Path(ledger.home, "projects", "p", "goal.json"))
    assert ledger("project", "create", "p", "--dir", ".")["files"] == ["goal.json"]


@pytest.mark.parametrize("words, code, says", [
    (("q", "--dir", "."), 4, "belongs to project p"),
    (("P", "--dir", "."), 4, "there is a project p"),
    (("p", "--dir", "/"), 4, "there is a project p in"),
    (("a b", "--dir", "."), 2, "project"),
    (("q", "--dir", "nowhere"), 2, "dir"),
    (("q", "--dir", "/", "--main", "nobody"), 3, "worker"),
])  # fmt: skip
def test_a_project_that_cannot_be_made_leaves_nothing(ledger, words, code, says):
    before = files_of(ledger.home)
    found = error(ledger("project", "create", *words))

    assert found[0] == code
    assert says in found[2]
    assert files_of(ledger.home) == before


def test_the_working_folder_says_which_project_and_an_option_another(ledger, folder, monkeypatch):
    (folder / "q" / "src").mkdir(parents=True)
    ledger("project", "create", "q", "--dir", "q")
    monkeypatch.chdir(folder / "q" / "src")
    assert ledger("task", "add", "inner")["project"] == "q"
    assert ledger("task", "add", "outer", "--project", "p")["project"] == "p"
    assert [row["title"] for row in ledger("task", "list")] == ["inner"]
    assert [(row["name"], row["here"]) for row in ledger("project")] == [("p", False), ("q", True)]

    monkeypatch.chdir("/")
    assert error(ledger("task", "list"))[:2] == (3, "not_found")
    assert error(ledger("task", "list", "--project", "qq"))[0] == 3


def test_a_worktree_is_selected_for_one_project_at_a_time(ledger, folder, monkeypatch):
    place = folder.parent / (folder.name + "-worktree")
    place.mkdir()
    ledger("project", "create", "q", "--dir", "/tmp")
    ledger("project", "select", "p", "--dir", str(place))
    monkeypatch.chdir(place)
    assert ledger("task", "add", "x")["project"] == "p"

    assert ledger("project", "select", "q")["here"]
    assert ledger("project", "show")["name"] == "q"
    assert ledger("project", "show", "p")["folders"] == []
    assert error(ledger("project", "select", "q", "--dir", str(folder)))[0] == 4


def test_what_is_declared_as_a_project_is_made_is_kept_with_it(ledger, one):
    ledger("project", "create", "q", "--dir", "/", "--main", "project")

    assert named(one.world, "q").main == one.worker
    assert ledger("project", "show", "q")["main"] == one.worker


def test_membership_is_declared_and_inherited_never_guessed_from_a_folder(ledger, one, folder):
    world = one.world
    book = registry.Registry(world.layout)
    child = next(iter(book.workers.values()))._replace(
        id="w-00000000000c", name="child", parent_worker_id=one.worker, cwd=str(folder)
    )
    book.put(child)
    book.save()
    assert ledger("project", "show")["members"] == []

    ledger("project", "edit", "p", "--main", "project")
    assert ledger("project", "show")["members"] == [one.worker, child.id]
    assert error(ledger("project", "leave", one.worker))[0] == 4
    ledger("project", "create", "q", "--dir", "/")
    assert error(ledger("project", "edit", "q", "--main", one.worker))[0] == 4

    ledger("project", "edit", "p", "--main", "none")
    ledger("project", "join", "q", "child")
    assert ledger("project", "show", "q")["members"] == [child.id]
    assert error(ledger("project", "edit", "p", "--main", "child"))[0] == 4


def test_outside_of_every_folder_the_workers_own_project_is_meant(ledger, one, monkeypatch):
    ledger("project", "join", "p", one.worker)
    monkeypatch.chdir("/")
    monkeypatch.setenv("VYANE_WORKER", one.worker)

    assert ledger("task", "add", "x")["project"] == "p"


# ------------------------------------------------------------------ tasks


def test_a_task_is_added_shown_changed_and_done(ledger, folder):
    made = ledger("task", "add", "write the parser", "--line", "api", "--deadline", "2h")
    assert (made["id"], made["status"], made["startable"]) == ("T1", "pending", True)
    assert 7_100 < made["deadline_at"] - made["created_at"] < 7_201
    ledger("task", "add", "test it", "--after", "t1", "--text", "all of it")
    assert ledger("task", "show", "T2")["waits_for"] == ["T1"]

    changed = ledger("task", "edit", "T2", "--title", "test all", "--after", "none", "--line", "x")
    assert (changed["title"], changed["after"], changed["text"]) == ("test all", [], "all of it")
    assert error(ledger("task", "edit", "T2"))[0] == 2

    (folder / "parser.py").touch()
    ledger("task", "report", "T1", "--state", "running")
    done = ledger("task", "report", "T1", "--state", "done", "--artifact", "parser.py")
    assert done["artifact"] == str(folder / "parser.py")
    assert [h["op"] for h in ledger("task", "show", "T1")["history"]] == [
        "add", "report", "report",
    ]  # fmt: skip
    assert [row["id"] for row in ledger("task", "list")] == ["T2", "T1"]
    assert [row["id"] for row in ledger("task", "list", "--status", "done")] == ["T1"]


@pytest.mark.parametrize("words, code, slug, says", [
    (("add", ""), 2, "invalid_input", "title"),
    (("add", "a\nb"), 2, "invalid_input", "title"),
    (("add", "x", "--line", "a b"), 2, "invalid_input", "line"),
    (("add", "x", "--after", "T9"), 3, "not_found", "T9"),
    (("add", "x", "--deadline", "soon"), 2, "invalid_input", "deadline"),
    (("add", "x", "--deadline", "2001-01-01"), 2, "invalid_input", "still to come"),
    (("add", "x", "--deadline", "2001-13-01"), 2, "invalid_input", "deadline"),
    (("add", "x", "--after", " , "), 2, "invalid_input", "after"),
    (("edit", "T2", "--after", " "), 2, "invalid_input", "after"),
    (("edit", "T1", "--after", "T2"), 2, "cycle", "T1 → T2 → T1"),
    (("edit", "T1", "--after", "T1"), 2, "cycle", "T1 → T1"),
    (("edit", "T9", "--title", "x"), 3, "not_found", "T9"),
    (("report", "T1", "--state", "blocked"), 2, "invalid_input", "reason"),
    (("report", "T1", "--state", "done"), 2, "invalid_input", "--no-artifact-reason"),
    (("report", "T1", "--state", "done", "--artifact", "no"), 2, "invalid_input", "artifact"),
    (("report", "T1", "--state", "doing"), 2, "invalid_input", "state"),
    (("report", "T2", "--state", "running"), 5, "not_ready", "T1"),
    (("report", "T9", "--state", "running"), 3, "not_found", "T9"),
    (("list", "--status", "x"), 2, "invalid_input", "status"),
    (("add", "x", "--order", "9" * 23), 2, "invalid_input", "order"),
    (("edit", "T1", "--order", "-" + "9" * 23), 2, "invalid_input", "order"),
])  # fmt: skip
def test_what_is_refused_is_named_and_changes_nothing(ledger, words, code, slug, says):
    ledger("task", "add", "one")
    ledger("task", "add", "two", "--after", "T1")
    before = files_of(ledger.home)
    found = error(ledger("task", *words))

    assert found[:2] == (code, slug)
    assert says in found[2]
    assert files_of(ledger.home) == before


def test_the_same_report_again_changes_nothing(ledger):
    ledger("task", "add", "one")
    words = ("task", "report", "T1", "--state", "blocked", "--reason", "no key")
    ledger(*words)
    before = files_of(ledger.home)

    assert ledger(*words)["reason"] == "no key"
    assert files_of(ledger.home) == before


def test_a_report_knows_its_worker_from_the_environment(ledger, one, monkeypatch):
    ledger("task", "add", "one")
    monkeypatch.setenv("VYANE_WORKER", one.worker)

    running = ledger("task", "report", "T1", "--state", "running")
    assert (running["worker"], running["worker_name"]) == (one.worker, "project")


def test_a_child_reports_what_its_task_is_at_as_task_report_does(ledger, one, folder, monkeypatch):
    """`vyane report --task`: the same rules, the same words, by the worker that runs it."""
    ledger("task", "add", "one")
    monkeypatch.setenv("VYANE_WORKER", one.worker)
    taken = ledger("report", "--task", "t1", "--state", "running")
    assert (taken["id"], taken["status"], taken["worker"]) == ("T1", "running", one.worker)
    assert taken == ledger("task", "report", "T1", "--state", "running")
    assert error(ledger("report", "--task", "T1", "--state", "done"))[0] == 2
    (folder / "parser.py").write_text("")
    done = ledger("report", "--task", "T1", "--state", "done", "--artifact", "parser.py")
    assert (done["status"], done["artifact"]) == ("done", str(folder / "parser.py"))


@pytest.mark.parametrize("words, code", [
    (("--task", "T1"), 2),
    (("--task", "T9", "--state", "running"), 3),
    (("--task", "T1", "--state", "lost"), 2),
    (("--task", "T1", "--state", "running", "--progress", "half"), 2),
    (("--progress", "half", "--state", "done"), 2),
    (("--result", "x", "--project", "p"), 2),
])  # fmt: skip
def test_a_report_of_a_task_that_makes_no_sense_changes_nothing(ledger, words, code):
    """Exactly one thing is reported, with what belongs to it."""
    ledger("task", "add", "one")
    before = files_of(ledger.home)
    assert error(ledger("report", *words))[0] == code
    assert files_of(ledger.home) == before


def test_a_task_that_a_live_worker_has_is_not_taken_by_another(ledger, one, monkeypatch):
    world = one.world
    other = world.register("other", pid=os.getpid())
    ledger("task", "add", "one")
    monkeypatch.setenv("VYANE_WORKER", other)
    ledger("task", "report", "T1", "--state", "running")
    monkeypatch.setenv("VYANE_WORKER", one.worker)
    found = error(ledger("task", "report", "T1", "--state", "running"))
    assert found[:2] == (4, "task_taken")
    assert other in found[2]

    assert ledger("task", "report", "T1", "--state", "done", "--no-artifact-reason", "a talk")


def test_a_claimed_task_is_its_workers_and_the_report_renews_or_ends_the_claim(
    ledger, one, monkeypatch
):  # fmt: skip
    world = one.world
    other = world.register("other", pid=os.getpid())
    ledger("task", "add", "one")
    now = world.clock().at
    claims.take(
        world.layout,
        "p",
        TaskClaim(
            task="T1",
            worker=other,
            round="r1",
            at=now - 600,
            renewed_at=now - 600,
            process=world.me(),
        ),
    )
    monkeypatch.setenv("VYANE_WORKER", one.worker)
    assert error(ledger("task", "report", "T1", "--state", "running"))[1] == "task_taken"

    monkeypatch.setenv("VYANE_WORKER", other)
    ledger("task", "report", "T1", "--state", "running")
    claim = claims.load(world.layout, "p", "T1")
    assert claim is not None
    assert claim.renewed_at >= now
    ledger("task", "report", "T1", "--state", "blocked", "--reason", "no key")
    assert held_tasks(world, "p") == frozenset()
    assert claim_head(world, "p", "r2") is None


def test_the_audit_says_who_did_what_and_no_decision_reads_it(ledger):
    ledger("task", "add", "one")
    ledger("task", "report", "T1", "--state", "running")
    path = Path(ledger.home, "projects", "p", "tasks-events.jsonl")
    records = [line.record for line in journal.read(str(path))]
    assert [(r["op"], r["revision"]) for r in records if r] == [("add", 1), ("report", 2)]

    path.write_text("not a record\n")
    assert [row["id"] for row in ledger("task", "list")] == ["T1"]
    ledger("task", "add", "two")


# ------------------------------------------------------------------ files edited by hand


def write(ledger, name: str, text: str) -> Path:
    path = Path(ledger.home, "projects", "p", name)
    path.write_text(text)
    return path


def test_a_ledger_that_was_edited_by_hand_is_read_back(ledger):
    write(ledger, "tasks.json", """{
      "tasks": [
        {"id": "T7", "title": "by hand", "colour": "red"},
        {"id": "setup", "title": "and another", "status": "blocked", "reason": "no key"}
      ]
    }""")  # fmt: skip

    assert [(row["id"], row["status"]) for row in ledger("task", "list")] == [
        ("T7", "pending"), ("setup", "blocked"),
    ]  # fmt: skip
    assert ledger("task", "add", "next")["id"] == "T8"
    kept = json.loads(Path(ledger.home, "projects", "p", "tasks.json").read_text())
    assert kept["tasks"][0]["colour"] == "red"


@pytest.mark.parametrize("text, says", [
    ('{"tasks": [\n {"id": "T1" "title": "x"}]}', "line 2"),
    ("", "not JSON"),
    ('{"tasks": [{"id": "T1", "title": "x", "status": "doing"}]}', "tasks[0] (T1).status: 'doing'"),
    ('{"tasks": [{"id": "T1", "title": "x", "after": ["T1"]}]}', "T1 → T1"),
    ('{"tasks": [{"id": "T1", "title": "x", "status": "blocked"}]}', "reason"),
    ('{"v": 99, "tasks": []}', "newer"),
])  # fmt: skip
def test_a_ledger_that_was_edited_wrongly_is_named_by_place_and_left_alone(ledger, text, says):
    path = write(ledger, "tasks.json", text)
    for words in (("task", "list"), ("task", "add", "x"), ("taskgraph",),
                  ("task", "report", "T1", "--state", "running")):  # fmt: skip
        code, _, message = error(ledger(*words))
        assert code == 7
        assert says in message
        assert str(path) in message
        assert "by hand" in message or "newer" in message
    assert path.read_text() == text
    assert ledger("goal", "status")["state"] == "unknown"
    (row,) = ledger("project")
    assert row["tasks"] is None
    assert row["unreadable"][0]["path"] == str(path)


def test_a_ledger_that_is_gone_is_not_begun_anew_by_itself(ledger):
    shutil.rmtree(Path(ledger.home, "projects", "p", "claims"), ignore_errors=True)
    os.remove(Path(ledger.home, "projects", "p", "tasks.json"))

    code, _, message = error(ledger("task", "add", "x"))
    assert code == 7
    assert "vyane project create" in message
    assert not Path(ledger.home, "projects", "p", "tasks.json").exists()


# ------------------------------------------------------------------ graph


def test_the_graph_has_nodes_beyond_the_tasks_and_a_critical_path(ledger):
    ledger("task", "add", "build")
    ledger("taskgraph", "add", "design", "--title", "agree on the form")
    found = ledger("taskgraph", "add", "T1", "--after", "design")
    assert found["critical_path"] == ["design", "T1"]
    assert found["startable"] == []
    assert error(ledger("taskgraph", "remove", "design"))[0] == 3
    assert error(ledger("taskgraph", "add", "design", "--after", "T1"))[:2] == (2, "cycle")
    assert error(ledger("taskgraph", "mark", "T1"))[0] == 4
    assert error(ledger("taskgraph", "mark", "nothing"))[0] == 3

    assert ledger("taskgraph", "mark", "design")["startable"] == ["T1"]
    assert ledger("taskgraph", "mark", "design", "--state", "open")["startable"] == []
    ledger("taskgraph", "remove", "T1")
    assert [node["id"] for node in ledger("taskgraph", "remove", "design")["nodes"]] == ["T1"]


# ------------------------------------------------------------------ goal


def test_a_goal_is_open_until_each_source_is_closed(ledger):
    assert error(ledger("goal", "show"))[0] == 3
    assert ledger("goal", "status")["state"] == "unknown"
    ledger("goal", "set", "ship it", "--accept", "tests", "--accept", "docs")
    ledger("task", "add", "one")
    ledger("taskgraph", "add", "review")
    assert ledger("goal", "status")["state"] == "open"

    ledger("task", "report", "T1", "--state", "done", "--no-artifact-reason", "a talk")
    ledger("taskgraph", "mark", "review")
    ledger("goal", "accept", "tests", "--state", "pass")
    ledger("goal", "accept", "docs", "--state", "fail")
    found = ledger("goal", "status")
    assert (found["state"], found["evidence"][2]["items"]) == ("open", ["docs"])
    ledger("goal", "accept", "docs")
    assert ledger("goal", "status")["state"] == "complete"

    os.remove(Path(ledger.home, "projects", "p", "taskgraph.json"))
    assert ledger("goal", "status")["state"] == "unknown"


@pytest.mark.parametrize("words, code", [
    (("set", "ship"), 2), (("set", "", "--accept", "x"), 2), (("set", "a", "--accept", "_x"), 2),
    (("accept", "nothing"), 3), (("accept", "tests", "--state", "ok"), 2),
])  # fmt: skip
def test_a_goal_that_is_not_taken_changes_nothing(ledger, words, code):
    ledger("goal", "set", "ship it", "--accept", "tests")
    before = files_of(ledger.home)

    assert error(ledger("goal", *words))[0] == code
    assert files_of(ledger.home) == before


def test_an_agent_may_not_accept_a_goal_nor_reach_it_by_setting_it_anew(ledger, one, monkeypatch):
    """It is refused, and its timeline says so; an authorised one may."""
    ledger("goal", "set", "ship it", "--accept", "tests", "--accept", "docs")
    ledger("goal", "accept", "tests")
    monkeypatch.setenv("VYANE_WORKER", one.worker)
    path = Path(ledger.home, "projects", "p", "goal.json")
    before = path.read_bytes()

    assert error(ledger("goal", "accept", "docs"))[:2] == (5, "direction")
    assert path.read_bytes() == before
    codes = [e["payload"].get("code") for e in one.world.events(one.logical)]
    assert "direction" in codes
    found = ledger("goal", "set", "ship it", "--accept", "tests")
    assert [a["state"] for a in found["acceptance"]] == ["unknown"]

    with Path(ledger.home, "config.toml").open("a") as file:
        file.write(f'\n[authority]\nworkers = ["{one.worker}"]\n')
    assert ledger("goal", "accept", "tests")["acceptance"][0]["state"] == "pass"


def test_an_unregistered_agent_may_not_accept_a_goal_either(ledger, monkeypatch):
    ledger("goal", "set", "ship it", "--accept", "tests")
    monkeypatch.setenv("CLAUDECODE", "1")

    assert error(ledger("goal", "accept", "tests"))[:2] == (5, "direction")


# ------------------------------------------------------------------ doctor


def test_doctor_names_what_is_wrong_in_a_project_and_leaves_it(ledger, one):
    from vyane_cli.health import state
    from vyane_cli.health.subject import Subject

    def found():
        return state.books(Subject(one.world, None, "/"))  # type: ignore[arg-type]

    assert found() == (True, "1 project", "")
    path = write(ledger, "tasks.json", '{"tasks": [{"id": "T1"}]}')
    Path(one.world.layout.claim("p", "T1")).parent.mkdir()
    Path(one.world.layout.claim("p", "T1")).write_text("{")

    assert not found().ok
    assert "tasks[0] (T1).title" in found().detail
    assert "claim of T1" in found().detail
    assert path.read_text() == '{"tasks": [{"id": "T1"}]}'
