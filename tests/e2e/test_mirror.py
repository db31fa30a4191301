"""A person follows a session of the real client in its thread, and writes to it there."""

from pathlib import Path

from hostlab.script import turn

from e2e.world import World

REPLY = "MAIL-0815 say which file you changed"


def test_a_result_appears_in_its_thread_and_a_reply_there_wakes_the_idle_session(
    world: World,
) -> None:
    """One push shows the answer; one pull takes in the reply, and the session begins a turn."""
    me = Path(world.home).owner()
    with Path(world.home, "config.toml").open("a") as config:
        config.write(f'\n[channels.file]\nallow_users = ["{me}"]\nverbosity = "full"\n')
    bob = world.lab.client("bob")
    with bob.tui() as tui:
        name = world.greet(bob, tui)
        long = "It is done.\n" + "\n".join(f"- step {number}" for number in range(60))
        bob.script(turn(long), turn("cart.py"))
        tui.submit("do it")
        bob.request(2)
        tui.wait_status("idle")
        world.vyane("mirror", "push")
        (thread,) = Path(world.home, "threads").glob(f"{name}.*.md")
        shown = thread.read_text()
        assert "> - step 59\n" in shown, shown  # whole, though the timeline has its beginning only
        assert shown.count("It is done.") == 1

        with thread.open("a") as file:
            file.write(REPLY + "\n")
        (report,) = world.json("mirror", "pull")
        assert report["taken"] == 1
        woken = bob.request_with("MAIL-0815")
        assert woken.count("MAIL-0815") == 1
        tui.wait_status("idle")
        world.vyane("mirror", "push")
        assert thread.read_text().count("> cart.py\n") == 1
