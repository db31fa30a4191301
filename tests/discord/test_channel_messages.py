"""What is sent to the channel itself, as people read it in Discord."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.discord.mockcord import MockDiscord
from tests.discord.sessions import Mirrored, mirrored


@pytest.fixture
def one(discord: MockDiscord) -> Iterator[Mirrored]:
    with mirrored(discord) as session:
        yield session
    discord.assert_clean()


def board(one: Mirrored) -> list[dict[str, Any]]:
    (found,) = [t for t in one.server.threads() if t["name"] == "📌 messages"]
    return list(one.server.visible(found["id"]))


def test_it_is_one_post_of_the_forum_and_calls_nobody(one: Mirrored) -> None:
    one.world.send("channel:discord", "out: 1.2 @everyone")
    one.push()
    one.world.send("channel:discord", "and 1.3", kind="info")
    one.push()

    first, *shown = board(one)
    assert "reaches nobody" in first["content"]
    assert [m["content"] for m in shown] == ["**ann**: out: 1.2 @everyone", "**ann**: and 1.3"]
    assert [m["pings"] for m in shown] == [[], []]
    assert [m["silent"] for m in shown] == [False, True]


@pytest.mark.parametrize("operation", ["create_thread", "create_message"])
def test_whichever_answer_is_lost_it_shows_once(one: Mirrored, operation: str) -> None:
    one.push()
    sent = one.world.send("channel:discord", "out: 1.2")
    one.server.fault(kind="drop", operation=operation, when="after")
    one.push()
    one.pass_s(600)
    one.push()

    assert [m["content"] for m in board(one)[1:]] == ["**ann**: out: 1.2"]
    assert one.world.status(sent) == "consumed"


def test_where_no_post_may_be_made_it_waits_and_is_asked_for_once(one: Mirrored) -> None:
    one.push()
    one.server.act("deny", channel=one.server.forum.id, permission="SEND_MESSAGES")
    sent = one.world.send("channel:discord", "out: 1.2")
    reports = [one.push(), one.push()]
    before = one.asked("create_thread")
    one.server.act("allow", channel=one.server.forum.id, permission="SEND_MESSAGES")
    held = one.world.status(sent)
    one.push(again=True)

    assert [r.problems[0].session for r in reports] == ["channel:discord"] * 2
    assert before == 2  # the session's own, and this one
    assert (held, one.world.status(sent)) == ("pending", "consumed")
