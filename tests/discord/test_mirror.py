"""Sessions in Discord: judged on what a person reads in the threads at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.discord.mockcord import MockDiscord, fence_problems, lines_as_read, repeated
from tests.discord.sessions import Mirrored, mirrored, started, waits
from vyane_cli.channels.port import Conversation
from vyane_cli.children.result_rules import Ending
from vyane_cli.conversations import bindings, state
from vyane_cli.conversations.bind import RequestedBinding, bind
from vyane_cli.conversations.binding import BindingStatus
from vyane_cli.conversations.status import describe_mirror
from vyane_cli.errors import VyaneError
from vyane_cli.health import projects
from vyane_cli.health.subject import Subject
from vyane_cli.hosts import claude_settings
from vyane_cli.sessions.speaker import FromKind, Speaker


@pytest.fixture
def one(discord: MockDiscord, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirrored]:
    with mirrored(discord) as session:
        waits(session, monkeypatch)
        yield session
    discord.assert_clean()


# ------------------------------------------------------------------ out


def test_a_session_has_one_post_and_each_turn_a_line(one: Mirrored) -> None:
    started(one, "The answer is 42.\nAnd more.")
    one.push()
    one.turn("43 now.")
    one.push()

    assert one.texts() == ["✅ The answer is 42.", "✅ 43 now."]
    (thread,) = one.server.threads()
    assert thread["name"] == "💤 project"
    assert all(message["silent"] for message in one.messages())


def test_a_child_s_result_closes_its_post_and_shows_once_in_its_parent_s(one: Mirrored) -> None:
    started(one)
    kid = one.child()
    one.push()
    one.settle(kid, "All 42 tests pass.\nIn 3 s.")
    one.push()

    assert one.texts(kid)[-1] == "✅ **Result**\nAll 42 tests pass.\nIn 3 s."
    assert not one.messages(kid)[-1]["silent"]
    assert one.texts()[-1] == "**Children**\n✅ kid: All 42 tests pass."
    states = {thread["id"]: thread for thread in one.server.threads()}
    assert states[one.thread(kid)]["archived"]
    assert states[one.thread(kid)]["name"].startswith("✅ [project]: ")
    assert not states[one.thread()]["archived"]


def test_two_children_in_two_threads_finish_at_once_and_nothing_is_in_the_channel(
    one: Mirrored,
) -> None:
    started(one)
    kids = [one.child("ann"), one.child("bea")]
    one.push()
    for kid in kids:
        one.settle(kid, f"done by {kid}")
    one.push()

    for kid in kids:
        assert [text for text in one.texts(kid) if "done by" in text] == [
            f"✅ **Result**\ndone by {kid}"
        ]
    for place in (one.server.forum.id, one.server.text.id):
        assert one.server.visible(place) == []


def test_a_bound_thread_that_fails_is_tried_again_and_nothing_goes_elsewhere(
    one: Mirrored,
) -> None:
    started(one)
    one.server.act("lock", thread=one.thread())
    one.turn("while locked")
    reports = [one.push(), one.push()]
    asked = one.asked("create_message")

    assert [report.problems[0].code for report in reports] == ["locked", "locked"]
    assert one.texts() == ["✅ start"]
    assert len(one.server.threads()) == 1
    one.push()
    assert one.asked("create_message") == asked
    one.server.act("unlock", thread=one.thread())
    one.push(again=True)
    assert one.texts() == ["✅ start", "✅ while locked"]


LONG = "\n\n".join(f"{number} " + "word " * 360 for number in range(5))


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "drop", "when": "after"},
        {"kind": "drop", "when": "before"},
        {"kind": "status", "when": "after"},
        {"kind": "status", "when": "before", "status": 500},
        {"kind": "garbage", "when": "after"},
    ],
)
@pytest.mark.parametrize("part", [0, 3])
def test_a_part_whose_end_is_unknown_is_there_once_after_one_run(
    one: Mirrored, fault: dict[str, Any], part: int
) -> None:
    started(one)
    kid = one.child()
    one.push()
    one.settle(kid, LONG)
    one.server.fault(operation="create_message", skip=part, **fault)
    one.push()

    assert one.texts(kid)[-5][:14] == "✅ **Result**\n0"
    assert [text[0] for text in one.texts(kid)[-4:]] == ["1", "2", "3", "4"]
    assert repeated(one.texts(kid)) == []


def test_in_one_run_too_a_part_is_looked_for_before_it_is_sent_again(serve: Any) -> None:
    """No nonce is known here any more when the part is sent for the second time."""
    with mirrored(serve(nonce_seconds=-1)) as one:
        started(one)
        one.turn("second")
        one.server.fault(kind="drop", operation="create_message", when="after")
        one.push()

        assert one.texts() == ["✅ start", "✅ second"]
        assert one.asked("create_message") == 2


def test_found_out_after_the_nonce_s_window_a_text_is_still_there_once(one: Mirrored) -> None:
    started(one)
    one.turn("second")
    one.server.fault(kind="drop", operation="create_message", when="after")
    one.server.fault(kind="drop", operation="list_messages", times=-1)
    assert one.push().waiting == 1
    one.server.faults.clear()
    one.pass_s(600)
    one.push()

    assert one.texts() == ["✅ start", "✅ second"]
    nonces = [r["body"]["nonce"] for r in one.server.requests if r["op"] == "create_message"]
    assert len(set(nonces)) == 2
    assert {len(nonce) for nonce in nonces} == {25}


def second_of_unknown_fate(one: Mirrored) -> None:
    """The second result was sent; its answer was lost, and so was each look for it."""
    started(one)
    one.turn("second")
    one.server.fault(kind="drop", operation="create_message", when="after")
    one.server.fault(kind="drop", operation="list_messages", times=-1)
    one.push()
    one.server.faults.clear()


def test_where_nothing_may_be_read_a_part_of_unknown_fate_is_not_sent_again(one: Mirrored) -> None:
    second_of_unknown_fate(one)
    forum = one.server.forum.id
    one.server.act("deny", channel=forum, permission="READ_MESSAGE_HISTORY")
    one.pass_s(600)
    (problem,) = one.push().problems
    one.server.act("allow", channel=forum, permission="READ_MESSAGE_HISTORY")
    one.push(again=True)

    assert "Read Message History" in problem.detail
    assert one.texts() == ["✅ start", "✅ second"]


def test_a_result_a_moderator_removed_in_between_stays_away(one: Mirrored) -> None:
    second_of_unknown_fate(one)
    one.server.act("delete_message", channel=one.thread(), message=one.messages()[-1]["id"])
    one.pass_s(60)
    one.turn("third")
    one.push()

    assert one.texts() == ["✅ start", "✅ third"]


def test_an_opening_whose_answer_was_lost_makes_one_post(one: Mirrored) -> None:
    one.turn("start")
    one.server.fault(kind="drop", operation="create_thread", when="after")
    one.push()
    one.push()

    assert len(one.server.threads()) == 1
    assert one.texts() == ["✅ start"]


def test_a_long_result_reads_as_it_was_written(one: Mirrored) -> None:
    started(one)
    kid = one.child()
    one.push()
    rows = "\n".join(f"    step_{number}()\n" for number in range(150))
    text = f"Look @everyone:\n```py\n{rows}\n```\nhttps://example.com done 🎉"
    one.settle(kid, text)
    one.push()

    shown = one.texts(kid)
    assert lines_as_read(shown)[-len(lines_as_read([text])) :] == lines_as_read([text])
    assert not any(map(fence_problems, shown))
    assert all(message["pings"] == [] for message in one.messages(kid))


def test_80000_characters_are_one_message_and_a_file(one: Mirrored) -> None:
    started(one)
    kid = one.child()
    one.push()
    before = len(one.messages(kid))
    one.settle(kid, "line of output\n" * 5_400)
    one.push()

    (message,) = one.messages(kid)[before:]
    assert message["files"][0]["filename"] == "output.txt"
    assert message["files"][0]["size"] >= 80_000


def test_who_is_to_be_called_is_called_at_the_end_and_nobody_else(one: Mirrored) -> None:
    one.configure(ping_users=[one.alice])
    started(one)
    kid = one.child()
    one.push()
    one.settle(kid, "done, @everyone")
    one.push()

    assert one.messages(kid)[-1]["pings"] == ["alice"]
    assert all(message["pings"] == [] for message in one.messages(kid)[:-1])


def test_a_secret_is_masked_before_it_leaves(one: Mirrored) -> None:
    secret = "ghp_" + "0123456789abcdefghij"
    started(one, f"the token is {secret}")
    kid = one.child(purpose=f"use {secret}")
    one.push()
    one.settle(kid, f"used {secret}")
    one.push()

    assert secret not in str(one.server.requests)


def test_200_changes_in_ten_seconds_make_few_edits_and_the_last_one_shows(one: Mirrored) -> None:
    """A push begins when the one before it has ended; what it waits, changes go on in."""
    started(one)
    kid = one.child()
    one.push()
    begin_ms, done = one.world.clock().now_ms, 0
    while done < 200:
        due = min((one.world.clock().now_ms - begin_ms) // 50, 200)
        for number in range(done, due):
            note_progress(one, kid, f"step {number}")
        done = max(done, due)
        one.push()
        one.pass_s(0.05)

    assert one.texts()[-1] == "**Children**\n🏃 kid: step 199"
    edits = [r for r in one.server.requests if r["op"] == "update_message"]
    assert {r["status"] for r in edits} == {200}
    assert len(edits) < 40
    texts = [r["body"]["content"] for r in edits]
    assert all(a != b for a, b in pairwise(texts))


def note_progress(session: Mirrored, child: str, text: str) -> None:
    """What a child says of its work, as `vyane report` keeps it."""
    speaker = Speaker(FromKind.WORKER, child, child)
    session.world.send(session.host.worker, text, speaker, kind="status-update")


def test_two_runs_at_once_show_each_text_once_and_in_order(one: Mirrored) -> None:
    started(one)
    for number in range(4):
        one.turn(f"turn {number}")
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            try:
                one.push()
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)

    assert one.texts() == ["✅ start", *(f"✅ turn {number}" for number in range(4))]


def test_an_hour_s_limit_ends_the_run_and_leaves_the_rest_queued(one: Mirrored) -> None:
    started(one)
    one.turn("later")
    one.server.fault(kind="rate_limit", operation="create_message", retry_after=3_600)
    report = one.push()
    asked = one.asked("create_message")

    assert report.waiting == 1
    assert one.push().waiting == 1
    assert one.asked("create_message") == asked
    one.pass_s(3_601)
    one.push()
    assert one.texts() == ["✅ start", "✅ later"]


def test_a_ban_and_a_full_server_are_told_by_doctor_with_the_next_step(one: Mirrored) -> None:
    started(one)
    one.turn("later")
    one.server.fault(kind="ban", operation="create_message", times=-1)
    one.push()
    finding = projects.channels(Subject(one.world, claude_settings, "/"))

    assert not finding.ok
    assert "turns this machine away" in finding.detail
    assert finding.fix


def test_a_wrong_token_is_asked_once_and_the_work_waits_for_another(one: Mirrored) -> None:
    started(one)
    one.environ["DISCORD_TOKEN"] = "bad"
    one.turn("later")
    reports = [one.push() for _ in range(3)]

    assert [report.state for report in reports] == ["off"] * 3
    assert "DISCORD_TOKEN" in reports[0].problems[0].fix
    assert [r["status"] for r in one.server.requests].count(401) == 1
    one.environ["DISCORD_TOKEN"] = one.server.world.token
    one.push()
    assert one.texts() == ["✅ start", "✅ later"]


def test_a_missing_right_stops_once_and_the_work_goes_on_when_it_is_given(one: Mirrored) -> None:
    started(one)
    permission = {"channel": one.server.forum.id, "permission": "SEND_MESSAGES_IN_THREADS"}
    one.server.act("deny", **permission)
    one.turn("later")
    first, second = one.push(), one.push()
    refused = [r["status"] for r in one.server.requests].count(403)

    assert "Send Messages in Threads" in first.problems[0].detail
    assert second.problems == first.problems
    assert refused == 1
    one.server.act("allow", **permission)
    one.push(again=True)
    assert one.texts() == ["✅ start", "✅ later"]


def test_a_deleted_thread_ends_its_binding_and_is_made_anew_only_if_the_settings_say_so(
    one: Mirrored,
) -> None:
    started(one, "one")
    one.server.act("delete_channel", channel=one.thread())
    one.turn("two")
    one.push()
    one.push()

    assert one.server.threads() == []
    assert [r["code"] for r in one.server.requests if "code" in r].count(10003) == 1
    (binding,) = bindings.load(one.world.layout).values()
    assert (binding.status, binding.end_reason) == (BindingStatus.ENDED, "gone")
    one.configure(recreate=True)
    one.push()
    one.turn("three")
    one.push()
    assert [t for t in one.texts() if t.startswith("✅")] == ["✅ two", "✅ three"]
    assert "goes on from" in one.server.visible(one.thread())[0]["content"]


def test_a_deleted_forum_turns_the_channel_off_with_one_report_until_it_is_another(
    one: Mirrored,
) -> None:
    started(one)
    one.server.act("delete_channel", channel=one.server.forum.id)
    one.turn("later")
    reports = [one.push() for _ in range(3)]
    asked = len(one.server.requests)
    one.push()

    assert [report.state for report in reports] == ["off"] * 3
    assert reports[0].problems[0].code == "forum-gone"
    assert len(one.server.requests) == asked
    other = one.server.world.add_channel("agents again", 15)
    one.server.forum = other
    one.configure()
    one.turn("new place")
    assert one.push().state == "ok"


def test_a_channel_s_trouble_is_told_once_and_not_for_each_session(one: Mirrored) -> None:
    one.world.register("bob")
    one.server.act("delete_channel", channel=one.server.forum.id)
    reports = [one.push(), one.push()]

    assert [[p.code for p in r.problems] for r in reports] == [["forum-gone"]] * 2


def test_the_last_state_shows_where_the_message_was_deleted(one: Mirrored) -> None:
    started(one)
    kid = one.child()
    one.push()
    (overview,) = [m for m in one.messages() if m["content"].startswith("**Children**")]
    one.server.act("delete_message", channel=one.thread(), message=overview["id"])
    one.settle(kid, "done")
    one.push()

    assert one.texts()[-1] == "**Children**\n✅ kid: done"


def test_a_thread_that_went_to_sleep_goes_on_in_its_place(one: Mirrored) -> None:
    started(one, "one")
    one.pass_s(4 * 86_400)
    one.turn("two")
    one.push()

    assert one.texts() == ["✅ one", "✅ two"]
    assert len(one.server.threads()) == 1


def test_a_thread_that_people_made_can_be_bound(one: Mirrored) -> None:
    alice = one.alice
    forum = one.server.forum
    with one.server._lock:
        post = one.server.world._new_thread(forum, "Alice's", 11, alice, None)
    one.server.act("post", channel=post.id, user=alice, content="old words")
    one.world.environ = one.environ
    bind(one.world, RequestedBinding(one.host.worker, Conversation("discord", "default", post.id)))
    one.turn("hello")
    one.push()
    one.server.act("post", channel=post.id, user=alice, content="new words")
    one.pull()

    said = [m["content"] for m in one.server.visible(post.id) if m["by"] == "bot"]
    assert said == ["✅ hello"]
    assert one.words() == ["new words"]
    assert len(one.server.threads()) == 1


def test_settings_that_cannot_be_right_are_an_error_and_not_a_request(one: Mirrored) -> None:
    one.configure(forum="agents")

    with pytest.raises(VyaneError, match=r"channels\.discord\.forum"):
        one.push()
    assert one.server.requests == []


def test_the_token_is_in_no_file(one: Mirrored) -> None:
    started(one)
    one.say("hello")
    one.pull()
    token = one.environ["DISCORD_TOKEN"].encode()

    for path in Path(one.world.layout.root).rglob("*"):
        assert not path.is_file() or token not in path.read_bytes(), path


def test_what_the_channel_taught_is_kept_after_each_answer(one: Mirrored) -> None:
    started(one)
    learnt = state.load_channel(one.world.layout, "discord", "default").memory

    assert {"me", "open", "post"} <= set(learnt["limits"]["buckets"])
    one.pull()
    learnt = state.load_channel(one.world.layout, "discord", "default").memory
    assert "list" in learnt["limits"]["buckets"]


# ------------------------------------------------------------------ in


def test_what_alice_writes_reaches_the_session_once_and_gets_its_sign(one: Mirrored) -> None:
    started(one)
    one.say("please do B")
    first, second = one.pull(), one.pull()

    assert (first.taken, second.taken) == (1, 0)
    assert one.words() == ["please do B"]
    shown = one.server.visible(one.thread())[-1]
    assert shown["reactions"] == {"👀": 1}


def test_a_lost_sign_takes_nothing_in_again(one: Mirrored) -> None:
    started(one)
    one.say("please do B")
    one.server.fault(kind="drop", operation="add_my_message_reaction", when="before", times=3)
    one.pull()
    one.pull()

    assert one.words() == ["please do B"]


def test_nobody_else_is_heard_and_no_command_of_theirs_runs(one: Mirrored) -> None:
    started(one)
    mallory = one.server.world.add_user("mallory")
    one.server.act("post", channel=one.thread(), user=mallory["id"], content="/cancel all of it")
    report = one.pull()

    assert (report.taken, report.refused) == (0, 1)
    assert one.words() == []
    assert one.server.visible(one.thread())[-1]["reactions"] == {}


def test_an_edit_is_a_note_and_runs_nothing_again(one: Mirrored) -> None:
    started(one)
    message = one.say("please do B")
    one.pull()
    one.server.act("edit", channel=one.thread(), message=message, content="please do C")
    one.pull()
    one.pull()

    assert one.words()[0] == "please do B"
    assert len(one.words()) == 2
    assert "please do C" in one.words()[1]


def test_a_message_in_a_child_s_post_reaches_that_child(one: Mirrored) -> None:
    started(one)
    kid = one.child()
    one.push()
    one.say("faster please", kid)
    one.pull()

    assert one.words() == []
    texts = [e.message.payload.get("text") for e in one.world.inbox(kid).mailbox.entries]
    assert "faster please" in texts


def test_more_than_a_page_of_messages_all_arrive_in_order(one: Mirrored) -> None:
    started(one)
    thread = one.thread()
    for number in range(110):
        one.server.act("post", channel=thread, user=one.alice, content=f"m{number}")
    for _ in range(3):
        one.pull()

    assert one.words() == [f"m{number}" for number in range(110)]


def test_hidden_words_are_told_with_the_setting_that_hides_them(one: Mirrored) -> None:
    started(one)
    one.server.act("option", name="message_content_intent", value=False)
    one.say("hello")
    report = one.pull()

    assert "Message Content Intent" in report.problems[0].detail
    (status,) = describe_mirror(one.world)
    assert "Message Content Intent" in status.problems[0].detail
    one.server.act("option", name="message_content_intent", value=True)
    assert one.pull().problems == ()
    assert one.words() == ["hello"]


@pytest.mark.parametrize("name", ["<@{}>", "<@!{}>,", " <@{}>  "])
def test_a_command_is_one_also_behind_our_name(one: Mirrored, name: str) -> None:
    started(one)
    one.server.act("option", name="message_content_intent", value=False)
    one.say(f"{name.format(one.server.world.bot['id'])} /topology")
    one.pull()

    assert one.words() == []
    assert "**project**" in one.texts()[-1]


def test_a_failed_child_is_told_as_such(one: Mirrored) -> None:
    started(one)
    kid = one.child()
    one.push()
    one.settle(kid, "it broke", Ending.ERROR)
    one.push()

    assert one.texts(kid)[-1].startswith("❌ **Failed**")
    assert one.server.threads()[-1]["name"].startswith("❌")


def test_a_part_that_discord_refuses_for_good_holds_what_follows_and_is_told(one: Mirrored) -> None:
    started(one)
    kid = one.child()
    one.push()
    one.server.fault(kind="rate_limit", operation="create_message", skip=1, retry_after=3_600)
    one.settle(kid, LONG)
    one.push()
    one.server.act("option", name="content_limit", value=500)
    one.pass_s(3_601)
    reports = [one.push(), one.push()]
    asked = one.asked("create_message")

    assert [text[:14] for text in one.texts(kid)][-1] == "✅ **Result**\n0"
    assert {p.code for report in reports for p in report.problems} == {"refused-form"}
    one.server.act("option", name="content_limit", value=2_000)
    one.push()
    assert one.asked("create_message") == asked
    one.push(again=True)
    assert [text[0] for text in one.texts(kid)[-4:]] == ["1", "2", "3", "4"]


def marks(one: Mirrored, kid: str) -> list[str]:
    """The signs at vyane's own messages in the post of a child, oldest first."""
    shown = [m for m in one.server.visible(one.thread(kid)) if m["by"] == "bot" and m["type"] == 0]
    return [" ".join(m["reactions"]) for m in shown]


def test_the_last_message_of_an_idle_child_has_a_mark_put_once(one: Mirrored) -> None:
    kid = one.child(pid=os.getppid())
    one.push()
    first = marks(one, kid)
    asked = one.asked("add_my_message_reaction")
    one.push()
    again = one.asked("add_my_message_reaction")
    one.settle(kid, "done")
    one.push()

    assert (first, again - asked) == (["✅"], 0)
    assert marks(one, kid) == ["✅", ""]
    assert set(marks(one, one.host.worker)) == {""}


def test_a_mark_that_may_not_be_put_holds_up_nothing(one: Mirrored) -> None:
    one.server.act("deny", channel=one.server.forum.id, permission="ADD_REACTIONS")
    kid = one.child(pid=os.getppid())
    reports = [one.push(), one.push()]

    assert marks(one, kid) == [""]
    assert one.asked("add_my_message_reaction") == 1
    assert [r.state for r in reports] == ["ok", "ok"]
