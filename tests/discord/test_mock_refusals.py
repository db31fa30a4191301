"""The mock turns bad requests down, with the codes Discord documents."""

from __future__ import annotations

from typing import Any

import pytest

from tests.discord.plain_client import QUIET

FORUM_POST = {"name": "n", "message": {"content": "hi"}}


@pytest.mark.parametrize(
    "body, status, code, where",
    [
        ({"content": "x" * 2001}, 400, 50035, "content"),  # the document alone would allow 4000
        ({"content": "x" * 4001}, 400, 50035, "content"),
        ({"content": ""}, 400, 50006, None),
        ({"content": "  \n "}, 400, 50006, None),
        ({}, 400, 50006, None),
        ({"content": 5}, 400, 50035, "content"),
        ({"content": "a", "nonce": "n" * 26, "enforce_nonce": True}, 400, 50035, "nonce"),
        ({"content": "a", "flags": "4"}, 400, 50035, "flags"),
        ({"content": "a", "allowed_mentions": {"parse": ["all"]}}, 400, 50035, "allowed_mentions"),
        (
            {"content": "a", "allowed_mentions": {"parse": ["users"], "users": ["1"]}},
            400,
            50035,
            "allowed_mentions",
        ),
        (
            {"content": "a", "allowed_mentions": {"users": [str(n) for n in range(101)]}},
            400,
            50035,
            "allowed_mentions",
        ),
        (
            {"content": "a", "message_reference": {"message_id": "12"}},
            400,
            50035,
            "message_reference",
        ),
        (
            {"content": "a", "message_reference": {"message_id": "twelve"}},
            400,
            50035,
            "message_reference",
        ),
        ({"embeds": [{"title": "t" * 257}]}, 400, 50035, "embeds"),
        (
            {"embeds": [{"description": "d" * 4000}, {"description": "d" * 2001}]},
            400,
            50035,
            "embeds",
        ),
        ({"embeds": [{"title": "t"}] * 11}, 400, 50035, "embeds"),
    ],
)
def test_bad_messages(
    pair: Any, body: dict[str, Any], status: int, code: int, where: str | None
) -> None:
    discord, call = pair
    thread = call.post_open()
    reply = call("POST", f"/channels/{thread}/messages", body)
    assert (reply.status, reply.code) == (status, code), reply.raw
    if where:
        assert where in reply.json["errors"]
    assert len(discord.visible(thread)) == 1


@pytest.mark.parametrize(
    "body, code",
    [
        ({"name": "n" * 101, "message": {"content": "hi"}}, 50035),
        ({"name": "", "message": {"content": "hi"}}, 50035),
        ({"name": "   ", "message": {"content": "hi"}}, 50035),
        ({"name": "n"}, 50035),  # a text thread's body sent to a forum
        ({"name": "n", "message": {}}, 50006),
        ({**FORUM_POST, "auto_archive_duration": 61}, 50035),
        ({**FORUM_POST, "rate_limit_per_user": 21601}, 50035),
        ({**FORUM_POST, "applied_tags": ["1", "2", "3", "4", "5", "6"]}, 50035),
        ({**FORUM_POST, "applied_tags": ["codex"]}, 50035),
        ({**FORUM_POST, "applied_tags": ["123"]}, 10087),
    ],
)
def test_bad_posts(pair: Any, body: dict[str, Any], code: int) -> None:
    discord, call = pair
    reply = call("POST", f"/channels/{discord.forum.id}/threads", body)
    assert (reply.status, reply.code) == (400, code), reply.raw
    assert discord.threads() == []


def test_a_tag_can_be_required(make: Any) -> None:
    discord, call = make(require_tag=True)
    assert call("POST", f"/channels/{discord.forum.id}/threads", FORUM_POST).code == 40067
    tag = discord.forum.tags[0]["id"]
    assert (
        call(
            "POST", f"/channels/{discord.forum.id}/threads", {**FORUM_POST, "applied_tags": [tag]}
        ).status
        == 201
    )
    assert discord.threads()[0]["tags"] == ["codex"]


def test_transport_rules(pair: Any) -> None:
    discord, call = pair
    where = f"/channels/{discord.text.id}/messages"
    assert call("POST", where, {"content": "a"}, token=None).status == 401
    assert call("POST", where, {"content": "a"}, token="wrong").status == 401
    assert call("POST", where, {"content": "a"}, agent="python-requests/2").code == 40333
    assert call("POST", where, {"content": "a"}, agent="").code == 40333
    assert call("POST", where, raw=b"{not json").code == 50109
    assert call("POST", where, raw=b"[1]").code == 50035
    assert call("POST", where, raw=b"{}", kind="text/plain").code == 50035
    assert call("PUT", where, {"content": "a"}).status == 405
    assert call("GET", "/nothing/here").status == 404
    assert call("GET", "/api/v6/users/@me", absolute=True).code == 50041
    assert call("GET", "/channels/abc/messages").code in (50035, 10003)
    assert call("GET", "/channels/123/messages").code == 10003
    assert discord.visible(discord.text.id) == []


def test_queries(pair: Any) -> None:
    discord, call = pair
    where = f"/channels/{discord.text.id}/messages"
    for query in ("?limit=0", "?limit=101", "?limit=ten", "?after=yesterday", "?after=1&before=2"):
        assert call("GET", where + query).code == 50035, query
    assert call("GET", where + "?since=1").status == 200
    assert any("since" in p for p in discord.problems())


def test_places(pair: Any) -> None:
    discord, call = pair
    assert call("POST", f"/channels/{discord.forum.id}/messages", {"content": "a"}).code == 40058
    assert call("POST", f"/channels/{discord.text.id}/threads", {"name": "t"}).code == 50024


def test_permissions(pair: Any) -> None:
    discord, call = pair
    thread = call.post_open()
    first = discord.visible(thread)[0]["id"]
    post = f"/channels/{thread}/messages"
    for permission, request, code in [
        ("SEND_MESSAGES_IN_THREADS", ("POST", post, {"content": "a"}), 50013),
        ("SEND_MESSAGES", ("POST", f"/channels/{discord.forum.id}/threads", FORUM_POST), 50013),
        ("ADD_REACTIONS", ("PUT", f"{post}/{first}/reactions/{call.emoji('✅')}/@me"), 50013),
        ("VIEW_CHANNEL", ("GET", post), 50001),
        ("VIEW_CHANNEL", ("POST", post, {"content": "a"}), 50001),
    ]:
        discord.act("deny", channel=discord.forum.id, permission=permission)
        reply = call(*request)
        assert (reply.status, reply.code) == (403, code), permission
        discord.act("allow", channel=discord.forum.id, permission=permission)
    assert call("PATCH", f"/channels/{thread}", {"locked": True}).code == 50013
    discord.act("grant", permission="MANAGE_THREADS")
    assert call("PATCH", f"/channels/{thread}", {"locked": True}).status == 200
    discord.act("delete_channel", channel=thread)
    for method, path in [("GET", f"/channels/{thread}"), ("GET", post), ("POST", post)]:
        assert call(method, path, {"content": "a"} if method == "POST" else None).code == 10003
    discord.act("deny", channel=discord.text.id, permission="READ_MESSAGE_HISTORY")
    assert call("GET", f"/channels/{discord.text.id}/messages").json == []


def test_archived_and_locked(pair: Any) -> None:
    discord, call = pair
    thread = call.post_open()
    msg = discord.visible(thread)[0]["id"]
    one = f"/channels/{thread}/messages/{msg}"
    assert call("PATCH", f"/channels/{thread}", {"archived": True}).json["thread_metadata"][
        "archived"
    ]
    assert call("PATCH", one, {"content": "b"}).code == 50083
    assert call("PUT", f"{one}/reactions/{call.emoji('✅')}/@me").code == 50083
    assert call("PATCH", f"/channels/{thread}", {"name": "new"}).code == 50083
    assert call("PATCH", f"/channels/{thread}", {"name": "new", "archived": False}).status == 200
    call("PATCH", f"/channels/{thread}", {"archived": True})
    assert call.say(thread, "wakes it").status == 200
    assert not call("GET", f"/channels/{thread}").json["thread_metadata"]["archived"]
    discord.act("lock", thread=thread)
    assert (call.say(thread, "no").status, call.say(thread, "no").code) == (403, 160005)
    discord.act("archive", thread=thread)
    assert call.say(thread, "no").code == 50083
    assert call("PATCH", f"/channels/{thread}", {"archived": False}).code == 50013
    discord.act("grant", permission="MANAGE_THREADS")
    assert call("PATCH", f"/channels/{thread}", {"archived": False, "locked": False}).status == 200
    assert call.say(thread, "again").status == 200


def test_other_peoples_messages_and_emoji(pair: Any) -> None:
    discord, call = pair
    thread = call.post_open()
    hers = discord.act("post", channel=thread, user=discord.alice["id"], content="hello")
    assert call("PATCH", f"/channels/{thread}/messages/{hers}", {"content": "mine"}).code == 50005
    assert call("PATCH", f"/channels/{thread}/messages/99", {"content": "mine"}).code == 10008
    for bad in ("check", ":ok:", "a b", "x"):
        assert (
            call("PUT", f"/channels/{thread}/messages/{hers}/reactions/{call.emoji(bad)}/@me").code
            == 10014
        ), bad
    for good in ("✅", "👀", "1️⃣", "party:123456789012345678"):
        assert (
            call(
                "PUT", f"/channels/{thread}/messages/{hers}/reactions/{call.emoji(good)}/@me"
            ).status
            == 204
        ), good


def test_uploads(make: Any) -> None:
    discord, call = make(file_limit=1000, request_limit=5000)
    thread = call.post_open()
    where = f"/channels/{thread}/messages"
    good = call(
        "POST",
        where,
        {"content": "log", "attachments": [{"id": "0", "description": "the log"}]},
        files=[("files[0]", "out.txt", b"a\r\n--b\r\n")],
    )
    assert good.status == 200
    assert good.json["attachments"][0]["size"] == 8
    assert (
        call(
            "GET", good.json["attachments"][0]["url"].removeprefix(discord.root), absolute=True
        ).raw
        == b"a\r\n--b\r\n"
    )
    assert (
        big := call("POST", where, {}, files=[("files[0]", "out.txt", b"x" * 1001)])
    ).status == 413
    assert big.code == 40005
    assert call("POST", where, {}, files=[("files[0]", "out.txt", b"x" * 6000)]).code == 40005
    assert call("POST", where, {}, files=[("file", "out.txt", b"x")]).code == 50035
    assert (
        call("POST", where, {}, files=[(f"files[{n}]", "o", b"x") for n in range(11)]).code == 30015
    )
    assert call("POST", where, {}, files=[("files[0]", "only.txt", b"x")]).status == 200
    assert [f["filename"] for m in discord.visible(thread) for f in m["files"]] == [
        "out.txt",
        "only.txt",
    ]


def test_unknown_fields_are_reported_and_can_be_refused(make: Any) -> None:
    discord, call = make()
    thread = call.post_open()
    assert call.say(thread, "a", alowed_mentions=QUIET, nonce="1", enforce_nonce=True).status == 200
    assert discord.problems() == [
        "create_message: field 'alowed_mentions' is not in the document; Discord ignores it"
    ]
    _strict, call = make(refuse_unknown_fields=True)
    assert call.say(call.post_open(), "a", alowed_mentions=QUIET).code == 50035
