"""The host lab itself, and the facts of the host on which vyane rests."""

import json
import time
from pathlib import Path
from typing import Any

from hostlab.lab import Lab
from hostlab.script import bash, subagent, turn
from hostlab.waiting import wait_until


def context(event: str, text: str) -> str:
    """What a hook prints to add text to the conversation."""
    answer: dict[str, Any] = {"hookEventName": event, "additionalContext": text}
    return json.dumps({"hookSpecificOutput": answer})


def test_there_is_no_way_out_of_the_lab(lab: Lab) -> None:
    """A tool of the client sees the loopback interface and no other."""
    bob = lab.client("bob")
    bob.script(turn(bash("ls /sys/class/net; ip -o link | wc -l")), turn("Done."))
    bob.run("look")
    assert bob.requests()[1].newest.split()[-1] == "1"


def test_what_a_hook_adds_to_a_prompt_reaches_the_model(lab: Lab) -> None:
    """A pull."""
    bob = lab.client("bob")
    bob.hooks(UserPromptSubmit={"command": lab.recorder(out=context("UserPromptSubmit", "MARK-1"))})
    bob.script(turn("Hello."))
    assert bob.run("hi").stdout == "Hello.\n"
    assert bob.requests()[0].count("MARK-1") == 1
    (call,) = lab.hook_calls("UserPromptSubmit")
    assert call["payload"]["prompt"] == "hi"


def test_a_change_of_a_watched_file_wakes_an_idle_session(lab: Lab) -> None:
    """A start: `watchPaths`, FileChanged, `asyncRewake` and exit 2."""
    bob = lab.client("bob")
    watched = lab.root / "wake"
    watched.touch()
    start = {"hookEventName": "SessionStart", "watchPaths": [str(watched)]}
    bob.hooks(
        SessionStart={"command": lab.recorder(out=json.dumps({"hookSpecificOutput": start}))},
        FileChanged={"command": lab.recorder(err="MARK-2", exit="2"), "asyncRewake": True},
    )
    bob.script(turn("Hello."), turn("Read."))
    with bob.tui() as tui:
        tui.submit("hi")
        bob.request(1)
        tui.wait_status("idle")
        watched.write_text("1")
        wrote = time.time()
        assert bob.request_with("MARK-2").at - wrote < 1.5
        tui.wait_status("idle")
        assert lab.hook_calls("FileChanged")[0]["payload"]["file_path"] == str(watched)


def test_a_tool_call_can_be_held_and_a_turn_interrupted(lab: Lab) -> None:
    """What the tests use to stop a turn at a known place."""
    bob = lab.client("bob")
    first, second = lab.hold(), lab.hold()
    bob.script(turn(first.call), turn("Done."), turn(second.call))
    with bob.tui() as tui:
        tui.submit("work")
        first.reached()
        assert tui.status() == "busy"
        first.release()
        assert bob.request(2).newest == "released"
        tui.wait_status("idle")
        tui.submit("more work")
        second.reached()
        tui.interrupt()
        tui.wait_for("Interrupted")
        assert tui.alive()


def test_a_subagent_is_told_from_the_main_conversation_by_its_first_message(lab: Lab) -> None:
    """It shares session id, environment and process."""
    bob = lab.client("bob")
    bob.script(
        turn(subagent("SUBTASK look")),
        turn("Looked.", when_first="SUBTASK"),
        turn("All done."),
    )
    bob.run("please")
    firsts = ["SUBTASK" in request.first for request in bob.requests()]
    assert firsts.count(True) == 1
    assert firsts[0] is False


def test_closing_the_lab_ends_every_process_in_it(lab: Lab) -> None:
    """Also one that has left its session and its terminal."""
    bob = lab.client("bob")
    pid_file = lab.root / "pid"
    command = f"setsid sh -c 'echo $$ >{pid_file}; exec sleep 600' >/dev/null 2>&1 &"
    bob.script(turn(bash(command)), turn("Done."))
    bob.run("go")
    wait_until(pid_file.exists, "the background process")
    pid = int(pid_file.read_text())
    assert pid in lab.processes()
    lab.__exit__(None, None, None)
    command_line = Path(f"/proc/{pid}/cmdline")  # empty for one that nobody has waited for
    assert not command_line.exists() or not command_line.read_bytes()


def test_a_killed_client_leaves_its_session_record(lab: Lab) -> None:
    """It runs no hook: a record alone does not prove that its session lives."""
    bob = lab.client("bob")
    with bob.tui() as tui:
        record = tui.records / f"{tui.pid}.json"
        assert record.exists()
        tui.kill()
        assert record.exists()
