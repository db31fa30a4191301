"""Mail reaches a session that works, idles, was interrupted, was cleared, or is closed."""

import time
from pathlib import Path

import pytest
from hostlab.client import Client
from hostlab.lab import Lab
from hostlab.script import bash, subagent, turn
from hostlab.terminal import Tui
from hostlab.waiting import wait_until

from e2e.installation import Installation
from e2e.world import HUMAN, QUIET, World, clear, open_world

MAIL = "MAIL-4711"
WAKE_LIMIT_S = 1.5


def test_mail_from_another_agent_is_in_the_next_request_of_a_running_turn_once(
    world: World,
) -> None:
    """What an agent sends by its Bash tool arrives after the tool call that runs at the target."""
    ann, bob = world.lab.client("ann"), world.lab.client("bob")
    work = world.lab.hold()
    bob.script(turn(work.call), turn("Done."))
    with bob.tui() as tui:
        tui.submit("work")
        work.reached()
        name = world.worker(tui.session_id)
        ann.script(turn(bash(f"vyane send {name} {MAIL}; echo status=$?")), turn("Sent."))
        ann.run("tell bob")
        assert "status=0" in ann.requests()[1].newest
        work.release()

        assert bob.request(2).count(MAIL) == 1
        tui.wait_status("idle")
        assert bob.last_request().count(MAIL) == 1
        assert len(bob.requests()) == 2


def test_mail_wakes_an_idle_session(world: World) -> None:
    """From the return of `send` to the model request it takes 1.5 s or less, each message once."""
    bob = world.lab.client("bob")
    texts = [f"{MAIL}-{number}" for number in range(3)]
    waits = []
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        for text in texts:
            bob.script(turn("Read."))
            sent = world.send(name, text, *HUMAN)
            assert sent.lane == "direct"
            waits.append(bob.request_with(text).at - sent.returned_at)
            tui.wait_status("idle")

        assert [bob.last_request().count(text) for text in texts] == [1, 1, 1]
        assert len(bob.requests()) == 4
        assert min(waits) <= WAKE_LIMIT_S, waits  # the best: others use the machine too


def test_a_session_that_was_reached_at_work_is_reached_when_it_is_idle_too(world: World) -> None:
    """The story of the demo, with the real client: at the tool call first, then by a wake."""
    ann, bob = world.lab.client("ann"), world.lab.client("bob")
    work = world.lab.hold()
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        bob.script(turn(work.call), turn("Done."))
        tui.submit("run the tests")
        work.reached()
        ann.script(turn(bash(f"vyane send {name} WORKING-{MAIL}")), turn("Sent."))
        ann.run("tell bob")
        work.release()
        assert bob.request_with(f"WORKING-{MAIL}").count(f"WORKING-{MAIL}") == 1
        tui.wait_status("idle")

        bob.script(turn("I will."))
        world.send(name, f"IDLE-{MAIL}", *HUMAN)
        assert bob.request_with(f"IDLE-{MAIL}").count(f"IDLE-{MAIL}") == 1
        tui.wait_status("idle")
        assert "I will." in tui.screen()
        assert bob.last_request().count(f"WORKING-{MAIL}") == 1


def test_two_agents_talk_while_nobody_types(world: World) -> None:
    """One asks, the other wakes and answers, and the first wakes with the answer."""
    ann, bob = world.lab.client("ann"), world.lab.client("bob")
    with ann.tui() as left, bob.tui() as right:
        names = [world.greet(ann, left), world.greet(bob, right)]
        ann.script(turn(bash(f"vyane send {names[1]} QUESTION-{MAIL}")), turn("Asked."))
        bob.script(turn(bash(f"vyane send {names[0]} ANSWER-{MAIL}")), turn("Answered."))
        ann.script(turn("Thanks."))
        left.submit("ask bob")

        assert bob.request_with(f"QUESTION-{MAIL}").count(names[0]) >= 1  # who it is from
        ann.request_with(f"ANSWER-{MAIL}")
        assert ann.last_request().count(f"ANSWER-{MAIL}") == 1
        assert len(bob.requests()) == 3


def test_mail_from_another_agent_wakes_an_idle_session_once_in_300_s(world: World) -> None:
    """The second message in a row waits as too-soon, and is given with the next prompt."""
    ann, bob = world.lab.client("ann"), world.lab.client("bob")
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        bob.script(turn("Read."), turn("Read both."))
        ann.script(turn(bash(f"vyane send {name} FIRST-{MAIL}")), turn("Sent."))
        ann.run("tell bob")
        bob.request_with(f"FIRST-{MAIL}")
        tui.wait_status("idle")
        second = world.send(name, f"SECOND-{MAIL}")
        assert second.lane == "normal"

        assert len(bob.requests()) == 2
        assert bob.last_request().count(f"SECOND-{MAIL}") == 0
        assert "too-soon" in world.vyane("why", second.id)
        tui.submit("anything new")
        assert bob.request(3).count(f"SECOND-{MAIL}") == 1


def test_quiet_mail_wakes_nobody_and_rides_along(world: World) -> None:
    """An `info` waits for the next prompt."""
    bob = world.lab.client("bob")
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        assert world.send(name, MAIL, *QUIET, *HUMAN).lane == "quiet"

        assert bob.last_request().count(MAIL) == 0
        bob.script(turn("Read."))
        tui.submit("anything new")
        assert bob.request(2).count(MAIL) == 1


def test_direct_mail_to_a_closed_session_begins_a_turn_when_it_is_resumed(world: World) -> None:
    """Nobody types anything: the resumed session is given the mail at its start."""
    bob = world.lab.client("bob")
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        session = tui.session_id
        tui.leave()
    sent = world.send(name, MAIL, *HUMAN)
    assert (world.message(name, sent.id) or {})["status"] == "pending"

    bob.script(turn("Read."))
    with bob.tui("--resume", session):
        assert bob.request_with(MAIL).count(MAIL) == 1
        assert bob.last_request().count(MAIL) == 1
        assert len(bob.requests()) == 2


def test_other_mail_to_a_closed_session_is_in_the_first_request_after_resume(
    world: World,
) -> None:
    """It begins no turn, and no message is shown twice."""
    bob = world.lab.client("bob")
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        session = tui.session_id
        tui.leave()
    world.send(name, f"NORMAL-{MAIL}")
    world.send(name, f"QUIET-{MAIL}", *QUIET)

    bob.script(turn("Read."), turn("Still here."))
    with bob.tui("--resume", session) as tui:
        assert world.worker(session) == name
        tui.submit("go on")
        bob.request(2)
        tui.wait_status("idle")
        tui.submit("and again")
        last = bob.request(3)
        assert "go on" in bob.requests()[1].text
        for text in (f"NORMAL-{MAIL}", f"QUIET-{MAIL}"):
            assert bob.requests()[1].count(text) == 1
            assert last.count(text) == 1


def test_mail_wakes_a_session_whose_turn_was_interrupted(world: World) -> None:
    """After Esc the host tells no hook that the turn is over; vyane sees it all the same."""
    bob = world.lab.client("bob")
    work = world.lab.hold()
    bob.script(turn(work.call), turn("Read."))
    with bob.tui() as tui:
        tui.submit("work")
        work.reached()
        name = world.worker(tui.session_id)
        tui.interrupt()
        world.send(name, MAIL, *HUMAN)

        assert bob.request_with(MAIL).count(MAIL) == 1
        assert bob.last_request().count(MAIL) == 1
        (first, *_) = world.events(name, "TurnFinished")
        assert first["payload"]["code"] == "user_interrupt"


def test_mail_that_waits_for_a_turn_comes_when_the_turn_is_interrupted(world: World) -> None:
    """The tool call that it waited for never ends."""
    bob = world.lab.client("bob")
    work = world.lab.hold()
    bob.script(turn(work.call), turn("Read."))
    with bob.tui() as tui:
        tui.submit("work")
        work.reached()
        name = world.worker(tui.session_id)
        world.send(name, MAIL, *HUMAN)
        assert len(bob.requests()) == 1
        tui.interrupt()

        assert bob.request_with(MAIL).count(MAIL) == 1
        assert bob.last_request().count(MAIL) == 1


def test_mail_wakes_a_session_after_clear(world: World) -> None:
    """`/clear` makes a new session at the host: worker, name and inbox stay."""
    bob = world.lab.client("bob")
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        before = tui.session_id
        clear(world, tui)
        assert tui.session_id != before
        assert world.worker(tui.session_id) == name
        bob.script(turn("Read."))
        world.send(name, MAIL, *HUMAN)

        assert bob.request_with(MAIL).count(MAIL) == 1
        assert bob.last_request().count(MAIL) == 1


def test_each_message_of_a_burst_is_shown_once(world: World) -> None:
    """Three messages within a second to an idle session."""
    bob = world.lab.client("bob")
    texts = [f"{MAIL}-{number}" for number in range(3)]
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        for text in texts:
            world.send(name, text, *HUMAN)
        for text in texts:
            bob.request_with(text)

        assert [bob.last_request().count(text) for text in texts] == [1, 1, 1]


def test_hooks_that_are_installed_twice_show_each_message_once(world: World) -> None:
    """In the user's settings and as a plugin: every hook runs twice at the same moment."""
    bob = world.lab.client("bob")
    work = world.lab.hold()
    with bob.tui("--plugin-dir", str(world.installation.plugin)) as tui:
        name = world.greet(bob, tui)
        world.send(name, f"IDLE-{MAIL}", *HUMAN)
        bob.request_with(f"IDLE-{MAIL}")
        tui.wait_status("idle")
        bob.script(turn(work.call), turn("Done."))
        tui.submit("work")
        work.reached()
        world.send(name, f"BUSY-{MAIL}", *HUMAN)
        work.release()
        bob.request_with(f"BUSY-{MAIL}")
        tui.wait_status("idle")
        world.send(name, f"QUIET-{MAIL}", *QUIET)
        tui.submit("anything new")
        bob.request_with(f"QUIET-{MAIL}")

        last = bob.last_request()
        assert [last.count(f"{word}-{MAIL}") for word in ("IDLE", "BUSY", "QUIET")] == [1, 1, 1]


def test_a_subagent_does_not_receive_the_mail_of_its_session(world: World) -> None:
    """
    It has the session's id and environment, and works in the background while the
    main conversation works too: its tool call ends first, and gets nothing.
    """
    bob = world.lab.client("bob")
    sub_work, main_work = world.lab.hold(), world.lab.hold()
    bob.script(
        turn(subagent("SUBTASK look around")),
        turn(sub_work.call, when_first="SUBTASK"),
        turn("Looked.", when_first="SUBTASK"),
        turn(main_work.call),
        turn("All done."),
        turn("Noted."),
    )
    with bob.tui() as tui:
        tui.submit("please look")
        sub_work.reached()
        main_work.reached()
        name = world.worker(tui.session_id)
        world.send(name, MAIL, *HUMAN)
        sub_work.release()
        bob.request(4)
        main_work.release()
        bob.request_with(MAIL)
        tui.wait_status("idle")

        bob.last_request()
        sub = [request for request in bob.requests() if "SUBTASK" in request.first]
        main = [request for request in bob.requests() if "SUBTASK" not in request.first]
        assert len(sub) == 2
        assert [request.count(MAIL) for request in sub] == [0, 0]
        assert main[-1].count(MAIL) == 1


def test_an_agent_may_not_speak_for_a_person(world: World) -> None:
    """`--from-kind human` inside a session is refused with 5, and nothing is stored."""
    ann = world.lab.client("ann")
    world.vyane("workers", "register", "bob")
    command = f"vyane send bob {MAIL} --from-kind human; echo status=$?"
    ann.script(turn(bash(command)), turn("Well."))
    ann.run("pretend")

    assert "status=5" in ann.requests()[1].newest
    assert MAIL not in world.vyane("inbox", "bob", "--json")


@pytest.mark.parametrize("lane", ["normal", "direct"])
def test_no_process_is_left_when_the_sessions_have_ended(world: World, lane: str) -> None:
    """Mail that waits for an idle session needs a process; it ends with the session."""
    bob = world.lab.client("bob")
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        options = HUMAN if lane == "direct" else ()
        world.send(name, f"FIRST-{MAIL}", *options)
        bob.request_with(f"FIRST-{MAIL}")
        world.send(name, f"SECOND-{MAIL}", *options)
        bob.last_request()
        tui.leave()

    assert world.lab.processes_left() == []


def greet_until_known(world: World, client: Client, tui: Tui) -> str:
    """Prompts to a session that was open before the hooks, until one is taken up; its worker."""
    for number in range(1, 10):
        client.script(turn("Hello."))
        tui.submit("hello")
        client.request(number)
        tui.wait_status("idle")
        if world.workers():
            break
    return world.worker(tui.session_id)


def test_a_session_that_was_open_before_the_hooks_has_its_mail_with_a_prompt(
    lab: Lab, installation: Installation, tmp_path: Path
) -> None:
    """The host takes the hooks up while it runs; no start of the session ever told of it."""
    bob = lab.client("bob")
    with bob.tui() as tui:
        world = open_world(lab, installation, tmp_path / "vyane")
        name = greet_until_known(world, bob, tui)
        world.send(name, MAIL)
        before = len(bob.requests())
        bob.script(turn("Read."))
        tui.submit("what is new?")

        assert bob.request(before + 1).count(MAIL) == 1


def test_an_idle_session_without_a_watch_is_reached_by_a_line_in_its_pane(
    lab: Lab, installation: Installation, tmp_path: Path
) -> None:
    """It was open before the hooks, so its host watches nothing; half-typed text stops the line."""
    lab.env.update(TMUX=f"{lab.short / 'bob.tmux'},1,0", TMUX_PANE="%0")
    bob = lab.client("bob")
    with bob.tui() as tui:
        world = open_world(lab, installation, tmp_path / "vyane")
        name = greet_until_known(world, bob, tui)
        (row,) = world.workers()
        assert row["transports"] == ["stop", "tmux"]

        def rests() -> bool:  # the host's record has to have been idle for a second
            return bool(time.time() * 1000 - tui.record()["statusUpdatedAt"] > 1100)

        wait_until(rests, "idle for a second")
        tui.write("half a")
        held = world.send(name, f"FIRST-{MAIL}", *HUMAN)
        assert "tmux/input-in-use" in world.explain(held.id)
        assert tui.box() == "half a"
        tui.keys("C-u")
        before = len(bob.requests())
        bob.script(turn("Read."))
        wait_until(lambda: not tui.box(), "the box is empty", context=tui.screen)
        tui.submit("/rename two words")  # the rule above the box has the name from now on
        tui.wait_for("Session renamed")
        tui.tmux("resize-window", "-x", "45", "-y", "50")  # too narrow for the line
        wait_until(rests, "idle for a second")
        world.send(name, f"SECOND-{MAIL}", *HUMAN)

        request = bob.request(before + 1)
        assert [request.count(f"{number}-{MAIL}") for number in ("FIRST", "SECOND")] == [1, 1]
        tui.wait_status("idle")
        started = world.events(name, "TurnStarted")[-1]["payload"]
        assert started["trigger"] == "wake"
