"""Good requests do what the documentation says they do."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import threading
import urllib.request
from typing import Any

import pytest

from tests.discord.mockcord import (
    MockDiscord,
    fence_problems,
    lines_as_read,
    repeated,
    snowflake_at,
)
from tests.discord.plain_client import QUIET
from tests.hostlab.waiting import wait_until

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SAFE = {"allowed_mentions": QUIET}


def test_a_forum_post_and_its_first_message_share_an_id(pair: Any) -> None:
    discord, call = pair
    reply = call(
        "POST",
        f"/channels/{discord.forum.id}/threads",
        {"name": "n", "message": {"content": "hi", **SAFE}},
    )
    assert reply.status == 201
    assert reply.json["id"] == reply.json["message"]["id"] == reply.json["message"]["channel_id"]
    assert reply.json["parent_id"] == discord.forum.id


def test_nonce_makes_a_retry_harmless(pair: Any) -> None:
    discord, call = pair
    thread = call.post_open()
    key = {"nonce": "a" * 25, "enforce_nonce": True}
    first, again = call.say(thread, "once", **key), call.say(thread, "once", **key)
    assert first.json["id"] == again.json["id"]
    assert again.status == 200
    assert first.json["nonce"] == "a" * 25
    assert "nonce" not in call("GET", f"/channels/{thread}/messages/{first.json['id']}").json
    assert len(discord.visible(thread)) == 2
    discord.advance(181)  # past the window, the same key posts again
    assert call.say(thread, "once", **key).json["id"] != first.json["id"]
    assert repeated([m["content"] for m in discord.visible(thread)]) == ["once"]


def test_nonce_traps(pair: Any) -> None:
    discord, call = pair
    thread = call.post_open()
    key = {"nonce": "k", "enforce_nonce": True}
    first = call.say(thread, "one", **key).json["id"]
    assert call.say(thread, "two", **key).json["content"] == "one"
    assert any("used again for another text" in p for p in discord.problems())
    discord.act("delete_message", channel=thread, message=first)
    assert call.say(thread, "one", **key).code == 10008
    other = call.say(thread, "free", nonce="z").json["id"]
    assert (
        call.say(thread, "free", nonce="z").json["id"] != other
    )  # without enforce_nonce it is only an echo


def test_after_gives_the_next_messages_newest_first(pair: Any) -> None:
    discord, call = pair
    thread = call.post_open()
    for n in range(130):
        discord.act("post", channel=thread, user=discord.alice["id"], content=f"m{n}")
    cursor, got = thread, []
    while page := call("GET", f"/channels/{thread}/messages?after={cursor}&limit=50").json:
        assert [int(m["id"]) for m in page] == sorted((int(m["id"]) for m in page), reverse=True)
        got += [m["content"] for m in reversed(page)]
        cursor = page[0]["id"]
    assert got == [f"m{n}" for n in range(130)]
    assert len(call("GET", f"/channels/{thread}/messages").json) == 50
    assert (
        call(
            "GET", f"/channels/{thread}/messages?after={snowflake_at(discord.clock.now() + 5)}"
        ).json
        == []
    )


def test_a_late_id_hides_behind_a_cursor(pair: Any) -> None:
    discord, call = pair
    thread = call.post_open()
    discord.advance(10)
    seen = discord.act("post", channel=thread, user=discord.alice["id"], content="first")
    late = discord.act(
        "post", channel=thread, user=discord.alice["id"], content="late", earlier_ms=500
    )
    assert int(late) < int(seen)
    assert call("GET", f"/channels/{thread}/messages?after={seen}").json == []
    overlap = snowflake_at(discord.clock.now() - 5)
    assert {
        m["content"] for m in call("GET", f"/channels/{thread}/messages?after={overlap}").json
    } == {"first", "late"}


def test_without_the_content_intent_people_are_mute(make: Any) -> None:
    discord, call = make(message_content_intent=False)
    thread = call.post_open()
    discord.act("post", channel=thread, user=discord.alice["id"], content="hello")
    discord.act(
        "post", channel=thread, user=discord.alice["id"], content=f"<@{discord.world.bot['id']}> hi"
    )
    assert [m["content"] for m in call("GET", f"/channels/{thread}/messages").json] == [
        f"<@{discord.world.bot['id']}> hi",
        "",
        "start",
    ]


def test_mentions(pair: Any) -> None:
    discord, call = pair
    thread = call.post_open()
    text = f"@everyone <@{discord.alice['id']}> <@&{discord.oncall}>"
    call("POST", f"/channels/{thread}/messages", {"content": text})
    call("POST", f"/channels/{thread}/messages", {"content": text, **SAFE})
    call("POST", f"/channels/{thread}/messages", {"content": f"```{text}``` `{text}`"})
    discord.act("grant", permission="MENTION_EVERYONE")
    mid = call(
        "POST",
        f"/channels/{thread}/messages",
        {"content": text, "allowed_mentions": {"parse": ["everyone"]}},
    ).json["id"]
    call(
        "PATCH", f"/channels/{thread}/messages/{mid}", {"content": text}
    )  # an edit starts from the defaults again
    assert [m["pings"] for m in discord.visible(thread)[1:]] == [
        ["alice", "@oncall"],
        [],
        [],
        ["alice", "@oncall", "@everyone"],
    ]
    assert any("without allowed_mentions" in p for p in discord.problems())


def test_auto_archive_follows_the_clock(pair: Any) -> None:
    discord, call = pair
    thread = call.post_open(auto_archive_duration=60)
    discord.advance(3599)
    assert [
        t["id"]
        for t in call("GET", f"/guilds/{discord.world.guild_id}/threads/active").json["threads"]
    ] == [thread]
    discord.advance(2)
    assert call("GET", f"/guilds/{discord.world.guild_id}/threads/active").json["threads"] == []
    assert [
        t["id"]
        for t in call("GET", f"/channels/{discord.forum.id}/threads/archived/public").json[
            "threads"
        ]
    ] == [thread]


def test_renaming_leaves_a_notice(pair: Any) -> None:
    discord, call = pair
    thread = call.post_open()
    call("PATCH", f"/channels/{thread}", {"name": "done: fix login"})
    newest = call("GET", f"/channels/{thread}/messages?after={thread}").json[0]
    assert (newest["type"], newest["content"]) == (4, "done: fix login")
    assert "changed the post title" in discord.transcript()


def test_reactions(pair: Any) -> None:
    _discord, call = pair
    thread = call.post_open()
    where = f"/channels/{thread}/messages/{thread}/reactions/{call.emoji('✅')}"
    assert [call("PUT", f"{where}/@me").status for _ in range(2)] == [204, 204]
    assert call("GET", f"/channels/{thread}/messages/{thread}").json["reactions"][0]["count"] == 1


def test_too_many_active_threads(make: Any) -> None:
    discord, call = make(max_active_threads=1)
    first = call.post_open()
    body = {"name": "n", "message": {"content": "hi", **SAFE}}
    assert call("POST", f"/channels/{discord.forum.id}/threads", body).code == 160006
    call("PATCH", f"/channels/{first}", {"archived": True})
    assert call("POST", f"/channels/{discord.forum.id}/threads", body).status == 201
    assert call.say(first, "wake").code == 160006


# -- limits ---------------------------------------------------------------------------------
def test_route_limit(make: Any) -> None:
    discord, call = make(limits={})
    thread = call.post_open()
    replies = [call.say(thread, str(n), nonce=str(n), enforce_nonce=True) for n in range(6)]
    assert [r.status for r in replies] == [200] * 5 + [429]
    assert [r.headers["x-ratelimit-remaining"] for r in replies] == ["4", "3", "2", "1", "0", "0"]
    last = replies[-1]
    assert last.json["global"] is False
    assert 0 < last.json["retry_after"] <= 5
    assert last.headers["x-ratelimit-scope"] == "user"
    assert int(last.headers["retry-after"]) >= 1
    assert "via" in last.headers
    assert any("before the time the last answer told it" in p for p in discord.problems())
    other = call.post_open("second")  # another channel, another bucket
    assert call.say(other, "x").status == 200
    assert call.say(other, "y").headers["x-ratelimit-bucket"] == last.headers["x-ratelimit-bucket"]
    discord.advance(last.json["retry_after"])
    assert call.say(thread, "later").status == 200


def test_hidden_rename_limit(make: Any) -> None:
    _discord, call = make(limits={})
    thread = call.post_open()
    replies = [call("PATCH", f"/channels/{thread}", {"name": f"n{n}"}) for n in range(3)]
    assert [r.status for r in replies] == [200, 200, 429]
    assert int(replies[2].headers["x-ratelimit-remaining"]) > 0
    assert replies[2].json["retry_after"] > 500
    assert (
        call("PATCH", f"/channels/{thread}", {"archived": True}).status == 200
    )  # archiving is not renaming


def test_global_limit_and_old_edits(make: Any) -> None:
    discord, call = make(limits={"global_per_second": 3})
    replies = [call("GET", "/users/@me") for _ in range(4)]
    assert replies[3].json["global"] is True
    assert replies[3].headers["x-ratelimit-global"] == "true"
    discord.advance(1)
    thread = call.post_open()
    discord.advance(3601)
    codes = []
    for n in range(4):
        discord.advance(1)
        codes.append(
            call("PATCH", f"/channels/{thread}/messages/{thread}", {"content": f"e{n}", **SAFE})
        )
    assert [c.status for c in codes] == [200, 200, 200, 429]
    assert codes[3].code == 30046


def test_invalid_requests_end_in_a_ban(make: Any) -> None:
    discord, call = make(limits={"invalid_per_10_minutes": 3})
    for _ in range(3):
        call("GET", "/users/@me", token="bad")
    banned = call("GET", "/users/@me")
    assert banned.status == 429
    assert "retry-after" not in banned.headers
    assert "retry_after" not in banned.json
    assert (
        "via" not in banned.headers
    )  # by this, libraries tell the edge network's refusal from the API's own
    discord.advance(601)
    assert call("GET", "/users/@me").status == 200


# -- faults ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "fault, lands",
    [
        ({"kind": "status", "status": 502}, False),
        ({"kind": "status", "status": 500, "when": "after"}, True),
        ({"kind": "garbage", "when": "after"}, True),
        ({"kind": "rate_limit", "retry_after": 0.5}, False),
        ({"kind": "rate_limit", "everywhere": True}, False),
        ({"kind": "ban"}, False),
    ],
)
def test_faults(pair: Any, fault: dict[str, Any], lands: bool) -> None:
    discord, call = pair
    thread = call.post_open()
    discord.fault(operation="create_message", **fault)
    key = {"nonce": "n", "enforce_nonce": True}
    broken = call.say(thread, "a", **key)
    assert broken.status != 200 or broken.headers["content-type"] == "text/html"
    assert (len(discord.visible(thread)) == 2) is lands
    assert call.say(thread, "a", **key).status == 200
    assert [m["content"] for m in discord.visible(thread)] == ["start", "a"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_lost_answers(pair: Any, when: str) -> None:
    discord, call = pair
    thread = call.post_open()
    discord.fault(kind="drop", operation="create_message", when=when)
    with pytest.raises(OSError, match=r"closed|reset"):
        call.say(thread, "a")
    assert len(discord.visible(thread)) == (2 if when == "after" else 1)
    discord.fault(kind="delay", operation="create_message", when="after", seconds=0.6)
    with pytest.raises(TimeoutError):
        call("POST", f"/channels/{thread}/messages", {"content": "slow", **SAFE}, timeout=0.2)
    wait_until(lambda: discord.visible(thread)[-1]["content"] == "slow", "the late message")


def test_a_lost_forum_post_can_be_found_again(pair: Any) -> None:
    discord, call = pair
    discord.fault(kind="drop", operation="create_thread", when="after")
    with pytest.raises(OSError, match=r"closed|reset"):
        call.post_open("run 7f3a")
    active = call("GET", f"/guilds/{discord.world.guild_id}/threads/active").json["threads"]
    assert [
        t["name"]
        for t in active
        if t["parent_id"] == discord.forum.id and t["owner_id"] == discord.world.bot["id"]
    ] == ["run 7f3a"]


def test_side_by_side_creates_are_reported(pair: Any) -> None:
    discord, call = pair
    thread = call.post_open()
    discord.fault(kind="delay", operation="create_message", when="after", seconds=0.3)
    slow = threading.Thread(target=call.say, args=(thread, "one"))
    slow.start()
    wait_until(lambda: len(discord.visible(thread)) == 2, "the first one is there")
    call.say(thread, "two")
    slow.join()
    assert any("order is not guaranteed" in p for p in discord.problems())


# -- log and oracles -------------------------------------------------------------------------------
def test_the_log_on_disk(make: Any, tmp_path: pathlib.Path) -> None:
    discord, call = make(out=tmp_path)
    thread = call.post_open(text="hello\n```py\nx = 1\n```")
    discord.act("post", channel=thread, user=discord.alice["id"], content="thanks")
    discord.act("echo", channel=thread, content="by hook")
    discord.write(force=True)
    state = json.loads((tmp_path / "state.json").read_text())
    post = next(c for c in state["channels"] if c["id"] == thread)
    assert [m["content"] for m in post["messages"]] == [
        "hello\n```py\nx = 1\n```",
        "thanks",
        "by hook",
    ]
    assert re.search(
        r"== fix login\n  \S+ bench-bot APP\n    \| hello", (tmp_path / "thread.txt").read_text()
    )
    log = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert [(r["op"], r["status"]) for r in log] == [("create_thread", 201)]
    everything = "".join(p.read_text() for p in tmp_path.iterdir())
    assert discord.world.token not in everything


def test_the_oracles() -> None:
    answer = "Here:\n```py\na = 1\nb = 2\n```\nDone."
    good = ["Here:\n```py\na = 1\n```", "```py\nb = 2\n```\nDone."]
    bad = ["Here:\n```py\na = 1", "b = 2\n```\nDone."]
    assert [fence_problems(c) for c in good] == [[], []]
    assert all(fence_problems(c) for c in bad)
    assert lines_as_read(good) == lines_as_read([answer])
    assert lines_as_read(bad) != lines_as_read([answer])
    assert repeated(["a", "b", "a"]) == ["a"]


def test_run_as_a_program(tmp_path: pathlib.Path) -> None:
    def ask(path: str, **body: Any) -> str:
        data = json.dumps(body).encode() if body else None
        with urllib.request.urlopen(urllib.request.Request(root + path, data)) as reply:
            return reply.read().decode()

    program = [sys.executable, "-m", "tests.discord.mockcord", "--out", str(tmp_path)]
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        scene = json.loads(process.stdout.readline())
        root = scene["base_url"].removesuffix("/api/v10") + "/_mock/"
        person = {"channel": scene["text_id"], "user": scene["alice_id"]}
        ask("act", what="post", content="hi", **person)
        assert "alice" in ask("thread.txt")
        assert json.loads(ask("fault", kind="drop", operation="get_my_user"))["times"] == 1
        process.terminate()
    assert json.loads((tmp_path / "state.json").read_text())["problems"] == []


def test_the_document_is_whole() -> None:
    doc = json.loads((HERE / "mockcord" / "spec" / "openapi-subset.json").read_text())
    text = json.dumps(doc)
    for ref in set(re.findall(r'"\$ref": "(#/[^"]+)"', text)):
        node: Any = doc
        for key in ref[2:].split("/"):
            node = node[key]
    assert doc["x-subset"]["sha256-of-source"]
    assert "MIT License" in (HERE / "mockcord" / "spec" / "LICENSE").read_text()
    assert isinstance(MockDiscord, type)
