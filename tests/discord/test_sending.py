"""Messages, edits and files: once, in order, in one piece, and nobody is called by accident."""

from __future__ import annotations

import threading

import pytest

from tests.discord.bot import BUDGET_MS, Bot, said
from tests.discord.mockcord import fence_problems, lines_as_read, repeated
from vyane_cli.channels.port import ChannelVerdict, Conversation, File, Opening, Part, Post
from vyane_cli.conversations.state_rules import nonce_of


def send(bot: Bot, where: Conversation, post: Post) -> list[str]:
    """Every part of a post, as the mirror does it; their ids."""
    channel = bot.run()
    found = []
    for number, part in enumerate(channel.plan(post)):
        outcome = channel.post(where, part, nonce_of(where.id, post.text, str(number)))
        assert outcome.verdict is ChannelVerdict.DONE, outcome
        found.append(outcome.id)
    return found


# ------------------------------------------------------------------ unknown ends


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "drop"},
        {"kind": "status", "status": 502},
        {"kind": "status", "status": 500},
        {"kind": "garbage"},
    ],
)
def test_a_post_whose_end_is_unknown_is_found_by_its_text(bot: Bot, fault: dict) -> None:
    where = bot.thread()
    before = bot.run().post(where, Part("before"), "n0").id
    bot.server.fault(operation="create_message", when="after", **fault)

    assert said(bot.run().post(where, Part("once"), "n1")) == "unknown/no-answer"

    bot.server.advance(600)  # Discord has forgotten the nonce
    found = bot.run().find_post(where, Part("once"), "n1", before)
    assert found.verdict is ChannelVerdict.DONE
    assert found.id
    assert bot.texts(where) == ["before", "once"]
    assert bot.server.requests[-1]["op"] != "create_message"


def test_an_older_message_with_the_same_text_is_not_taken_for_it(bot: Bot) -> None:
    where = bot.thread()
    first = bot.run().post(where, Part("done"), "n0").id

    assert bot.run().find_post(where, Part("done"), "n1", first).id == ""
    assert bot.run().find_post(where, Part("done"), "n1", "").id == first


def test_somebody_else_s_message_with_the_same_text_is_not_ours(bot: Bot) -> None:
    where = bot.thread()
    bot.server.act("post", channel=where.id, user=bot.server.alice["id"], content="done")

    assert bot.run().find_post(where, Part("done"), "n1", "").id == ""


def test_a_message_is_found_behind_many_others(bot: Bot) -> None:
    where = bot.thread()
    for number in range(230):
        bot.server.act("post", channel=where.id, user=bot.server.alice["id"], content=f"{number}")
    sent = bot.run().post(where, Part("  done\n"), "n1").id

    assert bot.run().find_post(where, Part("  done\n"), "n1", "").id == sent


@pytest.mark.parametrize("fault", [{"kind": "drop"}, {"kind": "status"}, {"kind": "garbage"}])
@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("same_run", [False, True])
def test_a_forum_post_whose_answer_was_lost_is_found_before_another_is_made(
    bot: Bot, fault: dict, archived: bool, same_run: bool
) -> None:
    other = bot.thread("vs-0", "another session", "it names vs-10 and vs-1x")
    times = 1 if same_run else -1
    rule = bot.server.fault(operation="create_thread", when="after", times=times, **fault)
    if not same_run:  # the run ends there
        bot.server.fault(kind="drop", operation="get_active_guild_threads", times=-1, skip=1)
    opening = Opening("vs-1", "fix login", Part("start `vs-1`"), "n")
    outcome = bot.run().open(opening)
    assert (outcome.verdict is ChannelVerdict.DONE) == same_run
    bot.server.faults.clear()
    assert rule.hits
    if archived:
        bot.server.act("archive", thread=bot.server.threads()[-1]["id"])

    again = bot.run().open(opening)

    assert again.verdict is ChannelVerdict.DONE
    assert len(bot.server.threads()) == 2
    assert again.conversation != other


@pytest.mark.parametrize("fault", [{"kind": "rate_limit"}, {"kind": "status", "status": 503}])
def test_a_known_thread_that_cannot_be_looked_at_now_is_kept(bot: Bot, fault: dict) -> None:
    where = bot.thread()
    bot.server.fault(operation="get_channel", times=3, **fault)

    outcome = bot.run().open(Opening("vs-1", "fix login", Part("vs-1"), "n"))

    assert outcome.verdict is ChannelVerdict.LATER or outcome.conversation == where
    assert bot.run().probe(where).verdict in (ChannelVerdict.DONE, ChannelVerdict.LATER)
    assert len(bot.server.threads()) == 1


def test_an_edit_whose_answer_was_lost_is_made_again(bot: Bot) -> None:
    where = bot.thread()
    message = bot.run().post(where, Part("1 of 2"), "n1").id
    bot.server.fault(kind="drop", operation="update_message", when="after")

    assert bot.run().edit(where, message, Part("2 of 2")).verdict is ChannelVerdict.DONE
    assert bot.texts(where) == ["2 of 2"]


def test_without_time_for_another_try_the_rest_is_for_later(bot: Bot) -> None:
    where = bot.thread()
    bot.server.fault(kind="drop", operation="get_channel", times=-1)
    bot.budget_ms = 600

    outcome = bot.run().probe(where)

    assert said(outcome) == "later/unreachable"
    assert bot.waited_s < 1


# ------------------------------------------------------------------ texts and files


def test_an_answer_of_many_messages_reads_as_it_was_written(bot: Bot) -> None:
    where = bot.thread()
    rows = "\n".join(f"    step_{number}()\n" for number in range(300))
    text = f"Here it is:\n```py\n{rows}\n```\nDone 🎉"

    send(bot, where, Post(text))

    assert lines_as_read(bot.texts(where)) == lines_as_read([text])
    assert not any(map(fence_problems, bot.texts(where)))
    assert repeated(bot.texts(where)) == []


def test_lengths_pass_under_either_way_of_counting(serve) -> None:
    discord = serve(length_unit="utf16")
    bot = Bot(discord)
    where = bot.thread(title="🎉" * 80)

    send(bot, where, Post("🎉" * 3_000))

    assert "".join(bot.texts(where)) == "🎉" * 3_000


def test_the_parts_of_an_answer_come_in_order_though_answers_are_slow(bot: Bot) -> None:
    where = bot.thread()
    bot.server.fault(kind="delay", operation="create_message", when="after", seconds=0.1, times=2)
    send(bot, where, Post("\n\n".join(letter * 1_500 for letter in "abc")))

    assert [text[0] for text in bot.texts(where)] == ["a", "b", "c"]


def test_a_very_long_text_is_its_beginning_and_a_file(bot: Bot) -> None:
    where = bot.thread()
    text = "\n".join(f"line {number} \x1b[31mred\x1b[0m" for number in range(6_000))

    (sent,) = send(bot, where, Post(text))

    (message,) = bot.server.visible(where.id)[1:]
    (file,) = message["files"]
    whole = text.replace("\x1b[31m", "").replace("\x1b[0m", "")
    assert message["id"] == sent
    assert message["content"].startswith("line 0 red\nline 1 red\n")
    assert f"{len(whole):,} characters in all: output.txt" in message["content"]
    assert (file["filename"], file["size"]) == ("output.txt", len(whole))
    assert len(message["content"]) < 1_500


def test_a_file_that_is_too_large_is_cut_and_the_message_says_so(serve) -> None:
    bot = Bot(serve(file_limit=300_000))
    where = bot.thread()

    send(bot, where, Post("x" * 400_000))

    (message,) = bot.server.visible(where.id)[1:]
    assert message["files"][0]["size"] == 256 * 1024
    assert "the file is cut" in message["content"]


@pytest.mark.parametrize("why", ["no right to attach", "no file at all"])
def test_without_its_file_the_text_still_arrives_once_with_a_note(serve, why: str) -> None:
    bot = Bot(serve(file_limit=100 if why == "no file at all" else 10**7))
    where = bot.thread()
    if why == "no right to attach":
        bot.server.act("deny", channel=bot.server.forum.id, permission="ATTACH_FILES")

    channel = bot.run()
    (part,) = channel.plan(Post("x" * 20_000))
    outcome = channel.post(where, part, "n1")

    assert outcome.verdict is ChannelVerdict.DONE
    assert outcome.quiet
    assert outcome.detail
    (message,) = bot.server.visible(where.id)[1:]
    assert message["files"] == []
    assert "the file is left out" in message["content"]
    assert bot.run().find_post(where, part, "n1", "").id == outcome.id


def test_a_file_has_a_plain_name(bot: Bot) -> None:
    where = bot.thread()
    names = ['a"b/../é\n\x1b[31m.txt', "...", "", "x" * 300]
    part = Part("files", tuple(File(name, "text") for name in names))

    assert bot.run().post(where, part, "n1").verdict is ChannelVerdict.DONE

    (message,) = bot.server.visible(where.id)[1:]
    for file in message["files"]:
        assert 0 < len(file["filename"]) <= 80
        assert file["filename"].isascii()
        assert not set('"/\n\x1b') & set(file["filename"])


def test_an_empty_text_asks_for_nothing(bot: Bot) -> None:
    where = bot.thread()

    assert send(bot, where, Post(" \n\t ")) == []
    assert bot.texts(where) == []


@pytest.mark.parametrize("title", ["x" * 300, "  ", "a\nb", "🎉" * 90, "\x1b[31m"])
def test_any_title_makes_a_post(bot: Bot, title: str) -> None:
    bot.thread(title=title)

    assert bot.server.threads()[0]["name"]


def test_a_text_that_discord_does_not_take_stops_there_and_says_where(bot: Bot) -> None:
    where = bot.thread()
    parts = bot.run().plan(Post("\n\n".join(letter * 1_500 for letter in "abc")))
    bot.run().post(where, parts[0], "n0")
    bot.server.act("option", name="content_limit", value=500)

    outcome = bot.run().post(where, parts[1], "n1")

    assert said(outcome) == "refused/refused-form"
    assert "content" in outcome.detail
    assert [text[0] for text in bot.texts(where)] == ["a"]


def test_links_show_no_previews(bot: Bot) -> None:
    where = bot.thread(text="https://example.com")
    send(bot, where, Post("https://example.com https://example.org"))

    assert all(one["flags"] & 1 << 2 for one in bot.server.visible(where.id))


# ------------------------------------------------------------------ who is called


def test_nobody_is_called_whatever_the_text_holds(bot: Bot) -> None:
    alice, oncall = bot.server.alice["id"], bot.server.oncall
    text = f"@everyone @here <@{alice}> <@!{alice}> <@&{oncall}>"
    bot.server.act("grant", permission="MENTION_EVERYONE")
    where = bot.thread(text=text)
    message = bot.run().post(where, Part("1"), "n1").id
    bot.run().edit(where, message, Part(text))
    send(bot, where, Post(text))
    bot.run().post(where, Part(text, (File("a.txt", text),)), "n2")

    shown = bot.server.visible(where.id)
    assert [one["pings"] for one in shown] == [[]] * 4
    assert [text in one["content"] for one in shown] == [True] * 4


def test_who_asked_for_it_is_called_and_nobody_else(bot: Bot) -> None:
    where = bot.thread()
    alice = bot.server.alice["id"]

    send(bot, where, Post(f"May I? <@&{bot.server.oncall}>", notify=True, mention=(alice,)))

    (message,) = bot.server.visible(where.id)[1:]
    assert message["pings"] == ["alice"]
    assert bot.server.requests[-1]["body"]["allowed_mentions"] == {"parse": [], "users": [alice]}


def test_progress_makes_no_sound_and_a_question_does(bot: Bot) -> None:
    where = bot.thread()
    send(bot, where, Post("working"))
    send(bot, where, Post("May I?", notify=True))

    assert [one["silent"] for one in bot.server.visible(where.id)[1:]] == [True, False]


# ------------------------------------------------------------------ limits


def test_a_full_bucket_is_waited_for_inside_the_run(bot: Bot) -> None:
    where = bot.thread()
    for number in range(12):
        assert bot.run().post(where, Part(f"{number}"), f"n{number}").verdict is ChannelVerdict.DONE

    assert bot.texts(where) == [str(number) for number in range(12)]
    assert 0 < bot.waited_s < 15
    assert {one["status"] for one in bot.server.requests} <= {200, 201}  # never a 429


def test_a_wait_beyond_the_run_is_for_later_and_the_next_run_knows(bot: Bot) -> None:
    where = bot.thread()
    for number in range(5):
        bot.run().post(where, Part(f"{number}"), f"n{number}")
    bot.budget_ms = 100
    outcome = bot.run().post(where, Part("5"), "n5")

    assert said(outcome) == "later/rate-limited"
    assert bot.now_ms() < outcome.retry_ms <= bot.now_ms() + 5_100
    assert bot.operations().count("create_message") == 5  # it was not even asked
    bot.server.advance((outcome.retry_ms - bot.now_ms()) / 1000)
    assert bot.run().post(where, Part("5"), "n5").verdict is ChannelVerdict.DONE


def test_a_429_in_the_middle_of_an_answer_drops_nothing(bot: Bot) -> None:
    where = bot.thread()
    bot.server.fault(kind="rate_limit", operation="create_message", skip=1, retry_after=1)

    send(bot, where, Post("\n\n".join(letter * 1_500 for letter in "abcd")))

    assert [text[0] for text in bot.texts(where)] == ["a", "b", "c", "d"]


def test_renames_over_their_hidden_limit_are_for_later_and_hold_up_no_text(bot: Bot) -> None:
    where = bot.thread()
    outcomes = [bot.run().mark(where, f"title {number}") for number in range(4)]

    assert [said(one) for one in outcomes[2:]] == ["later/rate-limited"] * 2
    assert outcomes[3].retry_ms > bot.now_ms() + 500_000
    assert bot.waited_s == 0
    assert bot.operations().count("update_channel") == 3
    assert bot.run().post(where, Part("text"), "n1").verdict is ChannelVerdict.DONE
    closed = bot.run().mark(where, "✅ title", True)
    assert closed.verdict is ChannelVerdict.DONE
    assert closed.quiet
    (thread,) = bot.server.threads()
    assert (thread["name"], thread["archived"]) == ("title 1", True)


def test_edits_of_old_messages_keep_the_time_that_is_given(bot: Bot) -> None:
    where = bot.thread()
    message = bot.run().post(where, Part("0"), "n1").id
    bot.server.advance(3_700)
    bot.budget_ms = 1_000
    outcomes = [bot.run().edit(where, message, Part(f"{number}")) for number in range(1, 6)]

    assert [one.verdict for one in outcomes[:3]] == [ChannelVerdict.DONE] * 3
    assert [one.verdict for one in outcomes[3:]] == [ChannelVerdict.LATER] * 2
    assert bot.operations().count("update_message") == 4
    bot.budget_ms = BUDGET_MS + 5_000
    assert bot.run().edit(where, message, Part("last")).verdict is ChannelVerdict.DONE
    assert bot.texts(where) == ["last"]


def test_a_global_limit_holds_every_route(bot: Bot) -> None:
    where, other = bot.thread(), bot.thread("vs-2")
    bot.server.fault(kind="rate_limit", operation="create_message", everywhere=True, retry_after=60)
    first = bot.run().post(where, Part("a"), "n1")
    asked = len(bot.server.requests)

    assert said(first) == "later/rate-limited"
    assert first.everywhere
    for outcome in (bot.run().post(other, Part("b"), "n2"), bot.run().read(other, "")):
        assert outcome.verdict is ChannelVerdict.LATER
    assert len(bot.server.requests) == asked
    bot.server.advance(61)
    assert bot.run().post(where, Part("a"), "n1").verdict is ChannelVerdict.DONE


def test_an_hour_s_wait_ends_the_run_in_its_time(bot: Bot) -> None:
    where = bot.thread()
    bot.server.fault(kind="rate_limit", operation="create_message", retry_after=3_600)

    outcome = bot.run().post(where, Part("a"), "n1")

    assert said(outcome) == "later/rate-limited"
    assert outcome.retry_ms > bot.now_ms() + 3_500_000
    assert bot.waited_s == 0


def test_a_ban_stops_every_run_for_minutes_and_says_so(bot: Bot) -> None:
    where = bot.thread()
    bot.server.fault(kind="ban", operation="create_message", times=-1)
    outcome = bot.run().post(where, Part("a"), "n1")
    asked = len(bot.server.requests)

    assert said(outcome) == "later/banned"
    assert outcome.fix
    assert outcome.everywhere
    for _ in range(5):
        bot.server.advance(60)
        assert said(bot.run().post(where, Part("a"), "n1")) == "later/banned"
    assert len(bot.server.requests) == asked
    bot.server.faults.clear()
    bot.server.advance(301)
    assert bot.run().post(where, Part("a"), "n1").verdict is ChannelVerdict.DONE


def test_equal_creates_at_once_show_once(bot: Bot) -> None:
    """The mirror holds a lock; the nonce is the second line."""
    where = bot.thread()
    channels = [bot.run(), bot.run()]
    threads = [
        threading.Thread(target=channel.post, args=(where, Part("once"), "n1"))
        for channel in channels
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert bot.texts(where) == ["once"]
    bot.server.habits.clear()  # the lock is not under test here
