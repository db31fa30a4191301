"""A session through everything that may end a turn: its timeline tells what the host did not."""

import json

from hostlab.script import bash, turn
from hostlab.waiting import wait_until

from e2e.world import World, clear

SECRET = "SECRET-31415926"


def outcomes(world: World, worker: str) -> list[tuple[str, str]]:
    """(outcome, code) of each turn that has ended, oldest first."""
    events = world.events(worker, "TurnFinished")
    return [(event["payload"]["outcome"], event["payload"].get("code", "")) for event in events]


def test_each_way_in_which_a_turn_ends_has_its_outcome(world: World) -> None:
    """Esc, an API error, `/compact`, `/clear`, kill -9 and a resume, in one session's life."""
    world.lab.env["CLAUDE_CODE_MAX_RETRIES"] = "0"
    bob = world.lab.client("bob")
    work, last = world.lab.hold(), world.lab.hold()
    expected = [("success", "")]
    with bob.tui() as tui:
        name = world.greet(bob, tui)

        bob.script(turn(work.call), turn("Gone on."))
        tui.submit("work")
        work.reached()
        tui.interrupt()
        tui.submit("go on")
        expected += [("interrupted", "user_interrupt"), ("success", "")]
        wait_until(lambda: outcomes(world, name) == expected, "Esc", context=world.story)

        bob.script(turn("<summary>We met.</summary>", when="summary"))
        tui.submit("/compact")
        tui.wait_for("ompacted")
        tui.wait_status("idle")
        assert outcomes(world, name) == expected

        slow = {"type": "rate_limit_error", "message": "slow down"}
        bob.script({"when": "too much", "status": 429, "error": slow, "repeat": True})
        tui.submit("ask too much")
        expected.append(("error", "rate_limit"))
        wait_until(lambda: outcomes(world, name) == expected, "an API error", context=world.story)
        tui.wait_status("idle")

        before = tui.session_id
        clear(world, tui)
        assert world.worker(tui.session_id) == name != before
        bob.script(turn("Anew."))
        tui.submit("begin anew")
        expected.append(("success", ""))
        wait_until(lambda: outcomes(world, name) == expected, "after /clear", context=world.story)

        bob.script(turn(last.call))
        tui.submit("work again")
        last.reached()
        session = tui.session_id
        tui.kill()
    assert outcomes(world, name) == expected

    bob.script(turn("Here again."))
    with bob.tui("--resume", session) as tui:
        expected.append(("interrupted", "runtime_restart"))
        wait_until(lambda: outcomes(world, name) == expected, "the kill", context=world.story)
        tui.submit("are you there?")
        expected.append(("success", ""))
        wait_until(lambda: outcomes(world, name) == expected, "the resume", context=world.story)

    started = world.events(name, "TurnStarted")
    assert [event["turn_number"] for event in started] == list(range(1, len(expected) + 1))
    world.vyane("timeline", "verify", name)


def test_what_a_tool_is_given_and_what_it_prints_is_not_kept(world: World) -> None:
    """The timeline has names and outcomes of tools, never input or output."""
    bob = world.lab.client("bob")
    bob.script(turn(bash(f"echo {SECRET}; echo more >&2; false")), turn("Done."))
    with bob.tui() as tui:
        tui.submit("look")
        assert SECRET in bob.request(2).text
        tui.wait_status("idle")
        name = world.worker(tui.session_id)
        tools = [event["payload"] for event in world.events(name, "ToolObserved")]
        assert [(tool["tool"], tool["outcome"]) for tool in tools] == [("Bash", "failed")]

    held = [path for path in world.home.rglob("*") if path.is_file()]
    assert not [path for path in held if SECRET.encode() in path.read_bytes()]


def test_that_the_person_was_asked_is_known_and_for_what_is_not(world: World) -> None:
    """A permission dialog: the tool's name is in the timeline, what it would do is nowhere."""
    bob = world.lab.client("bob")
    asking = {"permissions": {"defaultMode": "default", "allow": []}}
    (bob.project / ".claude" / "settings.json").write_text(json.dumps(asking))
    bob.script(turn(bash(f"touch {SECRET}")), turn("Done."))
    with bob.tui() as tui:
        tui.submit("look")
        tui.wait_for("Do you want to proceed")
        name = world.worker(tui.session_id)
        asked = {"tool": "Bash", "decision": "asked"}

        def seen() -> bool:
            events = world.events(name, "PermissionObserved")
            return [event["payload"] for event in events] == [asked]

        wait_until(seen, "the dialog in the timeline", context=world.story)
        tui.keys("Enter")
        bob.request(2)
        tui.wait_status("idle")
        wait_until(lambda: outcomes(world, name) == [("success", "")], "Stop", context=world.story)

    assert (bob.project / SECRET).exists()
    held = [path for path in world.home.rglob("*") if path.is_file()]
    assert not [path for path in held if SECRET.encode() in path.read_bytes()]
