"""What Discord refuses, and the end state that follows: nothing lost, nothing twice."""

from __future__ import annotations

import re

import pytest

from tests.discord.bot import Bot, said
from tests.discord.mockcord import MockDiscord
from vyane_cli.channels.discord.errors import CODES, RIGHTS, STATUSES, fields_of, outcome_of
from vyane_cli.channels.port import ChannelVerdict, Opening, Part


def post(bot: Bot, where, text: str = "hello", nonce: str = "n1"):
    return bot.run().post(where, Part(text), nonce)


def test_every_refusal_has_one_clear_line_and_its_next_step() -> None:
    for row in [*CODES.values(), *STATUSES.values()]:
        assert re.fullmatch(r"[a-z-]+", row.reason)
        assert row.detail
        assert row.fix or row.verdict is not ChannelVerdict.OFF
    for action in RIGHTS:
        outcome = outcome_of(499, 99999, action, "here", "", 0)
        assert (outcome.verdict, outcome.reason) == (ChannelVerdict.REFUSED, "refused")
        assert "99999" in outcome.detail


def test_a_form_error_names_the_fields_and_not_their_values() -> None:
    errors = {"content": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "a secret"}]}}

    assert fields_of(errors) == ["content BASE_TYPE_MAX_LENGTH"]
    assert fields_of("nonsense") == fields_of({"a": 1}) == []


@pytest.mark.parametrize(
    "permission, ask, right",
    [
        ("SEND_MESSAGES_IN_THREADS", "post", "Send Messages in Threads"),
        ("VIEW_CHANNEL", "post", "View Channels"),
        ("ADD_REACTIONS", "acknowledge", "Add Reactions"),
        ("VIEW_CHANNEL", "read", "View Channels"),
    ],
)
def test_a_missing_right_is_named_and_what_waits_stays(
    bot: Bot, permission: str, ask: str, right: str
) -> None:
    where = bot.thread()
    said_by_alice = bot.server.act(
        "post", channel=where.id, user=bot.server.alice["id"], content="hi"
    )
    bot.server.act("deny", channel=bot.server.forum.id, permission=permission)
    channel = bot.run()
    outcome = {
        "post": lambda: channel.post(where, Part("hello"), "n1"),
        "acknowledge": lambda: channel.acknowledge(where, said_by_alice),
        "read": lambda: channel.read(where, ""),
    }[ask]()

    assert outcome.verdict is ChannelVerdict.REFUSED
    assert right in outcome.detail + outcome.fix
    assert "push --again" in outcome.fix
    bot.server.act("allow", channel=bot.server.forum.id, permission=permission)
    assert post(bot, where).verdict is ChannelVerdict.DONE
    assert bot.texts(where) == ["hi", "hello"]


@pytest.mark.parametrize(
    "permission, right",
    [("SEND_MESSAGES", "create posts"), ("READ_MESSAGE_HISTORY", "Read Message History")],
)
def test_a_right_that_the_forum_lacks_is_named_before_anything_is_half_made(
    bot: Bot, permission: str, right: str
) -> None:
    bot.server.act("deny", channel=bot.server.forum.id, permission=permission)

    outcome = bot.run().open(Opening("vs-1", "title", Part("start vs-1"), "n"))

    assert said(outcome) == "refused/missing-permission"
    assert right in outcome.detail
    assert bot.server.threads() == []


def test_a_post_opens_an_archived_thread_also_one_that_went_to_sleep(bot: Bot) -> None:
    where = bot.thread()
    bot.server.act("archive", thread=where.id)
    post(bot, where, "one", "n1")
    bot.server.advance(4 * 86_400)
    assert bot.run().probe(where).archived
    post(bot, where, "two", "n2")

    assert bot.texts(where) == ["one", "two"]
    assert len(bot.server.threads()) == 1
    assert not bot.run().probe(where).archived


def test_an_edit_in_an_archived_thread_shows_and_the_thread_is_put_away_again(bot: Bot) -> None:
    where = bot.thread()
    message = post(bot, where, "1 of 2").id
    bot.server.act("archive", thread=where.id)

    assert bot.run().edit(where, message, Part("2 of 2")).verdict is ChannelVerdict.DONE

    assert bot.texts(where) == ["2 of 2"]
    assert bot.run().probe(where).archived


@pytest.mark.parametrize("also", ["", "archive"])
def test_a_thread_that_people_locked_takes_nothing_and_is_asked_once(bot: Bot, also: str) -> None:
    where = bot.thread()
    message = post(bot, where, "before").id
    bot.server.act("lock", thread=where.id)
    if also:
        bot.server.act(also, thread=where.id)

    assert said(post(bot, where, "no", "n2")) == "locked/locked"
    assert said(bot.run().edit(where, message, Part("no"))) == "locked/locked"
    assert said(bot.run().mark(where, "no", None)).startswith("locked/" if not also else "")
    assert bot.texts(where) == ["before"]


def test_a_title_and_the_end_go_in_one_request(bot: Bot) -> None:
    where = bot.thread()
    before = len(bot.server.requests)

    assert bot.run().mark(where, "✅ fix login", True).verdict is ChannelVerdict.DONE

    assert len(bot.server.requests) == before + 1
    (thread,) = bot.server.threads()
    assert (thread["name"], thread["archived"]) == ("✅ fix login", True)


def test_an_archived_thread_gets_its_new_title_and_stays_put_away(bot: Bot) -> None:
    where = bot.thread()
    bot.server.act("archive", thread=where.id)

    assert bot.run().mark(where, "✅ fix login").verdict is ChannelVerdict.DONE

    (thread,) = bot.server.threads()
    assert (thread["name"], thread["archived"]) == ("✅ fix login", True)


def test_a_forum_that_is_gone_turns_the_channel_off_whichever_thread_is_asked(bot: Bot) -> None:
    where = bot.thread()
    bot.server.act("delete_channel", channel=bot.server.forum.id)

    for outcome in (post(bot, where), bot.run().read(where, ""), bot.run().probe(where)):
        assert said(outcome) == "off/forum-gone"
        assert "channels.discord.forum" in outcome.fix


def test_a_post_that_a_person_removed_is_not_posted_again(bot: Bot) -> None:
    where = bot.thread()
    message = post(bot, where, "once", "n1").id
    bot.server.act("delete_message", channel=where.id, message=message)

    again = post(bot, where, "once", "n1")

    assert (again.verdict, again.reason, again.id) == (ChannelVerdict.DONE, "removed", "")
    assert bot.texts(where) == []


def test_at_the_limit_of_open_posts_ours_that_are_done_are_put_away_and_no_others(serve) -> None:
    discord = serve(max_active_threads=3)
    bot = Bot(discord)
    done, busy = bot.thread("vs-1", "done"), bot.thread("vs-2", "busy")
    bot.run().mark(done, closed=True)
    discord.act("unarchive", thread=done.id)  # a person looked at it
    bot.thread("vs-3", "also busy")

    bot.thread("vs-4", "new")

    shown = {one["name"]: one["archived"] for one in discord.threads()}
    assert shown == {"done": True, "busy": False, "also busy": False, "new": False}
    refused = bot.run().open(Opening("vs-5", "more", Part("vs-5"), "n"))
    assert said(refused) == "later/too-many-threads"
    assert refused.fix
    assert refused.retry_ms > bot.now_ms()
    assert bot.run().probe(busy).verdict is ChannelVerdict.DONE


@pytest.mark.parametrize("ident", ["", "abc", "../../users/@me", "1/../2", "٣"])
def test_an_id_that_is_none_reaches_no_address(bot: Bot, ident: str) -> None:
    where = bot.thread()._replace(id=ident)
    before = len(bot.server.requests)

    assert post(bot, where).verdict is ChannelVerdict.GONE
    assert bot.run().read(where, "").verdict is ChannelVerdict.GONE
    assert len(bot.server.requests) == before


def test_nothing_of_discord_s_at_the_address_turns_the_channel_off(discord: MockDiscord) -> None:
    bot = Bot(discord)
    bot.environ["DISCORD_API"] = discord.root + "/elsewhere"

    assert said(bot.run().check()) == "off/wrong-address"


def test_an_address_where_nobody_listens_is_later(discord: MockDiscord) -> None:
    bot = Bot(discord)
    bot.environ["DISCORD_API"] = "http://127.0.0.1:9/api/v10"

    outcome = bot.run().check()

    assert said(outcome) == "later/unreachable"
    assert outcome.retry_ms > bot.now_ms()
    assert outcome.everywhere
