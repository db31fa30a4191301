"""What is sent to a channel itself: shown there once, in a conversation of its own, and settled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.operations.faults import ENDLESS, stopped_at
from tests.operations.mirrored import ME, folder, no_channel_fault, said, set_up, turn, write
from tests.simulated import Host, machine
from vyane_cli.channels.file import adapter
from vyane_cli.channels.port import Conversation
from vyane_cli.conversations.bind import RequestedBinding, bind
from vyane_cli.conversations.pull import pull
from vyane_cli.conversations.push import push
from vyane_cli.conversations.status import describe_mirror
from vyane_cli.errors import NotFoundError
from vyane_cli.sessions.speaker import Speaker


@pytest.fixture
def one(host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch) -> Host:
    """Mirrored to a folder."""
    monkeypatch.setattr(adapter, "_owner", lambda path: ME)
    return set_up(host())


def board(host: Host) -> Path:
    (path,) = folder(host).glob("*channel-file*.md")
    return path


def test_it_shows_once_in_a_conversation_of_its_own_and_is_settled(one: Host) -> None:
    turn(one, "a turn")
    sent = one.world.send("channel:file", "version 1.2 is out\n@everyone `x`")
    waiting = one.world.status(sent)
    push(one.world)
    push(one.world)

    assert (waiting, one.world.status(sent)) == ("pending", "consumed")
    assert said(board(one)) == ["**ann**: version 1.2 is out\n@everyone `x`"]
    assert one.world.rules(sent)[1:] == ["delivered:channel", "consumed:"]


def test_no_worker_gets_it_and_what_is_written_below_it_reaches_nobody(one: Host) -> None:
    one.world.send("channel:file", "version 1.2 is out")
    push(one.world)
    write(board(one), "thank you")
    reports = pull(one.world)
    turn(one, "done")

    assert reports[0].taken == 0
    assert one.world.inbox(one.worker).mailbox.entries == ()
    assert "reaches nobody" in board(one).read_text()


def test_later_ones_stand_below_it_in_order(one: Host) -> None:
    for number in range(3):
        one.world.send("channel:file", f"number {number}")
        if number:
            push(one.world)

    assert [text.split(": ")[1] for text in said(board(one))] == [
        "number 0",
        "number 1",
        "number 2",
    ]


def test_a_channel_that_is_not_set_up_is_not_found_and_nothing_is_stored(one: Host) -> None:
    for name in ("deploy", "discord"):
        with pytest.raises(NotFoundError, match=name):
            one.world.send(f"channel:{name}", "hi")

    assert not list(Path(one.home, "messages", "inbox").glob("channel-*"))


def test_where_it_was_deleted_it_waits_and_the_next_step_makes_another(one: Host) -> None:
    one.world.send("channel:file", "first")
    push(one.world)
    board(one).unlink()
    sent = one.world.send("channel:file", "second")
    (lost,) = push(one.world)
    (again,) = push(one.world)
    held = one.world.status(sent)
    push(one.world, again=True)

    assert [lost.problems[0].code, again.problems[0].code] == ["unknown-thread"] * 2
    assert (held, one.world.status(sent)) == ("pending", "consumed")
    assert said(board(one)) == ["**ann**: second"]


def test_a_locked_one_is_left_alone_until_it_is_tried_again(one: Host) -> None:
    one.world.send("channel:file", "first")
    push(one.world)
    board(one).chmod(0o400)
    sent = one.world.send("channel:file", "second")
    push(one.world)
    board(one).chmod(0o600)
    push(one.world)
    held = one.world.status(sent)
    push(one.world, again=True)

    assert (held, one.world.status(sent)) == ("pending", "consumed")


def test_status_says_that_it_waits(one: Host) -> None:
    one.world.send("channel:file", "first")
    push(one.world)
    one.world.send("channel:file", "second")
    rows = {row.session: row for row in describe_mirror(one.world)[0].threads}

    assert rows["channel:file"].waiting == 1
    assert rows["channel:file"].state == "active"


def test_a_person_may_give_the_place_to_a_session(one: Host) -> None:
    one.world.send("channel:file", "first")
    push(one.world)
    place = Conversation("file", "default", board(one).stem)
    bind(one.world, RequestedBinding(one.worker, place))
    sent = one.world.send("channel:file", "second")
    turn(one, "a turn")
    push(one.world)

    assert one.world.status(sent) == "consumed"
    assert said(board(one)).count("**ann**: second") == 1


def test_what_an_agent_sends_holds_no_secret(one: Host) -> None:
    agent = Speaker(one.world.send.__defaults__[1].kind, "bob", "b*b")  # type: ignore[index]
    one.world.send("channel:file", "my key: ghp_0123456789abcdefghij", agent)
    push(one.world)

    assert said(board(one)) == ["**b*b**: my key: •••"]


def test_killed_at_any_step_each_shows_once_and_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(1, ENDLESS):
        with machine() as host:
            one = set_up(host())
            push(one.world)
            ids = [one.world.send("channel:file", text) for text in ("first", "second")]
            no_channel_fault(monkeypatch)
            ended = stopped_at(k, lambda say, world=one.world: push(world) and None)
            monkeypatch.undo()
            push(one.world)
            push(one.world)

            assert said(board(one)) == ["**ann**: first", "**ann**: second"], ended.at
            assert [one.world.status(ident) for ident in ids] == ["consumed"] * 2, ended.at
            if ended.finished:
                break
    assert k > 10
