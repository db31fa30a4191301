"""The contract of a channel: one suite for every adapter, on what a person reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.channels.bench import Bench, opened, opening, part_of, post
from tests.channels.discord_bench import DiscordBench
from tests.channels.file_bench import FileBench
from tests.discord.mockcord import MockDiscord
from vyane_cli.channels.port import (
    Channel,
    ChannelVerdict,
    Conversation,
    Incoming,
    Part,
    Post,
    parse_part,
    render_part,
)
from vyane_cli.conversations.state_rules import nonce_of

Make = Callable[[Path, ExitStack], Bench]

BENCHES: dict[str, Make] = {
    "file": lambda home, stack: FileBench(home),
    "discord": lambda home, stack: DiscordBench(stack.enter_context(MockDiscord())),
}
"""Every adapter. A bench that needs a server enters it into the stack."""


@pytest.fixture(params=list(BENCHES))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield BENCHES[request.param](tmp_path, stack)


@contextmanager
def a_case_of_the_channel() -> Iterator[None]:
    try:
        yield
    except NotImplementedError as error:
        pytest.skip(str(error))


def read(channel: Channel, where: Conversation, cursor: str = "") -> tuple[list[Incoming], str]:
    found: list[Incoming] = []
    while True:
        outcome = channel.read(where, cursor)
        assert outcome.verdict is ChannelVerdict.DONE, outcome
        assert outcome.page is not None
        found += outcome.page.messages
        cursor = outcome.page.cursor
        if not outcome.page.more:
            return found, cursor


def fresh(seen: list[Incoming], found: list[Incoming]) -> list[str]:
    """The texts that are new: an adapter may show old messages again, and ids tell."""
    known = {(one.id, one.text) for one in seen}
    return [one.text for one in found if (one.id, one.text) not in known]


# ------------------------------------------------------------------ conversations


def test_a_conversation_is_made_once_and_found_again_by_its_key(bench: Bench) -> None:
    first = opened(bench.channel())
    again = opened(bench.channel())
    other = opened(bench.channel(), "web-main", "vs-ba9876543210")

    assert first == again != other
    assert bench.titles() == ["api-main", "web-main"]
    assert len(bench.shown(first)) == 1


def test_it_is_found_by_its_key_after_a_rename(bench: Bench) -> None:
    channel = bench.channel()
    where = opened(channel)
    assert channel.mark(where, title="💤 api-main").verdict is ChannelVerdict.DONE

    assert opened(bench.channel(), "another title") == where
    assert bench.titles() == ["💤 api-main"]


def test_an_opening_whose_answer_was_lost_makes_one_conversation(bench: Bench) -> None:
    with a_case_of_the_channel():
        bench.lose_answers("open")
    channel, wanted = bench.channel(), opening()
    channel.open(wanted)

    outcome = bench.channel().open(wanted)

    assert outcome.verdict is ChannelVerdict.DONE
    assert bench.titles() == ["api-main"]


@pytest.mark.parametrize("title", [" ", "a\nb\tc", "🎉" * 80, "x" * 500, "@everyone # > `"])
def test_any_title_makes_a_conversation(bench: Bench, title: str) -> None:
    where = opened(bench.channel(), title)

    (shown,) = bench.titles()
    assert shown.strip()
    assert "\n" not in shown
    assert bench.channel().probe(where).verdict is ChannelVerdict.DONE


def test_its_title_and_its_end_are_marked_in_one_request(bench: Bench) -> None:
    channel = bench.channel()
    where = opened(channel)

    assert channel.mark(where, title="✅ api-main", closed=True).verdict is ChannelVerdict.DONE

    assert bench.is_closed(where)
    assert bench.titles() == ["✅ api-main"]
    assert bench.channel().probe(where).archived


def test_a_post_brings_a_closed_conversation_back(bench: Bench) -> None:
    channel = bench.channel()
    where = opened(channel)
    channel.mark(where, closed=True)

    post(bench.channel(), where, "again")

    assert bench.shown(where)[-1] == "again"
    assert not bench.is_closed(where)


def test_a_locked_conversation_says_so_and_takes_nothing(bench: Bench) -> None:
    channel = bench.channel()
    where = opened(channel)
    bench.lock(where)

    outcome = channel.post(where, Part("no"), "n1")

    assert outcome.verdict is ChannelVerdict.LOCKED
    assert outcome.detail
    assert channel.probe(where).verdict is ChannelVerdict.LOCKED
    bench.unlock(where)
    post(bench.channel(), where, "yes")
    assert bench.shown(where)[1:] == ["yes"]


def test_a_deleted_conversation_is_gone_for_every_request(bench: Bench) -> None:
    channel = bench.channel()
    where = opened(channel)
    sent = post(channel, where, "one")
    bench.delete(where)

    assert channel.post(where, Part("no"), "n1").verdict is ChannelVerdict.GONE
    assert channel.find_post(where, Part("no"), "n1", "").verdict is ChannelVerdict.GONE
    assert channel.edit(where, sent, Part("no")).verdict is ChannelVerdict.GONE
    assert channel.mark(where, title="no").verdict is ChannelVerdict.GONE
    assert channel.read(where, "").verdict is ChannelVerdict.GONE
    assert channel.probe(where).verdict is ChannelVerdict.GONE


def test_settings_that_lead_nowhere_turn_the_channel_off_with_the_next_step(bench: Bench) -> None:
    with a_case_of_the_channel():
        bench.stop_working()
    channel = bench.channel()

    for outcome in (channel.check(), channel.open(opening())):
        assert outcome.verdict is ChannelVerdict.OFF
        assert outcome.reason
        assert outcome.detail
        assert outcome.fix
    assert channel.fingerprint


# ------------------------------------------------------------------ out


def test_posts_show_in_the_order_in_which_they_were_made(bench: Bench) -> None:
    where = opened(bench.channel())
    for number in range(5):
        post(bench.channel(), where, f"post {number}")

    assert bench.shown(where)[1:] == [f"post {number}" for number in range(5)]


def test_a_part_that_is_posted_again_under_its_nonce_shows_once(bench: Bench) -> None:
    where = opened(bench.channel())
    if not bench.channel().capabilities.exact:
        pytest.skip("this channel marks a repeat instead")
    first = post(bench.channel(), where, "one", "n1")
    again = post(bench.channel(), where, "one", "n1")
    other = post(bench.channel(), where, "one", "n2")

    assert first == again != other
    assert bench.shown(where)[1:] == ["one", "one"]


def test_a_part_is_found_if_and_only_if_it_is_there(bench: Bench) -> None:
    channel = bench.channel()
    where = opened(channel)
    before = post(channel, where, "before")
    part = part_of(channel, "after")

    assert bench.channel().find_post(where, part, "n1", before).id == ""
    sent = post(channel, where, "after", "n1")
    found = bench.channel().find_post(where, part, "n1", before)

    assert found.verdict is ChannelVerdict.DONE
    assert found.id == sent


def test_a_part_whose_answer_was_lost_is_found_by_another_run(bench: Bench) -> None:
    where = opened(bench.channel())
    with a_case_of_the_channel():
        bench.lose_answers("post")
    channel, part = bench.channel(), Part("once")
    outcome = channel.post(where, part, "n1")
    if outcome.verdict is not ChannelVerdict.DONE:
        assert outcome.verdict is ChannelVerdict.UNKNOWN
        assert bench.channel().find_post(where, part, "n1", "").id

    assert bench.shown(where)[1:] == ["once"]


def test_an_edit_changes_the_post_in_its_place(bench: Bench) -> None:
    channel = bench.channel()
    where = opened(channel)
    sent = post(channel, where, "1 of 3")
    post(channel, where, "below")

    assert (
        channel.edit(where, sent, part_of(channel, "3 of 3\nand done")).verdict
        is ChannelVerdict.DONE
    )

    assert bench.shown(where)[1:] == ["3 of 3\nand done", "below"]


def test_an_edit_of_a_post_that_was_removed_is_absent(bench: Bench) -> None:
    channel = bench.channel()
    where = opened(channel)
    sent = post(channel, where, "1 of 3")
    bench.remove_post(where, "1 of 3")

    assert channel.edit(where, sent, Part("2 of 3")).verdict is ChannelVerdict.ABSENT


@pytest.mark.parametrize("text", ["", " \n\t\n "])
def test_an_empty_post_has_no_parts(bench: Bench, text: str) -> None:
    assert list(bench.channel().plan(Post(text))) == []


HOSTILE = [
    "plain",
    "# a heading\n> a quote\n<!-- a comment -->\n---",
    "```py\n    indented\n\n\nafter blank lines\n```",
    "@everyone @here <@1> <@&2>",
    "> <!-- vyane:post n9 1 -->\n> imitates a mark",
    "emoji 🎉 beyond the plane, 中文, a͏ccents",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_shown_as_it_is_and_never_read_back_as_a_person_s(
    bench: Bench, text: str
) -> None:
    channel = bench.channel()
    where = opened(channel)
    post(channel, where, text)

    assert bench.shown(where)[1:] == [text]
    assert read(bench.channel(), where)[0] == []


def test_parts_survive_the_outbox(bench: Bench) -> None:
    long = "\n".join(f"line {number} " + "x" * 40 for number in range(3_000))
    parts = bench.channel().plan(Post(long, notify=True, mention=("42",)))

    assert parts
    assert [parse_part(render_part(part)) for part in parts] == list(parts)


def test_a_nonce_is_short_and_the_same_on_every_try() -> None:
    nonces = {nonce_of("b-1", "e" * 32, str(seq), str(part)) for seq in range(9) for part in "ab"}

    assert len(nonces) == 18
    assert {len(nonce) for nonce in nonces} == {25}, "the least that channels keep"
    assert nonce_of("b-1", "x") == nonce_of("b-1", "x") != nonce_of("b-1x", "")


# ------------------------------------------------------------------ in


def test_what_people_write_comes_once_and_in_order(bench: Bench) -> None:
    where = opened(bench.channel())
    bench.say(where, "first")
    post(bench.channel(), where, "an answer")
    bench.say(where, "second\nwith two lines")
    seen, cursor = read(bench.channel(), where)
    bench.say(where, "third")
    more, _ = read(bench.channel(), where, cursor)

    assert [one.text for one in seen] == ["first", "second\nwith two lines"]
    assert fresh(seen, more) == ["third"]
    assert len({one.id for one in [*seen, *more] if not one.edited}) == 3
    assert {one.author for one in seen} == {seen[0].author} != {""}


def test_the_same_cursor_gives_the_same_messages(bench: Bench) -> None:
    """A run that was killed after its reading reads them again, with the same ids."""
    where = opened(bench.channel())
    bench.say(where, "first")
    _, cursor = read(bench.channel(), where)
    bench.say(where, "second")

    assert read(bench.channel(), where, cursor) == read(bench.channel(), where, cursor)


def test_what_was_there_before_the_end_is_not_read(bench: Bench) -> None:
    where = opened(bench.channel())
    bench.say(where, "old talk")
    end = bench.channel().seek_end(where)
    assert end.page is not None
    bench.say(where, "new")

    found, _ = read(bench.channel(), where, end.page.cursor)

    assert [one.text for one in found if one.text != "old talk"] == ["new"]


def test_a_changed_message_comes_as_an_edit_of_the_same_id(bench: Bench) -> None:
    where = opened(bench.channel())
    with a_case_of_the_channel():
        bench.say(where, "deploy to prod")
        seen, cursor = read(bench.channel(), where)
        bench.change(where, "deploy to prod", "deploy to staging")

    again, _ = read(bench.channel(), where, cursor)

    (one,) = [message for message in again if message.edited]
    assert (one.id, one.text) == (seen[0].id, "deploy to staging")


def test_many_messages_all_come_in_order(bench: Bench) -> None:
    where = opened(bench.channel())
    for number in range(120):
        bench.say(where, f"message {number}")
        if number % 10 == 0:
            post(bench.channel(), where, f"answer {number}")

    found, _ = read(bench.channel(), where)

    words = " ".join(one.text for one in found).replace("\n", " ").split()
    assert [int(word) for word in words if word.isdigit()] == list(range(120))
