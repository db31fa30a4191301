"""What is kept of a conversation and of a channel, and what follows from a channel's answer."""

from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.channels.port import ChannelVerdict, File, Incoming, Part
from vyane_cli.conversations.state_rules import (
    NEXT,
    SEEN_MAX,
    ChannelState,
    MirrorFault,
    MirrorStep,
    PendingPart,
    Slot,
    ThreadState,
    parse_channel,
    parse_thread,
    remember,
    render_channel,
    render_thread,
)


def test_every_verdict_has_its_step_and_every_step_its_verdict() -> None:
    assert set(NEXT) == set(ChannelVerdict)
    assert set(NEXT.values()) == set(MirrorStep)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
parts = st.builds(
    Part, words, st.lists(st.builds(File, words, words), max_size=2).map(tuple), st.booleans(),
    st.lists(words, max_size=2).map(tuple),
)  # fmt: skip
states = st.builds(
    ThreadState, words, words, cursor=words, started=st.booleans(), heard=st.just({}),
    outbox=st.lists(
        st.builds(PendingPart, words, parts, words, st.booleans()), max_size=3
    ).map(tuple),
    slots=st.dictionaries(words, st.builds(Slot, words, words), max_size=2),
    fault=st.none() | st.builds(MirrorFault, words, words),
    seen=st.dictionaries(words, words, max_size=3),
    intake=st.lists(st.builds(Incoming, words, words, words, words), max_size=2).map(tuple),
    final_children=st.lists(words, max_size=2).map(tuple),
)  # fmt: skip


@given(states)
def test_the_state_of_a_conversation_comes_back_as_it_was_stored(state) -> None:
    assert parse_thread(render_thread(state)) == state


channels = st.builds(
    ChannelState, st.floats(0, 1e9), st.none() | st.builds(MirrorFault, words), words,
    opening=st.just(("vs-1",)), memory=st.just({"limits": {"a": [1]}}),
    fallbacks=st.just({"no-active-binding": 2}), strangers=st.just({"eve": 1}),
)  # fmt: skip


@given(channels)
def test_the_state_of_a_channel_comes_back_as_it_was_stored(state) -> None:
    assert parse_channel(render_channel(state)) == state


def test_the_newest_messages_are_known_and_the_oldest_forgotten() -> None:
    seen: dict[str, str] = {}
    for number in range(SEEN_MAX + 5):
        seen = remember(seen, str(number), "d")
    seen = remember(seen, "5", "e")

    assert len(seen) == SEEN_MAX
    assert list(seen)[-1] == "5"
    assert "4" not in seen
