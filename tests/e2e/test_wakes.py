"""What may come between a message and the wake of an idle session does not."""

import fcntl
import threading
import time

from hostlab.script import bash, turn
from hostlab.waiting import wait_until

from e2e.world import HUMAN, World, clear

MAIL = "MAIL-0815"


def test_a_chatty_sender_does_not_starve_the_wake(world: World) -> None:
    """
    The host merges bursts of changes into one event after the last of them. So
    with a message every 0.2 s for 10 s the wake comes while the sender still sends.
    """
    bob = world.lab.client("bob")
    sent: list[tuple[str, float]] = []

    def chatter() -> None:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            began = time.monotonic()
            text = f"{MAIL}-{len(sent):03}."
            sent.append((text, world.send(name, text).returned_at))
            time.sleep(max(0.0, began + 0.2 - time.monotonic()))

    with bob.tui() as tui:
        name = world.greet(bob, tui)
        bob.script(turn("Read."))
        sender = threading.Thread(target=chatter)
        sender.start()
        woken = bob.request_with(MAIL)
        sender.join()
        assert len(sent) > 10
        assert woken.at - sent[0][1] < 5
        assert woken.at < sent[-1][1]
        tui.wait_status("idle")

        # a turn of several tool calls: one hook output does not hold everything
        bob.script(*(turn(bash(f"echo step {number}")) for number in range(3)), turn("Read all."))
        tui.submit("what is new?")
        wait_until(lambda: sent[-1][0] in bob.requests()[-1].text, "the last message")
        last = bob.last_request()
        assert {text: last.count(text) for text, _ in sent} == dict.fromkeys(
            (text for text, _ in sent), 1
        )


def test_a_session_still_wakes_after_a_change_of_folder(world: World) -> None:
    """A `cd` of the Bash tool that stays drops every watch of the session's start."""
    bob = world.lab.client("bob")
    (bob.project / "sub").mkdir()
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        bob.script(turn(bash("cd sub && pwd")), turn("Moved."), turn("Read."))
        tui.submit("go there")
        assert bob.request(3).newest.endswith("/sub")
        tui.wait_status("idle")
        world.send(name, MAIL, *HUMAN)

        assert bob.request_with(MAIL).count(MAIL) == 1
        assert bob.last_request().count(MAIL) == 1


def test_a_session_whose_start_missed_its_locks_still_wakes(world: World) -> None:
    """The host asks at the start alone what to watch, so the answer needs no lock."""
    bob = world.lab.client("bob")
    wakes, lock = world.home / "wake", world.home / "locks" / "1-registry-00.lock"
    lock.parent.mkdir(mode=0o700, exist_ok=True)
    with lock.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with bob.tui() as tui:
            wait_until(lambda: wakes.is_dir() and any(wakes.iterdir()), "the watch")
            assert not world.workers()
            held.close()
            name = world.greet(bob, tui)
            bob.script(turn("Read."))
            world.send(name, MAIL, *HUMAN)

            assert bob.request_with(MAIL).count(MAIL) == 1


def test_a_session_still_wakes_after_it_was_compacted(world: World) -> None:
    """`/compact` keeps the session's id and fires its start again."""
    bob = world.lab.client("bob")
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        bob.script(turn("<summary>We met.</summary>", when="summary"), turn("Read."))
        tui.submit("/compact")
        tui.wait_for("Compacted")
        tui.wait_status("idle")
        world.send(name, MAIL, *HUMAN)

        assert bob.request_with(MAIL).count(MAIL) == 1
        assert bob.last_request().count(MAIL) == 1


def test_of_two_sessions_in_one_folder_only_the_right_one_wakes(world: World) -> None:
    """Each has a name and a watch of its own, also when one of them was cleared."""
    folder = world.lab.root / "shop"
    one = world.lab.client("one", project=folder)
    two = world.lab.client("two", project=folder)
    with one.tui() as left, two.tui() as right:
        names = [world.greet(one, left), world.greet(two, right)]
        assert names[0] != names[1]
        assert all(name.startswith("shop") for name in names)
        clear(world, right)
        world.send(names[0], f"LEFT-{MAIL}", *HUMAN)
        world.send(names[1], f"RIGHT-{MAIL}", *HUMAN)
        one.request_with(f"LEFT-{MAIL}")
        two.request_with(f"RIGHT-{MAIL}")

        assert one.last_request().count(f"LEFT-{MAIL}") == 1
        assert two.last_request().count(f"RIGHT-{MAIL}") == 1
        assert not [r for r in one.requests() if f"RIGHT-{MAIL}" in r.text]
        assert not [r for r in two.requests() if f"LEFT-{MAIL}" in r.text]


def test_mail_at_the_instant_of_stop_is_shown_once(world: World) -> None:
    """Whether a Stop or a watch gets it first: `send` lands from 0.3 s before to 0.3 s after."""
    bob = world.lab.client("bob")
    answer_s, start_up_s = 0.8, 0.15
    offsets = (-0.3, -0.15, -0.05, 0.05, 0.15, 0.3)
    texts = [f"{MAIL}-{number}" for number in range(len(offsets))]
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        for text, offset in zip(texts, offsets, strict=True):
            before = len(bob.requests())
            bob.script(turn("Answered.", delay=answer_s))
            tui.submit("a question")
            stop_at = bob.request(before + 1).at + answer_s
            time.sleep(max(0.0, stop_at + offset - start_up_s - time.time()))  # not a wait: the aim
            world.send(name, text, *HUMAN)
            bob.request_with(text)
            tui.wait_status("idle")
            bob.last_request(quiet_s=0.5)

        last = bob.last_request()
        assert {text: last.count(text) for text in texts} == dict.fromkeys(texts, 1)
