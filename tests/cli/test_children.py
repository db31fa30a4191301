"""vyane spawn, wait, report and logs, with children that are really processes."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from tests.cli.children import bob, inbox, spawn, wait, workers
from tests.simulated import Ran, vyane
from vyane_cli.children.result_rules import TOKENS_MAX, estimate_tokens

VYANE = f"{sys.executable} -m vyane_cli"
# ------------------------------------------------------------------ spawn


def test_a_child_works_in_its_folder_with_its_prompt_and_answers_its_parent(world, tmp_path):
    """Its standard output is the result; its environment has none of the parent's host ids."""
    environ = {"CLAUDECODE": "1", "CODEX_THREAD_ID": "x", "GEMINI_CLI": "1", "KEPT": "yes"}
    environ["VYANE_WORKER"] = bob(world)["id"]  # an agent spawns for its own worker only
    child = spawn(world, "检查 CSRF", "--runtime", "says", "--cwd", str(tmp_path), environ=environ)
    assert (child["name"], child["status"], child["worker_type"]) == (
        "bob / csrf",
        "PENDING",
        "says",
    )
    (ended,) = wait(world, child["id"])
    assert (ended["status"], ended["success"]) == ("COMPLETED", True)

    (message,) = inbox(world, "bob")
    assert message["id"] == ended["message_id"]
    assert (message["lane"], message["correlation_id"]) == ("direct", child["dispatch_id"])
    said = json.loads(message["payload"]["summary"])
    assert (said["prompt"], said["cwd"]) == ("检查 CSRF", str(tmp_path))
    assert said["environ"]["VYANE_WORKER"] == child["id"]
    assert said["environ"]["KEPT"] == "yes"
    assert not [name for name in said["environ"] if name.startswith(("CLAUDE", "CODEX", "GEMINI"))]
    (dispatch,) = inbox(world, child["id"], "task-dispatch")
    assert dispatch["status"] == "consumed"


def test_what_a_child_prints_is_in_its_logs(world):
    """Its errors apart; after its end `-f` ends too."""
    child = spawn(world, "echo one; sleep 0.5; echo two; echo oops >&2", "--runtime", "sh")
    ran = vyane(world.layout.root, "logs", child["id"], "-f")
    assert (ran.status, ran.out, ran.err) == (0, b"one\ntwo\n", b"oops\n")
    assert vyane(world.layout.root, "logs", "bob").status == 3


def test_a_child_inherits_a_word_of_its_parent_unless_that_is_refused(world):
    """Before the prompt, and in the dispatch."""
    ran = vyane(
        world.layout.root, "spawn", "TASK", "--parent", "bob", "--runtime", "file", "--json"
    )
    child = json.loads(ran.out)
    wait(world, child["id"])
    (message,) = inbox(world, "bob")
    (dispatch,) = inbox(world, child["id"], "task-dispatch")
    context = dispatch["payload"]["inherited_context"]
    assert "bob" in context
    assert message["payload"]["summary"] == f"{context}\n\nTASK"


def test_a_program_that_is_not_there_makes_the_child_fail_with_the_reason(world):
    """The parent is told as by any result."""
    child = spawn(world, "x", "--runtime", "absent")
    (ended,) = wait(world, child["id"])
    assert (ended["status"], ended["success"]) == ("FAILED", False)
    assert "/no/such/program" in workers(world)[child["id"]]["failure_reason"]
    assert "could not be started" in inbox(world, "bob")[0]["payload"]["error"]


def test_mail_to_a_child_that_has_ended_is_stored_and_nobody_is_promised_a_reader(world):
    """Its session may be opened again; by itself it makes no call any more."""
    child = spawn(world, "echo done", "--runtime", "sh")
    wait(world, child["id"])
    ran = vyane(world.layout.root, "send", child["id"], "thanks", "--json")

    assert ran.status == 0
    told = json.loads(ran.out)["outlook"]
    assert told == "it has ended (COMPLETED) and reads it only if it is opened again"


@pytest.mark.parametrize(
    "script, error",
    [("echo half; exit 3", "exited with status 3"), ("kill -9 $$", "ended by signal 9")],
)
def test_a_child_that_fails_says_how(world, script, error):
    """By its runtime's outcome, with what it said last."""
    child = spawn(world, script, "--runtime", "sh")
    (ended,) = wait(world, child["id"])
    assert ended["status"] == "FAILED"
    assert error in inbox(world, "bob")[0]["payload"]["error"]


@pytest.mark.parametrize(
    "words, status, code",
    [
        (("x",), 2, "invalid_input"),
        (("x", "--parent", "nobody"), 3, "not_found"),
        (("", "--parent", "bob"), 2, "invalid_input"),
        (("x", "--parent", "bob", "--runtime", "nope"), 2, "unknown_runtime"),
        (("x", "--parent", "bob", "--purpose", "foo"), 2, "invalid_input"),
        (("x", "--parent", "bob", "--name", "bob", "--runtime", "sh"), 4, "conflict"),
        (("x", "--parent", "bob", "--name", "all"), 2, "invalid_input"),
        (("x", "--parent", "bob", "--cwd", "/no/such/folder"), 2, "invalid_input"),
    ],
)
def test_a_spawn_that_makes_no_sense_is_refused_and_nothing_is_stored(world, words, status, code):
    """Everything is checked before anything is written."""
    ran = vyane(world.layout.root, "spawn", *words, "--json")
    assert (ran.status, json.loads(ran.err)["error"]["code"]) == (status, code)
    assert len(workers(world)) == 1
    assert not os.path.exists(world.layout("launches"))


def test_an_agent_spawns_for_itself_and_not_for_another(world):
    """Its own worker is the parent; another's children are the person's to make."""
    child = spawn(world, f"{VYANE} spawn inner --runtime file; sleep 1", "--runtime", "sh")
    wait(world, child["id"])
    (inner,) = [w for w in workers(world).values() if w["parent_worker_id"] == child["id"]]
    assert inner["trace_id"] == child["trace_id"]
    other = f"{VYANE} spawn x --parent bob --runtime file; echo status=$?"
    (ended,) = wait(world, spawn(world, other, "--runtime", "sh")["id"])
    assert "status=5" in ended["summary"]


# ------------------------------------------------------------------ report


def report(*words: str) -> str:
    return f"{VYANE} report {' '.join(words)}; echo status=$?; "


def test_a_child_reports_progress_and_one_result(world):
    """What it prints and how it exits change nothing after that; a second result is exit 4."""
    script = report("--progress", "half") + "echo long text | " + report("--result", "-")
    child = spawn(world, script + report("--result", "again") + "exit 9", "--runtime", "sh")
    (ended,) = wait(world, child["id"])
    assert (ended["status"], ended["summary"]) == ("COMPLETED", "long text")
    ran = vyane(world.layout.root, "logs", child["id"], "-f")
    assert [line for line in ran.out.decode().splitlines() if "status=" in line] == [
        "status=0", "status=0", "status=4",
    ]  # fmt: skip
    assert len(inbox(world, "bob")) == 1
    (progress,) = inbox(world, "bob", "status-update")
    assert (progress["payload"]["progress"], progress["lane"]) == ("half", "quiet")
    assert workers(world)[child["id"]]["status"] == "COMPLETED"


def test_a_child_may_say_that_it_failed(world):
    """The first line is the reason."""
    script = report("--result", "'no luck'", "--failed")
    (ended,) = wait(world, spawn(world, script, "--runtime", "sh")["id"])
    assert (ended["status"], ended["success"]) == ("FAILED", False)
    assert inbox(world, "bob")[0]["payload"]["error"] == "no luck"


def test_a_child_may_say_that_it_will_be_silent(world):
    """Until when is in its record."""
    child = spawn(world, report("--long-running", "2h"), "--runtime", "sh")
    wait(world, child["id"])
    until_s = workers(world)[child["id"]]["long_running_until"]
    assert 7000 < until_s - time.time() < 7300


@pytest.mark.parametrize(
    "words, status, code",
    [
        (("--result", "x"), 4, "no_dispatch"),
        (("--progress", "x"), 4, "no_dispatch"),
        ((), 2, "invalid_input"),
        (("--failed",), 2, "invalid_input"),
        (("--result", "x", "--progress", "y"), 2, "invalid_input"),
        (("--long-running", "soon"), 2, "invalid_input"),
    ],
)
def test_a_report_that_makes_no_sense_is_refused(world, words, status, code):
    """A worker that nobody dispatched has nobody to report to."""
    environ = {"VYANE_WORKER": bob(world)["id"]}
    ran = vyane(world.layout.root, "report", *words, "--json", environ=environ)
    assert (ran.status, json.loads(ran.err)["error"]["code"]) == (status, code)


def test_a_report_outside_of_a_worker_is_refused(world):
    """Exit 2: nobody is known to be speaking."""
    assert vyane(world.layout.root, "report", "--result", "x").status == 2


def test_a_long_result_is_a_beginning_and_the_command_that_prints_the_whole(world):
    """The cap is 2,000 tokens; the blob has every byte."""
    child = spawn(world, "seq 1 9000", "--runtime", "sh")
    wait(world, child["id"])
    (message,) = inbox(world, "bob")
    assert estimate_tokens(message["payload"]["head"]) <= TOKENS_MAX
    whole: Ran = vyane(world.layout.root, "show", message["id"], "--full")
    assert whole.out.split() == [str(number).encode() for number in range(1, 9001)]
    digest = message["payload"]["summary_ref"]["sha256"]
    blob = Path(world.layout.blob(digest))
    assert blob.stat().st_size == message["payload"]["summary_ref"]["bytes"]
    told = vyane(world.layout.root, "tick", "--host", "generic", "--worker", "bob").out.decode()
    assert f"vyane show {message['id']} --full" in told


# ------------------------------------------------------------------ wait


def test_waiting_for_any_ends_with_the_first_and_for_all_with_the_last(world):
    """A time that runs out is exit 5, and changes nothing."""
    slow = spawn(world, "until [ -e go ]; do sleep 0.1; done; echo slow", "--runtime", "sh",
                 "--cwd", str(Path(world.layout.root).parent))["id"]  # fmt: skip
    quick = spawn(world, "echo quick", "--runtime", "sh")["id"]
    rows = wait(world, slow, quick, "--any")
    assert [row["status"] for row in rows if row["worker"] == quick] == ["COMPLETED"]
    ran = vyane(world.layout.root, "wait", slow, quick, "--timeout", "1s", "--json")
    assert (ran.status, json.loads(ran.err)["error"]["code"]) == (5, "timed_out")
    assert (workers(world)[slow]["status"], workers(world)[slow]["liveness"]) == ("RUNNING", "busy")
    (Path(world.layout.root).parent / "go").touch()
    rows = wait(world, slow, quick, "--all")
    assert [row["summary"] for row in rows] == ["slow", "quick"]


def test_a_blocked_parent_is_unblocked_by_the_result(world):
    """The field names the dispatch until then."""
    child = spawn(world, "sleep 1", "--runtime", "sh", "--block-parent")
    assert bob(world)["blocked_on_message_id"] == child["dispatch_id"]
    wait(world, child["id"])
    assert bob(world)["blocked_on_message_id"] is None


# ------------------------------------------------------------------ results by send


def test_a_result_by_send_is_that_of_the_dispatch_or_refused(world):
    """Another correlation, a second one: exit 4. With the key of the first it is a retry."""
    send = f"{VYANE} send parent --kind task-result --payload"
    good = f"""{send} '{{"success": true, "summary": "yes", "artifacts": ["a.txt"]}}'"""
    script = "; ".join(
        f"{command} >/dev/null; echo status=$?"
        for command in (
            f"{good} --correlation-id 01J00000000000000000000000",
            f"{good} --idempotency-key k",
            f"{good} --idempotency-key k",
            good,
        )
    )
    child = spawn(world, script, "--runtime", "sh")
    wait(world, child["id"])
    ran = vyane(world.layout.root, "logs", child["id"], "-f")
    assert ran.out.split() == [b"status=4", b"status=0", b"status=0", b"status=4"]
    (message,) = inbox(world, "bob")
    assert message["payload"]["artifacts"] == ["a.txt"]
    assert message["correlation_id"] == child["dispatch_id"]
    assert workers(world)[child["id"]]["status"] == "COMPLETED"


@pytest.mark.parametrize(
    "words",
    [
        ("wait", "nobody"),
        ("logs", "nobody"),
        ("topology", "nobody"),
        ("cancel", "nobody", "--from-kind", "human"),
        ("takeover", "nobody", "x", "--from-kind", "human"),
        ("spawn", "x", "--parent", "nobody"),
    ],
)
def test_a_worker_that_nobody_knows_is_not_found(world, words):
    """Exit 3, with the names there are; nothing is made."""
    ran = vyane(world.layout.root, *words, "--json")
    assert ran.status == 3
    error = json.loads(ran.err)["error"]
    assert error["code"] == "not_found"
    assert "bob" in error["hint"]
    assert list(workers(world)) == [bob(world)["id"]]
    assert inbox(world, "bob") == []


def test_a_prompt_that_is_too_long_is_refused_with_what_to_do_instead(world):
    """Of 48 KiB and one more; as much as that is taken."""
    for size, status in ((48 * 1024 + 1, 2), (48 * 1024, 0)):
        ran = vyane(
            world.layout.root, "spawn", "-", "--parent", "bob", "--runtime", "file",
            "--no-inherit-context", stdin=b"a" * size,
        )  # fmt: skip
        assert ran.status == status, ran.err
        assert (b"put it into a file" in ran.err) is (status == 2)
    assert len(workers(world)) == 2
