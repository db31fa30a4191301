"""The rules of bindings: who is bound where, for how long, and what a change leaves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.channels.port import Conversation, binding_id, normalise
from vyane_cli.conversations import binding
from vyane_cli.conversations.binding import (
    TRANSITIONS,
    Binding,
    BindingStatus,
    EndReason,
    TargetKind,
    check_metadata,
    duration_label,
    end,
    farewell,
    parse_binding,
    parse_target_kind,
    rebind,
    render_binding,
    set_windows,
    thread_name,
    touch,
)
from vyane_cli.errors import ConflictError, InvalidInputError

PLACE = Conversation("file", "default", "thread-1", "folder")


def bound(**changes) -> Binding:
    made = Binding(
        binding_id(PLACE), "vs-0123456789ab", TargetKind.SESSION, PLACE, bound_at=0.0,
        generation="g1",
    )  # fmt: skip
    return made._replace(**changes)


def test_a_conversation_is_never_its_own_parent() -> None:
    assert normalise(Conversation("file", "default", "x", "x")).parent == ""
    row = render_binding(bound(conversation=Conversation("file", "default", "x", "x")))
    repaired = parse_binding(row)

    assert repaired is not None
    assert repaired.conversation.parent == ""
    assert repaired.id == binding_id(Conversation("file", "default", "x"))


@pytest.mark.parametrize(
    "idle, age, deadline, touched, expected",
    [(60, 100, None, 50, 100), (60, 200, None, 50, 110), (0, 100, None, 50, 100),
     (0, 0, None, 50, None), (60, 0, 70.0, 50, 70), (60, 0, 700.0, 50, 110)],
)  # fmt: skip
def test_it_ends_at_the_earliest_of_its_ends(idle, age, deadline, touched, expected) -> None:
    binding = touch(bound(idle_timeout_s=idle, max_age_s=age, deadline_at=deadline), touched)

    assert binding.expires_at == expected
    if expected is not None:
        assert not binding.is_expired(expected - 1)
        assert binding.is_expired(expected)


def test_the_reason_is_the_end_that_came_first() -> None:
    assert bound(idle_timeout_s=5, max_age_s=9).expiry_reason(6) is EndReason.IDLE
    assert bound(idle_timeout_s=9, max_age_s=5).expiry_reason(6) is EndReason.AGE
    assert bound(idle_timeout_s=9, max_age_s=5).expiry_reason(4) is None


@given(st.lists(st.floats(0, 1e9)))
def test_activity_never_goes_back(times) -> None:
    binding = bound()
    for at in times:
        binding = touch(binding, at)

    assert binding.last_activity_at == max([0.0, *times])


def test_another_idle_time_begins_now_and_another_age_begins_the_binding_anew() -> None:
    idle = set_windows(bound(), 50.0, idle_s=10)
    age = set_windows(bound(), 50.0, max_age_s=10)

    assert (idle.last_activity_at, idle.bound_at, idle.expires_at) == (50, 0, 60)
    assert (age.last_activity_at, age.bound_at, age.expires_at) == (50, 50, 60)


def test_rebinding_to_the_same_session_keeps_its_metadata_and_to_another_drops_it() -> None:
    before = bound(metadata={"a": 1, "b": 1})
    fresh = bound(metadata={"b": 2}, generation="g2")
    other = fresh._replace(target_session="vs-ba9876543210")

    assert rebind(before, fresh).metadata == {"a": 1, "b": 2}
    assert rebind(before, fresh).generation == "g2"
    assert rebind(before, other).metadata == {"b": 2}


def test_a_place_is_a_session_s_without_a_break_while_it_is_bound_anew_in_time() -> None:
    open_now = bound(open_since=5.0, bound_at=10.0, last_activity_at=10.0, idle_timeout_s=100.0)
    fresh = bound(bound_at=50.0, generation="g2")
    late = bound(bound_at=500.0, generation="g2")
    ended = end(open_now, BindingStatus.ENDED, "done", 20.0)
    other = fresh._replace(target_session="vs-ba9876543210")

    assert rebind(open_now, fresh).open_since == 5.0
    assert rebind(None, fresh).open_since == 50.0
    assert rebind(ended, fresh).open_since == 50.0
    assert rebind(open_now, other).open_since == 50.0
    assert rebind(open_now, late).open_since == 500.0


def test_a_record_knows_whose_place_it_was_before() -> None:
    first = rebind(None, bound())
    second = rebind(first, bound(target_session="vs-ba9876543210"))
    third = rebind(second, bound(target_session="vs-aaaaaaaaaaaa"))
    back = rebind(third, bound())

    assert first.earlier_sessions == ()
    assert second.earlier_sessions == (first.target_session,)
    assert third.earlier_sessions == (first.target_session, second.target_session)
    assert back.earlier_sessions == (second.target_session, third.target_session)
    assert parse_binding(render_binding(back)) == back


def test_each_status_has_its_row_and_ended_is_final() -> None:
    assert set(TRANSITIONS) == set(BindingStatus)
    assert not TRANSITIONS[BindingStatus.ENDED]
    ended = end(bound(), BindingStatus.ENDING, "enough", 5.0)
    ended = end(ended, BindingStatus.ENDED, "something else", 9.0)

    assert (ended.end_reason, ended.ended_at) == ("enough", 5.0)
    with pytest.raises(ConflictError):
        end(ended, BindingStatus.ENDED, "again", 10.0)


def test_a_kind_that_is_deferred_says_so() -> None:
    with pytest.raises(InvalidInputError) as refused:
        parse_target_kind("acp")

    assert refused.value.slug == "target_kind_deferred"
    assert parse_target_kind("subagent") is TargetKind.SUBAGENT


@pytest.mark.parametrize(
    "metadata",
    [{"token": "x"}, {"a": {"apiKey": "x"}}, {"a": ["Bearer abcdefghijkl"]},
     {"hook": "https://example.org/api/webhooks/12/abcdefghijklmnopqrstuvwx"},
     {"a": "ghp_0123456789abcdef01"}],
)  # fmt: skip
def test_a_secret_in_metadata_is_refused_and_not_repeated(metadata) -> None:
    with pytest.raises(InvalidInputError) as refused:
        check_metadata(metadata)

    assert refused.value.slug == "secret_in_metadata"
    assert "abcdef" not in refused.value.message


def test_the_name_of_a_secret_s_place_is_metadata() -> None:
    kept = {"token_env": "BOT_TOKEN", "secret_ref": "keyring", "webhook_id": "12", "token": ""}

    assert check_metadata(kept) == kept


@given(
    st.builds(
        bound,
        idle_timeout_s=st.floats(0, 1e6),
        max_age_s=st.floats(0, 1e6),
        deadline_at=st.none() | st.floats(0, 1e9),
        metadata=st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
        status=st.sampled_from(BindingStatus),
        locked=st.booleans(),
        end_reason=st.text(max_size=9),
        unknown=st.just({"later": [1]}),
    )
)
def test_a_record_comes_back_as_it_was_stored(binding) -> None:
    assert parse_binding(render_binding(binding)) == binding


@pytest.mark.parametrize(
    "row", [None, [], {}, {"target_session_key": "vs-1"},
            {"conversation": {"channel": "a", "conversation_id": "1"}},
            {"target_session_key": "vs-1", "conversation": {"channel": "a"}}]
)  # fmt: skip
def test_a_row_without_a_session_or_a_conversation_is_dropped(row) -> None:
    assert parse_binding(row) is None


def test_an_old_row_with_one_absolute_expiry_becomes_one_with_a_greatest_age() -> None:
    row = {"target_session_key": "vs-1", "bound_at": 100, "expires_at": 160,
           "conversation": {"channel": "a", "conversation_id": "1"}}  # fmt: skip
    old, never = parse_binding(row), parse_binding({**row, "expires_at": 0})

    assert old is not None
    assert never is not None
    assert (old.max_age_s, old.idle_timeout_s, old.last_activity_at) == (60, 0, 100)
    assert (old.bound_by, old.expires_at, never.expires_at) == ("system", 160, None)


@pytest.mark.parametrize(
    "seconds, label", [(0, "disabled"), (59, "<1m"), (60, "1m"), (5400, "90m"), (7200, "2h")]
)
def test_durations_are_said_in_one_unit(seconds, label) -> None:
    assert duration_label(seconds) == label


def test_the_farewell_names_the_time_and_a_custom_one_wins() -> None:
    idle = bound(idle_timeout_s=7200, end_reason=str(EndReason.IDLE))

    assert "2h" in farewell(idle)
    assert "5m" in farewell(bound(max_age_s=300, end_reason=str(EndReason.AGE)))
    assert farewell(idle._replace(metadata={"farewell": " bye "})) == "bye"
    assert farewell(bound(end_reason="unbound by hand"))
    assert farewell(bound(end_reason=str(EndReason.GONE))) == ""


def test_a_thread_s_name_is_one_mark_and_one_line_of_at_most_100_characters() -> None:
    assert thread_name(" a \n b ", mark="⏳") == "⏳ a b"
    assert thread_name("", "claude") == "claude"
    assert thread_name("", "") == "agent"
    assert len(thread_name("x" * 300, mark="💤")) == 100


def test_a_list_by_session_matches_the_whole_key_alone() -> None:
    assert binding.of_session([bound()], "vs-0123456789ab") == [bound()]
    assert binding.of_session([bound()], "vs-012345") == []
