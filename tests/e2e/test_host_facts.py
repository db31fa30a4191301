"""What the real client does, where vyane relies on it: these fail when a new client differs."""

import json
from typing import Any

from hostlab.client import Client
from hostlab.conversation import Request
from hostlab.lab import Lab
from hostlab.script import bash, turn
from hostlab.terminal import Tui
from hostlab.waiting import wait_until

EVENTS = ("SessionStart", "UserPromptSubmit", "PostToolBatch", "Stop", "FileChanged")


def answer(event: str, **fields: object) -> str:
    """What a hook prints."""
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, **fields}})


def recorded(lab: Lab, client: Client, **answers: str) -> None:
    """Record the events, each with the given output; FileChanged wakes with the text MARK."""
    handlers: dict[str, dict[str, object]] = {}
    for event in EVENTS:
        out = {"out": answers[event]} if event in answers else {}
        handlers[event] = {"command": lab.recorder(**out)}
    handlers["FileChanged"] = {"command": lab.recorder(err="MARK", exit="2"), "asyncRewake": True}
    client.hooks(**handlers)


def prompt_ids(lab: Lab, event: str) -> list[str]:
    return [call["payload"]["prompt_id"] for call in lab.hook_calls(event)]


def first_turn(client: Client, tui: Tui) -> None:
    client.script(turn("Hello."))
    tui.submit("hello")
    client.request(1)
    tui.wait_status("idle")


def test_a_prompt_typed_ahead_has_the_id_of_the_running_turn(lab: Lab) -> None:
    """Its prompt event comes in the middle of the turn."""
    bob = lab.client("bob")
    recorded(lab, bob)
    work = lab.hold()
    bob.script(turn(work.call), turn("Done."))
    with bob.tui() as tui:
        tui.submit("work")
        work.reached()
        tui.submit("and this too")
        work.release()
        assert "and this too" in bob.request(2).text
        tui.wait_status("idle")

        assert len(bob.requests()) == 2
        assert len(prompt_ids(lab, "UserPromptSubmit")) == 2
        assert len({*prompt_ids(lab, "UserPromptSubmit"), *prompt_ids(lab, "Stop")}) == 1


def test_a_queued_prompt_after_an_interrupt_has_no_prompt_event_of_its_own(lab: Lab) -> None:
    """
    While a tool runs, its event comes as it is queued. Its turn shows first at a
    tool or at Stop.
    """
    bob = lab.client("bob")
    work = lab.hold()
    recorded(lab, bob)
    bob.script(turn(work.call), turn("Done."))
    with bob.tui() as tui:
        tui.submit("work")
        work.reached()
        tui.submit("rather do this")
        wait_until(lambda: len(prompt_ids(lab, "UserPromptSubmit")) == 2, "its event")
        tui.keys("Escape")
        assert "rather do this" in bob.request(2).text
        tui.wait_status("idle")
        wait_until(lambda: prompt_ids(lab, "Stop"), "Stop")

        (id_of_first,) = {*prompt_ids(lab, "UserPromptSubmit")}
        assert prompt_ids(lab, "Stop")[0] != id_of_first


def interrupted_and_asked_again(client: Client, tui: Tui, number: int) -> Request:
    """Esc while request `number` has no answer, then another prompt: its request."""
    client.request(number)
    tui.interrupt()
    client.script(turn("Done."))
    tui.submit("again")
    return client.request(number + 1)


def test_what_a_hook_adds_to_a_prompt_is_lost_with_an_interrupt(lab: Lab) -> None:
    """So mail that was given there counts as read only after a sign that the turn went on."""
    bob = lab.client("bob")
    recorded(lab, bob, UserPromptSubmit=answer("UserPromptSubmit", additionalContext="MARK"))
    bob.script(turn("Too late.", delay=30))
    with bob.tui() as tui:
        tui.submit("work")
        again = interrupted_and_asked_again(bob, tui, 1)
        assert (bob.requests()[0].count("MARK"), again.count("MARK")) == (1, 1)  # its own


def test_the_text_of_a_wake_outlives_an_interrupt(lab: Lab) -> None:
    """It is a message of the conversation."""
    bob = lab.client("bob")
    watched = lab.root / "wake"
    watched.touch()
    recorded(lab, bob, SessionStart=answer("SessionStart", watchPaths=[str(watched)]))
    with bob.tui() as tui:
        first_turn(bob, tui)
        bob.script(turn("Too late.", delay=30))
        watched.write_text("1")
        again = interrupted_and_asked_again(bob, tui, 2)
        assert (bob.requests()[1].count("MARK"), again.count("MARK")) == (1, 1)


def test_a_session_is_busy_while_its_stop_hooks_run(lab: Lab) -> None:
    """By its own record: so a Stop hook never sees its session idle."""
    bob = lab.client("bob")
    release = lab.root / "release"
    bob.hooks(Stop={"command": lab.recorder(wait_file=str(release))})
    bob.script(turn("Done."))
    with bob.tui() as tui:
        tui.submit("work")
        wait_until(lambda: lab.hook_calls("Stop"), "Stop")
        seen: dict[str, Any] = tui.record()
        release.touch()
        tui.wait_status("idle")
        assert seen["status"] == "busy"


def test_handlers_with_the_same_command_and_different_arguments_all_run(lab: Lab) -> None:
    """In exec form: the host drops only what is equal in both."""
    bob = lab.client("bob")
    script = lab.root / "guard"
    script.write_text(f'#!/bin/sh\necho "$*" >>{lab.root}/ran\n')
    script.chmod(0o755)
    handlers = [
        {"type": "command", "command": str(script), "args": ["SessionStart", *more]}
        for more in ((), ("again",), ())
    ]
    settings = {"hooks": {"SessionStart": [{"hooks": handlers}]}}
    (bob.project / ".claude" / "settings.json").write_text(json.dumps(settings))
    bob.script(turn("Done."))
    bob.run("go")
    ran = (lab.root / "ran").read_text().splitlines()
    assert sorted(ran) == ["SessionStart", "SessionStart again"]


def test_a_change_of_folder_drops_the_watches_of_the_start(lab: Lab) -> None:
    """Unless a CwdChanged hook returns them again."""
    bob = lab.client("bob")
    watched = lab.root / "wake"
    watched.touch()
    (bob.project / "sub").mkdir()
    recorded(lab, bob, SessionStart=answer("SessionStart", watchPaths=[str(watched)]))
    with bob.tui() as tui:
        bob.script(turn(bash("cd sub && pwd")), turn("Moved."))
        tui.submit("go there")
        bob.request(2)
        tui.wait_status("idle")
        watched.write_text("1")
        assert "MARK" not in bob.last_request(quiet_s=2.5).text
        assert lab.hook_calls("FileChanged") == []
