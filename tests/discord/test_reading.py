"""What people write: each message once, none lost, and nothing that is not theirs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.discord.bot import Bot, said
from vyane_cli.channels.discord.reading import (
    KNOWN_MAX,
    Known,
    begin_of,
    parse_cursor,
    render_cursor,
    snowflake_at,
    take,
    time_of,
)
from vyane_cli.channels.discord.rest import Rest
from vyane_cli.channels.port import ChannelPage, ChannelVerdict, Conversation, Incoming, Part


class Reader:
    """Alice writes; each reading is a run of its own that keeps the cursor."""

    def __init__(self, bot: Bot) -> None:
        self.bot, self.where, self.cursor = bot, bot.thread(), ""

    def say(self, content: str, **more: Any) -> str:
        alice = self.bot.server.alice["id"]
        return str(
            self.bot.server.act("post", channel=self.where.id, user=alice, content=content, **more)
        )

    def page(self) -> ChannelPage:
        outcome = self.bot.run().read(self.where, self.cursor)
        assert outcome.verdict is ChannelVerdict.DONE, outcome
        assert outcome.page is not None
        return outcome.page

    def read(self) -> list[Incoming]:
        page = self.page()
        self.cursor = page.cursor
        return list(page.messages)

    def texts(self) -> list[str]:
        return [one.text for one in self.read()]


@pytest.fixture
def reader(bot: Bot) -> Reader:
    return Reader(bot)


def test_250_waiting_messages_come_in_order_and_once(reader: Reader) -> None:
    for number in range(250):
        reader.say(f"{number}")

    assert reader.texts() == [str(number) for number in range(250)]
    assert reader.texts() == []


def test_more_than_one_reading_takes_is_told(reader: Reader) -> None:
    for number in range(1_050):
        reader.say(f"{number}")

    page = reader.page()
    reader.cursor = page.cursor

    assert page.more
    assert len(page.messages) == 999  # a page of the thousand began with our own first message
    assert reader.texts() == [str(number) for number in range(999, 1_050)]


def test_a_message_with_an_id_below_the_cursor_is_taken_in(reader: Reader) -> None:
    reader.bot.server.advance(10)
    reader.say("first")
    assert reader.texts() == ["first"]
    reader.say("late", earlier_ms=500)

    assert reader.texts() == ["late"]
    assert reader.texts() == []


def test_only_people_s_words_count(reader: Reader) -> None:
    server, where = reader.bot.server, reader.where
    reader.bot.run().post(where, Part("our own"), "n1")
    server.act("echo", channel=where.id, content="a webhook's")
    other = server.world.add_user("another bot", bot=True)
    server.act("post", channel=where.id, user=other["id"], content="a bot's")
    reader.bot.run().mark(where, "a new title")
    question = reader.say("a question")
    reader.say("a reply", reply_to=question)

    assert reader.texts() == ["a question", "a reply"]


def test_an_edit_comes_once_and_a_deletion_changes_nothing(reader: Reader) -> None:
    message = reader.say("deploy to prod")
    (first,) = reader.read()
    reader.bot.server.act(
        "edit", channel=reader.where.id, message=message, content="deploy to staging"
    )
    (edit,) = reader.read()
    assert reader.read() == []
    reader.bot.server.act("delete_message", channel=reader.where.id, message=message)

    assert (first.id, first.edited, edit.id, edit.edited) == (message, False, message, True)
    assert edit.text == "deploy to staging"
    assert reader.read() == []


def test_an_edit_before_the_first_reading_is_the_message(reader: Reader) -> None:
    message = reader.say("deploy to prod")
    reader.bot.server.act("edit", channel=reader.where.id, message=message, content="deploy")

    assert [(one.text, one.edited) for one in reader.read()] == [("deploy", False)]
    assert reader.read() == []


def test_a_writer_has_a_stable_id_and_a_name(reader: Reader) -> None:
    reader.say("hello")
    (one,) = reader.read()

    assert (one.author, one.name) == (reader.bot.server.alice["id"], "alice")
    assert abs(one.at_ms - reader.bot.now_ms()) < 60_000


def test_what_was_written_before_the_binding_is_not_read(reader: Reader) -> None:
    reader.say("old")
    outcome = reader.bot.run().seek_end(reader.where)
    assert outcome.page is not None
    reader.cursor = outcome.page.cursor
    reader.say("new")

    assert reader.texts() == ["new"]


def test_a_long_text_that_discord_made_a_file_of_is_its_text(reader: Reader) -> None:
    reader.say("", files={"message.txt": "a long text\n" * 500})
    reader.say("see this", files={"notes.txt": "of notes"})

    first, second = reader.texts()
    assert first == "a long text\n" * 500
    assert second == "see this\nof notes"


def test_a_very_long_file_is_cut_with_a_note(reader: Reader) -> None:
    reader.say("", files={"message.txt": "x" * 200_000})

    (text,) = reader.texts()
    assert text.startswith("x" * 60_000 + "\n[cut: message.txt")
    assert len(text) < 60_200


def test_the_token_does_not_go_where_files_lie(reader: Reader, monkeypatch) -> None:
    reader.say("", files={"message.txt": "text"})
    seen = []
    handler = reader.bot.server._http.RequestHandlerClass
    serve = handler._serve

    def spy(self: Any) -> None:
        seen.append((self.path, self.headers.get("Authorization")))
        serve(self)

    monkeypatch.setattr(handler, "do_GET", spy)

    assert reader.texts() == ["text"]
    assert [auth for path, auth in seen if path.startswith("/_cdn")] == [None]


def test_a_file_elsewhere_or_of_another_kind_is_named_and_not_fetched() -> None:
    files = [
        {"filename": "evil].txt\n", "content_type": "text/plain", "url": "x", "size": 3},
        {"filename": "cat.png", "content_type": "image/png", "url": "x", "size": 4},
    ]
    message = {"id": "5", "type": 0, "author": {"id": "1"}, "content": "", "attachments": files}

    (one,) = take(Known(0, {}), [message], "9", lambda url: None).messages

    assert one.text == (
        "[attached, not taken in: evil_.txt_, 3 bytes]\n[attached, not taken in: cat.png, 4 bytes]"
    )


@pytest.mark.parametrize("status", [0, 429, 503])
def test_an_attached_text_that_does_not_come_is_named_and_holds_up_nothing(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    reader.say("before")
    reader.say("see this", files={"notes.txt": "of notes"})
    reader.say("after")
    asked = []

    def fetch(self: Rest, url: str) -> tuple[int, bytes]:
        asked.append(url)
        return status, b""

    monkeypatch.setattr(Rest, "_fetch", fetch)

    assert reader.texts() == [
        "before",
        "see this\n[attached, not taken in: notes.txt, 8 bytes]",
        "after",
    ]
    assert len(asked) == 2


def test_an_attached_text_that_comes_at_the_second_try_is_taken_in(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.say("", files={"notes.txt": "of notes"})
    fetch, asked = Rest._fetch, []

    def once(self: Rest, url: str) -> tuple[int, bytes]:
        asked.append(url)
        return (0, b"") if len(asked) == 1 else fetch(self, url)

    monkeypatch.setattr(Rest, "_fetch", once)

    assert reader.texts() == ["of notes"]


def test_where_files_lie_nobody_listens(bot: Bot) -> None:
    rest = bot.run()._rest
    rest.settings = rest.settings._replace(api="http://127.0.0.1:9/api")

    assert rest._fetch("http://127.0.0.1:9/notes.txt") == (0, b"")


def test_an_attachment_on_another_host_is_never_asked_for(bot: Bot) -> None:
    rest = bot.run()._rest

    assert rest.fetch("http://169.254.169.254/latest") is None
    assert rest.fetch("https://cdn.discordapp.com.evil.example/a.txt") is None
    assert rest.fetch("file:///etc/passwd") is None


def test_without_the_content_intent_nothing_is_lost_and_the_setting_is_named(serve: Any) -> None:
    reader = Reader(Bot(serve(message_content_intent=False)))
    me = reader.bot.server.world.bot["id"]
    reader.say("hello")
    reader.say(f"<@{me}> hi")
    page = reader.page()
    reader.cursor = page.cursor

    assert [one.text for one in page.messages] == ["hi"]
    assert "Message Content Intent" in page.problem
    assert reader.texts() == []
    reader.bot.server.act("option", name="message_content_intent", value=True)
    assert reader.texts() == ["hello"]
    assert reader.page().problem == ""


def test_a_reading_that_was_killed_is_made_again(reader: Reader) -> None:
    reader.say("one")
    lost = reader.page()

    assert [one.text for one in lost.messages] == reader.texts() == ["one"]


def test_a_sign_at_a_message_is_put_once(reader: Reader) -> None:
    message = reader.say("hello")
    for _ in range(2):
        assert reader.bot.run().acknowledge(reader.where, message).verdict is ChannelVerdict.DONE

    shown = reader.bot.server.visible(reader.where.id)[-1]
    assert shown["reactions"] == {"👀": 1}


def test_a_sign_at_a_message_that_is_gone_is_absent(reader: Reader) -> None:
    message = reader.say("hello")
    reader.bot.server.act("delete_message", channel=reader.where.id, message=message)

    assert said(reader.bot.run().acknowledge(reader.where, message)) == "absent/unknown-message"


# ------------------------------------------------------------------ the cursor


@given(st.text())
def test_a_damaged_cursor_begins_at_the_start(text: str) -> None:
    known = parse_cursor(text)

    assert known.newest >= 0
    int(begin_of(known))


@given(st.lists(st.integers(0, 3_600_000), unique=True, max_size=400), st.data())
def test_however_the_readings_fall_each_message_is_taken_once(
    times: list[int], data: st.DataObject
) -> None:
    """Messages come into being in any order, at most ten seconds late; readings fall anywhere."""
    start = 1_700_000_000_000
    order = sorted(times, key=lambda at: at + data.draw(st.integers(0, 10_000)))
    known, there, seen = Known(0, {}), [], []
    for at in order:
        there.append(str(snowflake_at(start + at) + 1))
        if data.draw(st.integers(0, 9)) == 0 or at == order[-1]:
            listed = [
                {"id": one, "type": 0, "author": {"id": "1"}, "content": "x"}
                for one in there
                if int(one) > int(begin_of(known))
            ]
            reading = take(known, listed, "9", lambda url: None)
            seen += [one.id for one in reading.messages]
            known = parse_cursor(render_cursor(reading.known))

    assert sorted(seen) == sorted(there)
    assert len(known.edits) <= KNOWN_MAX


def test_an_id_is_a_time() -> None:
    assert time_of(snowflake_at(1_700_000_000_000)) == 1_700_000_000_000
    assert time_of("175928847299117063") == 1_462_015_105_796
    assert json.loads(render_cursor(Known(0, {})))
    assert isinstance(Conversation("discord", "default"), tuple)


def test_without_the_right_to_read_nothing_is_taken_for_nothing_and_the_right_is_named(
    reader: Reader,
) -> None:
    reader.say("first")
    assert reader.texts() == ["first"]
    forum = reader.bot.server.forum.id
    reader.bot.server.act("deny", channel=forum, permission="READ_MESSAGE_HISTORY")
    reader.say("second")
    blind = reader.bot.run()
    outcomes = [blind.read(reader.where, reader.cursor), blind.seek_end(reader.where)]
    reader.bot.server.act("allow", channel=forum, permission="READ_MESSAGE_HISTORY")

    assert [said(one) for one in outcomes] == ["refused/missing-permission"] * 2
    assert "Read Message History" in outcomes[0].detail
    assert reader.texts() == ["second"]


def test_an_empty_thread_is_asked_about_once_in_a_run(reader: Reader) -> None:
    channel = reader.bot.run()
    before = reader.bot.operations().count("list_public_archived_threads")
    end = channel.seek_end(reader.where, reader.bot.now_ms())
    assert end.page is not None
    for _ in range(3):
        assert channel.read(reader.where, end.page.cursor).verdict is ChannelVerdict.DONE

    after = reader.bot.operations().count("list_public_archived_threads")
    assert after - before == 1
