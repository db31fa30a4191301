"""The router: every reason by name, and never a place that was not chosen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.channels.port import Conversation, binding_id
from vyane_cli.conversations.binding import Binding, BindingStatus, TargetKind
from vyane_cli.conversations.route_rules import Destination, Reason, RouteMode, check_event, route
from vyane_cli.errors import InvalidInputError

BOUND = {Reason.REQUESTER_MATCH, Reason.SINGLE, Reason.SINGLE_FALLBACK}
SESSION, OTHER = "vs-0123456789ab", "vs-ba9876543210"


def place(where: str, channel: str = "chat", account: str = "default") -> Conversation:
    return Conversation(channel, account, where, "main")


def bound(where: str, session: str = SESSION, **changes) -> Binding:
    conversation = changes.pop("conversation", place(where))
    made = Binding(binding_id(conversation), session, TargetKind.SUBAGENT, conversation)
    return made._replace(**changes)


def decide(bindings, requester=None, session: str = SESSION, **more) -> tuple[RouteMode, Reason]:
    found = route(bindings, session, requester, 100.0, **more)
    return found.mode, found.reason


ONE, TWO = [bound("t1")], [bound("t1"), bound("t2")]
B, F = RouteMode.BOUND, RouteMode.FALLBACK


@pytest.mark.parametrize(
    "bindings, requester, fail_closed, expected",
    [
        ([], place("t1"), True, (F, Reason.NO_BINDING)),
        (ONE, None, True, (F, Reason.MISSING_REQUESTER)),
        (ONE, None, False, (B, Reason.SINGLE)),
        (TWO, None, False, (F, Reason.AMBIGUOUS)),
        (ONE, place(""), True, (F, Reason.INVALID_REQUESTER)),
        (ONE, Conversation("", "", "t1"), True, (F, Reason.INVALID_REQUESTER)),
        (ONE, place("t1"), True, (B, Reason.REQUESTER_MATCH)),
        (ONE, place("main"), True, (B, Reason.REQUESTER_MATCH)),
        (TWO, place("t2"), True, (B, Reason.REQUESTER_MATCH)),
        (TWO, place("main"), True, (F, Reason.NO_MATCH)),
        (ONE, place("t1", "mail"), True, (F, Reason.NO_MATCH)),
        (ONE, place("t1", "mail"), False, (B, Reason.SINGLE_FALLBACK)),
        (TWO, place("t1", "mail"), False, (F, Reason.NO_MATCH)),
        (ONE, place("t1", account="work"), True, (F, Reason.NO_MATCH)),
        (ONE, Conversation("Chat ", "DEFAULT", " t1 "), True, (B, Reason.REQUESTER_MATCH)),
    ],
)
def test_each_case_has_its_reason(bindings, requester, fail_closed, expected) -> None:
    assert decide(bindings, requester, fail_closed=fail_closed) == expected


def test_no_session_is_a_fallback_of_its_own() -> None:
    assert decide(ONE, place("t1"), session=" ") == (F, Reason.MISSING_TARGET)


@pytest.mark.parametrize(
    "gone",
    [bound("t1", status=BindingStatus.ENDED), bound("t1", status=BindingStatus.ENDING),
     bound("t1", bound_at=0.0, max_age_s=50.0), bound("t1", OTHER)],
)  # fmt: skip
def test_what_has_ended_expired_or_speaks_to_another_is_no_candidate(gone) -> None:
    assert decide([gone], place("t1")) == (F, Reason.NO_BINDING)
    assert decide([gone, bound("t2")], place("main")) == (B, Reason.REQUESTER_MATCH)


def test_two_children_in_one_channel_each_have_their_own_thread() -> None:
    both = [bound("t1", SESSION), bound("t2", OTHER)]
    one = route(both, SESSION, place("main"), 0.0)
    two = route(both, OTHER, place("main"), 0.0)

    assert one.binding is not None
    assert two.binding is not None
    assert [one.binding.conversation.id, two.binding.conversation.id] == ["t1", "t2"]


def test_only_the_end_of_a_task_is_routed() -> None:
    assert check_event("task_completion")
    with pytest.raises(InvalidInputError) as refused:
        check_event("status_update")

    assert refused.value.slug == "event_kind_unsupported"


@given(
    st.lists(
        st.builds(bound, st.sampled_from("abc"), st.sampled_from([SESSION, OTHER])), max_size=4
    ),
    st.none()
    | st.builds(place, st.sampled_from(["a", "b", "main", ""]), st.sampled_from(["chat", "x", ""])),
    st.booleans(),
)
def test_it_never_raises_and_binds_if_and_only_if_its_reason_says_so(found, asked, closed) -> None:
    decided: Destination = route(found, SESSION, asked, 0.0, fail_closed=closed)

    assert (decided.binding is not None) == (decided.mode is RouteMode.BOUND)
    assert (decided.reason in BOUND) == (decided.mode is RouteMode.BOUND)
    if decided.binding is not None:
        assert decided.binding.target_session == SESSION
    if decided.mode is RouteMode.BOUND and closed:
        assert decided.reason is Reason.REQUESTER_MATCH
