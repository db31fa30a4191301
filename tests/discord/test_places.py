"""Which place is whose in Discord: binding, binding again, giving a place away, ending one."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.discord.mockcord import MockDiscord
from tests.discord.sessions import Mirrored, mirrored
from vyane_cli.core.bindings import Binding
from vyane_cli.core.conversations import Conversation
from vyane_cli.errors import RefusedError
from vyane_cli.operations import channels
from vyane_cli.operations.bindings import Wanted, bind, unbind
from vyane_cli.store import bindings as book
from vyane_cli.store import registry


@pytest.fixture
def one(discord: MockDiscord, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirrored]:
    with mirrored(discord) as session:
        monkeypatch.setattr(channels, "time", SimpleNamespace(sleep=session.pass_s))
        yield session
    discord.assert_clean()


def bound(one: Mirrored, who: str = "", where: str = "", **more: float) -> Binding:
    one.world.environ = one.environ
    place = Conversation("discord", "default", where)
    return bind(one.world, Wanted(who or one.host.worker, place, **more))


def started(one: Mirrored) -> None:
    one.turn("start")
    one.push()


def logical(one: Mirrored, worker: str) -> str:
    return registry.Registry(one.world.layout).workers[worker].logical_session_id


# ------------------------------------------------------------------ binding again


@pytest.mark.parametrize("read_before", [True, False])
def test_binding_an_open_place_again_loses_no_words(one: Mirrored, read_before: bool) -> None:
    started(one)
    if read_before:
        one.pull()
    one.pass_s(5)
    one.say("please do it")
    one.pass_s(5)
    bound(one, where=one.thread(), idle_s=3600.0)
    one.pull()

    assert one.words() == ["please do it"]


@pytest.mark.parametrize("given", [True, False], ids=["current", "child"])
def test_what_was_written_while_a_place_was_unbound_is_for_nobody(
    one: Mirrored, given: bool
) -> None:
    one.configure(sessions="bound")
    bound(one)
    started(one)
    one.say("before")
    one.pull()
    unbind(one.world, session=one.host.worker, reason="done")
    one.push()
    one.pass_s(700)
    one.say("meanwhile")
    one.pass_s(700)
    bound(one, where=one.thread() if given else "")
    one.pass_s(5)
    one.say("after")
    one.pull()

    assert one.words() == ["before", "after"]


def test_what_was_written_while_a_place_was_unbound_stays_out_though_nobody_could_ask(
    one: Mirrored,
) -> None:
    started(one)
    one.pull()
    thread = one.thread()
    unbind(one.world, session=one.host.worker, reason="done")
    one.say("meanwhile")
    one.pass_s(700)
    one.world.environ = {}  # a shell without the token
    bind(one.world, Wanted(one.host.worker, Conversation("discord", "default", thread)))
    one.pass_s(5)
    one.say("after")
    one.pull()

    assert one.words() == ["after"]


def test_binding_again_while_a_push_runs_repeats_nothing(
    one: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The push comes between the two looks that a bind takes at what stands there."""
    from vyane_cli.operations import opening

    started(one)
    thread = one.thread()
    unbind(one.world, session=one.host.worker, reason="done")
    one.push()
    one.turn("one")
    begin = opening.begin

    def late(*given: object) -> None:
        monkeypatch.setattr(opening, "begin", begin)
        one.push()
        one.turn("two")
        one.push()
        begin(*given)

    monkeypatch.setattr(opening, "begin", late)
    bound(one, where=thread)
    one.push()

    assert [text for text in one.texts() if "session's place" not in text] == [
        "✅ start", "✅ one", "✅ two",
    ]  # fmt: skip


# ------------------------------------------------------------------ whose place it is


def test_a_place_that_was_given_to_another_session_is_not_taken_back(one: Mirrored) -> None:
    started(one)
    new = one.world.register("new")
    place = bound(one, who=new, where=one.thread())
    one.push()
    one.push()
    now = book.load(one.world.layout)[place.id]

    assert (now.target_session, now.bound_by) == (logical(one, new), place.bound_by)
    assert now.earlier_sessions == (one.host.logical,)
    assert len(one.server.threads()) == 1


def test_a_place_that_is_given_away_during_a_push_is_not_taken_back(
    one: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vyane_cli.operations import mirror_push

    new = one.world.register("new")
    opened, record = mirror_push.open_session, []

    def late(run, session, *given, **more):
        outcome = opened(run, session, *given, **more)
        if session.id == one.host.logical:
            where = outcome.conversation
            wanted = Wanted(new, where)
            monkeypatch.setattr("vyane_cli.operations.opening.Run", _Busy)
            record.append(bind(one.world, wanted))
            monkeypatch.undo()
        return outcome

    monkeypatch.setattr(mirror_push, "open_session", late)
    monkeypatch.setattr("vyane_cli.operations.opening.begin", lambda *given: None)
    one.configure(sessions="all")
    one.turn("start")
    one.push()
    now = book.load(one.world.layout)[record[0].id]

    assert now.target_session == logical(one, new)


class _Busy:
    """A channel that is at work: a bind does not wait for it in a test."""

    def __init__(self, *given: object) -> None:
        from vyane_cli.errors import LockTimeoutError

        raise LockTimeoutError("mirror", 0.0)


# ------------------------------------------------------------------ what is no place


def test_the_forum_itself_is_no_place_and_nothing_else_stops_for_it(one: Mirrored) -> None:
    started(one)
    other = one.world.register("other")
    before = book.load(one.world.layout)
    for where in (str(one.server.forum.id), "123456789012345678", "abc"):
        with pytest.raises(RefusedError) as refused:
            bound(one, who=other, where=where)
        assert refused.value.slug == "create_failed"
    assert book.load(one.world.layout) == before
    one.turn("on")
    one.say("hello")

    assert one.push()["state"] == "ok"
    assert one.pull()["state"] == "ok"
    assert (one.texts(), one.words()) == (["✅ start", "✅ on"], ["hello"])


def test_a_forum_that_was_bound_before_holds_up_itself_alone(
    one: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(one)
    other = one.world.register("other")
    with monkeypatch.context() as patched:
        patched.setattr("vyane_cli.operations.opening.Run", _Busy)
        bound(one, who=other, where=str(one.server.forum.id))
    one.turn("on")
    one.say("hello")

    assert (one.push()["state"], one.pull()["state"]) == ("ok", "ok")
    assert (one.texts(), one.words()) == (["✅ start", "✅ on"], ["hello"])
