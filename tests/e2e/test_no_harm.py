"""A hook never harms a session, whatever has become of vyane, and costs it next to no time."""

import time
from collections.abc import Callable

import pytest
from hostlab.client import Client
from hostlab.script import bash, turn

from e2e.breakages import BREAKAGES
from e2e.world import HUMAN, QUIET, World

MAIL = "MAIL-3141"


@pytest.mark.parametrize("breakage", BREAKAGES.values(), ids=BREAKAGES)
def test_every_tool_runs_and_every_prompt_is_answered_when_vyane_is_broken(
    fragile_world: World, breakage: Callable[[World], None]
) -> None:
    """
    It breaks under a live session that has mail waiting, so that each hook has
    work to do. To the host, a hook's exit 2 would mean: block.
    """
    world = fragile_world
    bob = world.lab.client("bob")
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        world.send(name, MAIL, *QUIET)
        breakage(world)
        for number in (1, 2):
            before = len(bob.requests())
            bob.script(turn(bash(f"touch ran-{number}")), turn(f"Answer {number}."))
            tui.submit(f"prompt {number}")
            tui.wait_for(f"Answer {number}.")
            tui.wait_status("idle")

            assert (bob.project / f"ran-{number}").exists()
            assert "hook error" not in bob.last_request(quiet_s=1).text
            assert len(bob.requests()) == before + 2  # a Stop that blocks would ask again
        tui.leave()

    bob.script(turn(bash("touch ran-3")), turn("Answer 3."))
    done = bob.run("prompt 3")
    assert (done.returncode, done.stdout) == (0, "Answer 3.\n")
    assert (bob.project / "ran-3").exists()


def test_mail_survives_a_time_with_a_read_only_home(world: World) -> None:
    """Nothing was shown, nothing is lost: it comes when the home can be written again."""
    bob = world.lab.client("bob")
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        world.send(name, MAIL, *QUIET)
        world.lab.mount_read_only(world.home)
        bob.script(turn("Answered."), turn("Read."))
        tui.submit("prompt one")
        bob.request(2)
        tui.wait_status("idle")
        world.lab.unmount(world.home)
        tui.submit("prompt two")

        assert bob.request(3).count(MAIL) >= 1


def seconds_of_a_run(client: Client) -> float:
    """How long `claude -p` takes for a prompt and a tool call."""
    client.script(turn(bash("true")), turn("Done."))
    began = time.monotonic()
    done = client.run("go")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    return time.monotonic() - began


def test_print_mode_does_not_slow_down(world: World) -> None:
    """There the host waits for every hook, those with `asyncRewake` too."""
    bob = world.lab.client("bob")
    taken: dict[str, list[float]] = {"install": [], "uninstall": []}
    for _ in range(3):  # in turns, and the best of each: others use the machine too
        for verb, seconds in taken.items():
            world.vyane("hooks", verb, "--scope", "user")
            seconds.append(seconds_of_a_run(bob))

    assert min(taken["install"]) < 2 * min(taken["uninstall"]) + 0.5, taken


@pytest.mark.parametrize("options", [(), HUMAN], ids=["normal", "direct"])
def test_print_mode_is_given_its_mail_and_does_not_wait(
    world: World, options: tuple[str, ...]
) -> None:
    """A resumed run has the mail in its first request, once, and ends with its answer."""
    bob = world.lab.client("bob")
    bob.script(turn("Hello."), turn("Read."))
    bob.run("hello")
    (worker,) = world.workers()
    sent = world.send(worker["name"], MAIL, *options)
    began = time.monotonic()
    done = bob.run("go on", "--continue")

    assert (done.returncode, done.stdout) == (0, "Read.\n")
    assert time.monotonic() - began < 10
    assert bob.requests()[1].count(MAIL) == 1
    assert len(bob.requests()) == 2
    assert world.message(worker["name"], sent.id) is not None
