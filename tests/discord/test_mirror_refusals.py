"""What Discord refuses is asked for once, until somebody says again or the settings are others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.discord.mockcord import MockDiscord
from tests.discord.sessions import Mirrored, mirrored, started, waits
from tests.simulated import World
from vyane_cli import channels
from vyane_cli.attention import needs
from vyane_cli.channels.port import Conversation
from vyane_cli.conversations import rounds
from vyane_cli.conversations import state as mirrors
from vyane_cli.conversations.bind import RequestedBinding, bind
from vyane_cli.conversations.rounds import show_all, take_in
from vyane_cli.conversations.status import describe_mirror
from vyane_cli.errors import LockTimeoutError
from vyane_cli.health import projects
from vyane_cli.health.subject import Subject
from vyane_cli.hosts import claude_settings
from vyane_cli.setup.home import initialise


@pytest.fixture
def one(discord: MockDiscord, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirrored]:
    with mirrored(discord) as session:
        waits(session, monkeypatch)
        yield session


def deny(one: Mirrored, right: str, *, allow: bool = False) -> None:
    act = "allow" if allow else "deny"
    one.server.act(act, channel=one.server.forum.id, permission=right)


def told(one: Mirrored) -> list[str]:
    """The reasons that `mirror status` gives."""
    (status,) = describe_mirror(one.world)
    return [problem.code for problem in status.problems]


def test_a_post_that_may_not_be_made_is_asked_for_once_and_told_each_time(one: Mirrored) -> None:
    deny(one, "SEND_MESSAGES")
    one.turn("start")
    first = one.push()
    asked = len(one.server.requests)
    second = one.push()

    assert len(one.server.requests) == asked
    assert first.problems == second.problems != ()
    assert told(one) == [first.problems[0].code]
    finding = projects.conversations(Subject(one.world, claude_settings, "/"))
    assert not finding.ok
    assert "Send Messages" in finding.fix


def test_another_session_is_asked_for_where_one_was_refused(one: Mirrored) -> None:
    deny(one, "SEND_MESSAGES")
    one.turn("start")
    one.push()
    asked = one.asked("create_thread")
    one.world.register("other")
    one.push()

    assert one.asked("create_thread") == asked + 1


def test_after_the_right_was_given_again_makes_the_post(one: Mirrored) -> None:
    deny(one, "SEND_MESSAGES")
    one.turn("start")
    one.push()
    deny(one, "SEND_MESSAGES", allow=True)
    assert one.push().opened == 0
    report = one.push(again=True)

    assert (report.opened, report.problems, told(one)) == (1, (), [])
    assert one.texts() == ["✅ start"]


def test_other_settings_are_worth_another_try(one: Mirrored) -> None:
    deny(one, "SEND_MESSAGES")
    one.turn("start")
    one.push()
    deny(one, "SEND_MESSAGES", allow=True)
    state = mirrors.load_channel(one.world.layout, "discord", "default")
    refused = {key: fault._replace(fingerprint="others") for key, fault in state.refused.items()}
    mirrors.save_channel(one.world.layout, "discord", "default", state._replace(refused=refused))

    assert one.push().opened == 1


def test_a_post_that_may_not_be_read_is_asked_for_once_and_told_each_time(one: Mirrored) -> None:
    started(one)
    deny(one, "VIEW_CHANNEL")
    one.say("please do B")
    first = one.pull()
    asked = len(one.server.requests)
    second = one.pull()

    assert len(one.server.requests) == asked
    assert first.problems == second.problems != ()
    assert told(one) == [first.problems[0].code]
    deny(one, "VIEW_CHANNEL", allow=True)
    one.push(again=True)
    assert one.pull().problems == ()
    assert one.words() == ["please do B"]


def test_a_conversation_that_is_bound_again_is_asked_for_again(one: Mirrored) -> None:
    started(one)
    thread = one.thread()
    deny(one, "VIEW_CHANNEL")
    one.pull()
    deny(one, "VIEW_CHANNEL", allow=True)
    one.world.environ = one.environ
    bind(one.world, RequestedBinding(one.host.worker, Conversation("discord", "default", thread)))
    one.push()

    assert told(one) == []
    assert projects.conversations(Subject(one.world, claude_settings, "/")).ok
    one.say("please do B")
    assert one.pull().taken == 1


def test_a_sign_that_may_not_be_put_is_tried_once_in_a_post(one: Mirrored) -> None:
    started(one)
    deny(one, "ADD_REACTIONS")
    for number in range(3):
        one.say(f"m{number}")
    one.pull()
    one.say("m3")
    one.pull()

    assert one.words() == ["m0", "m1", "m2", "m3"]
    assert one.asked("add_my_message_reaction") == 1


def world_with(folder: Path, settings: str) -> World:
    world = World(folder / "vyane")
    initialise(world)
    world.channels = channels.ADAPTERS
    (folder / "vyane" / "config.toml").write_text(settings)
    return world


def test_a_channel_that_cannot_be_opened_here_is_not_called_well(one: Mirrored) -> None:
    del one.environ["DISCORD_TOKEN"]
    (status,) = describe_mirror(one.world)

    assert status.state == "error"
    assert "DISCORD_TOKEN" in status.problems[0].detail


def test_a_round_without_a_token_calls_the_person_once(tmp_path):
    """A timer gives next to no environment, and whoever asks in a terminal has the token there."""
    world = world_with(tmp_path, '[channels.discord]\nforum = "123456789012345678"\n')

    for _ in range(2):
        assert take_in(world) == 0
        assert show_all(world) == 0

    (entry,) = needs.list_entries(world.layout)
    assert "discord" in entry["text"]
    assert "DISCORD_TOKEN" in entry["text"]
    assert entry["ask"]


def test_a_round_beside_a_run_of_the_mirror_calls_nobody(tmp_path, monkeypatch):
    world = world_with(tmp_path, "[channels.file]\n")

    def busy(home, *, channel):
        raise LockTimeoutError(channel, 1.0)

    monkeypatch.setattr(rounds, "push", busy)

    assert show_all(world) == 0
    assert not needs.list_entries(world.layout)
