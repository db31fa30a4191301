"""A session in the real client, its post in a mock Discord, and a person who answers there."""

from collections.abc import Iterator

import pytest
from discord.mockcord import MockDiscord
from hostlab.script import turn
from hostlab.waiting import wait_until

from e2e.world import World

WORD = "FROM-DISCORD-4711"


@pytest.fixture
def discord() -> Iterator[MockDiscord]:
    with MockDiscord() as server:
        yield server
    server.assert_clean()


def connect(world: World, discord: MockDiscord) -> None:
    """What a person does once: the settings, and the token in the environment."""
    settings = {
        "guild": discord.world.guild_id,
        "forum": discord.forum.id,
        "allow_users": discord.alice["id"],
        "verbosity": "full",
    }
    for key, value in settings.items():
        world.vyane("config", "set", f"channels.discord.{key}", value)
    world.lab.env["DISCORD_API"] = discord.base_url
    world.lab.env["DISCORD_TOKEN"] = discord.world.token


def texts(discord: MockDiscord) -> list[str]:
    (thread,) = discord.threads()
    return [one["content"] for one in discord.visible(thread["id"]) if one["by"] == "bot"]


def test_a_result_shows_in_its_post_and_a_reply_there_wakes_the_idle_session(
    world: World, discord: MockDiscord
) -> None:
    connect(world, discord)
    bob = world.lab.client("bob")
    bob.script({"blocks": ["Hello from the session."]}, turn("Heard you."))
    with bob.tui() as tui:
        tui.submit("hello")
        bob.request(1)
        tui.wait_status("idle")
        name = world.worker(tui.session_id)
        wait_until(lambda: world.events(name, "TurnFinished"), "the turn's end")
        world.vyane("mirror", "push")
        assert any("Hello from the session." in text for text in texts(discord))

        (thread,) = discord.threads()
        discord.act("post", channel=thread["id"], user=discord.alice["id"], content=WORD)
        (report,) = world.json("mirror", "pull")
        assert report["taken"] == 1
        woken = bob.request_with(WORD)
        assert woken.count(WORD) == 1
        tui.wait_status("idle")
        wait_until(lambda: len(world.events(name, "TurnFinished")) > 1, "the second turn's end")
        world.vyane("mirror", "push")

    assert sum("Heard you." in text for text in texts(discord)) == 1
    assert discord.visible(thread["id"])[-1]["by"] == "bot"
