"""Which place is whose in Discord: binding, binding again, giving a place away, ending one."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.discord.mockcord import MockDiscord
from tests.discord.sessions import Mirrored, mirrored
from vyane_cli.channels.port import Conversation
from vyane_cli.conversations import bindings, channels, state
from vyane_cli.conversations.bind import RequestedBinding, bind, sweep
from vyane_cli.conversations.binding import Binding
from vyane_cli.conversations.bindings import unbind
from vyane_cli.errors import RefusedError
from vyane_cli.sessions import registry


@pytest.fixture
def one(discord: MockDiscord, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirrored]:
    with mirrored(discord) as session:
        monkeypatch.setattr(channels, "time", SimpleNamespace(sleep=session.pass_s))
        yield session
    discord.assert_clean()


def bound(one: Mirrored, who: str = "", where: str = "", **more: float) -> Binding:
    one.world.environ = one.environ
    place = Conversation("discord", "default", where)
    return bind(one.world, RequestedBinding(who or one.host.worker, place, **more))


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
    bind(one.world, RequestedBinding(one.host.worker, Conversation("discord", "default", thread)))
    one.pass_s(5)
    one.say("after")
    one.pull()

    assert one.words() == ["after"]


def test_binding_again_while_a_push_runs_repeats_nothing(
    one: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The push comes between the two looks that a bind takes at what stands there."""
    from vyane_cli.conversations import open

    started(one)
    thread = one.thread()
    unbind(one.world, session=one.host.worker, reason="done")
    one.push()
    one.turn("one")
    begin = open.begin

    def late(*given: object) -> None:
        monkeypatch.setattr(open, "begin", begin)
        one.push()
        one.turn("two")
        one.push()
        begin(*given)

    monkeypatch.setattr(open, "begin", late)
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
    now = bindings.load(one.world.layout)[place.id]

    assert (now.target_session, now.bound_by) == (logical(one, new), place.bound_by)
    assert now.earlier_sessions == (one.host.logical,)
    assert len(one.server.threads()) == 1


def test_a_place_that_is_given_away_during_a_push_is_not_taken_back(
    one: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vyane_cli.conversations import open, push

    new = one.world.register("new")
    opened, record = open.open_session, []

    def late(run, session, *given, **more):
        outcome = opened(run, session, *given, **more)
        if session.id == one.host.logical:
            where = outcome[0].conversation
            wanted = RequestedBinding(new, where)
            monkeypatch.setattr("vyane_cli.conversations.open.Run", _Busy)
            record.append(bind(one.world, wanted))
            monkeypatch.undo()
        return outcome

    monkeypatch.setattr(push, "open_session", late)
    monkeypatch.setattr("vyane_cli.conversations.open.begin", lambda *given: None)
    one.configure(sessions="all")
    one.turn("start")
    one.push()
    now = bindings.load(one.world.layout)[record[0].id]

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
    before = bindings.load(one.world.layout)
    for where in (str(one.server.forum.id), "123456789012345678", "abc"):
        with pytest.raises(RefusedError) as refused:
            bound(one, who=other, where=where)
        assert refused.value.slug == "create_failed"
    assert bindings.load(one.world.layout) == before
    one.turn("on")
    one.say("hello")

    assert one.push().state == "ok"
    assert one.pull().state == "ok"
    assert (one.texts(), one.words()) == (["✅ start", "✅ on"], ["hello"])


def test_a_forum_that_was_bound_before_holds_up_itself_alone(
    one: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(one)
    other = one.world.register("other")
    with monkeypatch.context() as patched:
        patched.setattr("vyane_cli.conversations.open.Run", _Busy)
        bound(one, who=other, where=str(one.server.forum.id))
    one.turn("on")
    one.say("hello")

    assert (one.push().state, one.pull().state) == ("ok", "ok")
    assert (one.texts(), one.words()) == (["✅ start", "✅ on"], ["hello"])


# ------------------------------------------------------------------ where a result goes


def results(one: Mirrored, text: str) -> list[str]:
    """Every post, wherever it is, that says it."""
    places = [str(thread["id"]) for thread in one.server.threads()] + [str(one.server.text.id)]
    said = [m["content"] for place in places for m in one.server.visible(place)]
    return [content for content in said if text in content]


@pytest.mark.parametrize("order", ["child first", "parent first"])
def test_a_result_shows_in_the_child_s_place_whichever_is_older(one: Mirrored, order: str) -> None:
    one.configure(sessions="bound")
    kid = one.child()
    for who in (kid, one.host.worker)[:: 1 if order == "child first" else -1]:
        bound(one, who=who)
        one.pass_s(2)
    one.push()
    one.settle(kid, "RESULT")
    one.push()
    one.push()

    assert results(one, "RESULT") == ["✅ **Result**\nRESULT"]


def test_a_result_that_was_shown_is_not_shown_again_by_a_parent_that_was_held_up(
    one: Mirrored,
) -> None:
    started(one)
    kid = one.child()
    one.push()
    one.server.act("lock", thread=one.thread())
    one.turn("while locked")
    one.push()
    one.settle(kid, "RESULT")
    one.push()
    one.server.act("unlock", thread=one.thread())
    one.push(again=True)
    one.push()

    assert results(one, "RESULT") == ["✅ **Result**\nRESULT"]
    assert describe_fallbacks(one) == {}


def test_of_two_places_of_a_child_one_gets_the_result(one: Mirrored) -> None:
    one.configure(sessions="bound")
    kid = one.child()
    bound(one)
    bound(one, who=kid)
    bound(one, who=kid, where=str(one.server.text.id))
    one.push()
    one.settle(kid, "RESULT")
    one.push()
    one.push()

    assert results(one, "RESULT") == ["✅ **Result**\nRESULT"]


def test_the_result_of_a_child_whose_place_is_over_goes_to_its_parent_s(one: Mirrored) -> None:
    started(one)
    kid = one.child()
    bound(one, who=kid, idle_s=60.0)
    one.push()
    one.pass_s(100)
    one.settle(kid, "RESULT")
    one.push()
    one.push()

    assert results(one, "RESULT") == ["✅ **kid**: RESULT"]
    assert describe_fallbacks(one) == {"no-active-binding": 1}


def describe_fallbacks(one: Mirrored) -> dict[str, int]:
    return dict(state.load_channel(one.world.layout, "discord", "default").fallbacks)


# ------------------------------------------------------------------ what a place is called


def test_a_spawned_child_s_place_says_what_it_was_asked(one: Mirrored) -> None:
    started(one)
    child = one.spawn("check CSRF\n\nin every form")
    one.push()
    (thread,) = [t for t in one.server.threads() if t["id"] == one.thread(child)]
    first = one.server.visible(one.thread(child))[0]["content"]

    assert thread["name"].endswith("[project]: check CSRF")
    assert "check CSRF" in first
    assert "task-dispatch" not in first + thread["name"]


@pytest.mark.parametrize("by_hand", [True, False], ids=["bind", "mirror"])
def test_first_words_that_do_not_fit_into_one_post_are_all_there(
    one: Mirrored, by_hand: bool
) -> None:
    workers = registry.Registry(one.world.layout)
    folder = "/".join(["", *(f"folder{number}" for number in range(300))])
    workers.put(workers.workers[one.host.worker]._replace(cwd=folder))
    workers.save()
    if by_hand:
        bound(one)
    one.push()
    one.push()
    (thread,) = one.server.threads()
    said = "".join(m["content"] for m in one.server.visible(thread["id"]))

    assert [said.count(f"/folder{number}/") for number in range(299)] == [1] * 299
    assert said.count("`/help` lists") == 1


# ------------------------------------------------------------------ the end of a place


@pytest.mark.parametrize("windows", [{"ttl_s": 60.0}, {"idle_s": 60.0}], ids=["age", "idle"])
@pytest.mark.parametrize("pulled", [True, False], ids=["pull first", "push"])
def test_a_place_whose_time_is_over_gets_its_farewell_and_nothing_more(
    one: Mirrored, windows: dict[str, float], pulled: bool
) -> None:
    bound(one, **windows)
    started(one)
    one.pass_s(100)
    one.say("anyone?")
    if pulled:
        one.pull()
    one.push()
    one.turn("after the end")
    one.push()
    (binding,) = bindings.load(one.world.layout).values()

    first, last = one.texts()
    assert (first, "this" in last.lower(), binding.status) == ("✅ start", True, "ended")
    assert one.words() == []


def notes(one: Mirrored, worker: str) -> list[str]:
    """What vyane itself told a session."""
    return [
        str(entry.message.payload["text"])
        for entry in one.world.inbox(worker).mailbox.entries
        if entry.message.from_id == "vyane"
    ]


@pytest.mark.parametrize("how", ["push", "pull", "sweep"])
def test_of_a_deleted_place_the_lead_is_told_once(one: Mirrored, how: str) -> None:
    kid = one.child()
    one.push()
    one.server.act("delete_channel", channel=one.thread(kid))
    for _ in range(10):
        one.host.world.send(kid, "x")
        if how == "push":
            one.settle(kid, "done") if not notes(one, one.host.worker) else None
            one.push()
        elif how == "pull":
            one.pull()
        else:
            one.world.environ = one.environ
            sweep(one.world, one.world.clock(), probe=True)
    gone = [r for r in one.server.requests if r.get("code") == 10003]

    (note,) = notes(one, one.host.worker)
    assert "kid" in note
    assert "vyane bind kid --channel discord" in note
    assert notes(one, kid) == []
    assert len(gone) == 1


def test_a_lead_whose_own_place_is_deleted_is_told_itself(one: Mirrored) -> None:
    one.turn("one")
    one.push()
    one.server.act("delete_channel", channel=one.thread())
    one.turn("two")
    one.push()

    assert len(notes(one, one.host.worker)) == 1


def test_nobody_is_told_of_a_place_that_is_made_anew(one: Mirrored) -> None:
    one.configure(recreate=True)
    one.turn("one")
    one.push()
    one.server.act("delete_channel", channel=one.thread())
    one.turn("two")
    one.push()
    one.push()

    assert notes(one, one.host.worker) == []
    assert "✅ two" in one.texts()


@pytest.mark.parametrize("enabled", [True, False])
def test_a_child_of_a_bound_session_gets_a_post_beside_it_only_if_the_settings_say_so(
    discord: MockDiscord, enabled: bool
) -> None:
    """The first binding is left alone in any case; without a place the result goes to its own."""
    with mirrored(discord, f"[bindings]\nspawn_child = {str(enabled).lower()}") as one:
        one.configure(sessions="bound")
        first = bound(one)
        kid = one.child()
        one.push()
        one.settle(kid, "all is well")
        one.push()
        found = {b.target_session: b for b in bindings.load(one.world.layout).values()}
        shown = "\n".join(one.texts())

        assert found[one.host.logical].generation == first.generation
        assert (logical(one, kid) in found) is enabled
        assert ("✅ **kid**: all is well" in shown) is not enabled
        if enabled:
            assert found[logical(one, kid)].conversation.parent == first.conversation.parent
            assert one.texts(kid)[-1] == "✅ **Result**\nall is well"
    discord.assert_clean()
