"""The fold of an inbox: total, repeatable, and final states are final."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.scripted import message
from vyane_cli.mail.mailbox import (
    FINAL,
    NEXT,
    Handshake,
    HandshakeStage,
    Head,
    Mailbox,
    MailEntry,
    Op,
    advance,
    fold,
    parse_head,
    parse_message,
    render_entry,
    render_head,
    render_message,
)
from vyane_cli.mail.message import MessageKind, MessageStatus, ToKind
from vyane_cli.sessions.speaker import FromKind

IDS = [message(n).id for n in range(1, 5)]
STATE_OPS = [op for op in Op if op is not Op.MESSAGE]


heads = st.builds(
    Head,
    open=st.integers(0, 10_000),
    handshake=st.none()
    | st.builds(
        Handshake,
        st.sampled_from(IDS),
        st.just("S1"),
        st.sampled_from(list(HandshakeStage)),
        st.integers(0, 9_999),
    ),
    normal_ms=st.none() | st.integers(0, 9_999),
    starts_ms=st.lists(st.integers(0, 9_999), max_size=3).map(tuple),
)
message_records = st.builds(
    lambda n, head: {
        "op": "message",
        "message": render_message(message(n)),
        "boot": "boot",
        "boot_ms": 5,
        "head": render_head(head),
    },
    st.integers(1, 4),
    heads,
)
state_records = st.builds(
    lambda op, ids, head, more: {
        "op": str(op),
        "ids": ids,
        "at": 1.0,
        "boot_ms": 7,
        "head": render_head(head),
        **more,
    },
    st.sampled_from(STATE_OPS),
    st.lists(st.sampled_from(IDS), max_size=3, unique=True),
    heads,
    st.sampled_from([{}, {"rule": "r"}, {"session": "S1", "turn": "T"}, {"reason": "ttl"}]),
)
journals = st.lists(message_records | state_records, max_size=25)


def folded(records) -> Mailbox:
    return fold(list(enumerate(records)))


def statuses(box: Mailbox) -> dict[str, MessageStatus]:
    return {entry.message.id: entry.status for entry in box.entries}


@given(journals, st.data())
def test_a_final_record_that_is_there_twice_changes_nothing(records, data):
    """A crash between an append and its acknowledgement repeats the record."""
    if not records:
        return
    index = data.draw(st.integers(0, len(records) - 1))
    again = data.draw(st.integers(index + 1, len(records)))
    twice = [*records[:again], records[index], *records[again:]]
    final = records[index]["op"] in ("consumed", "expired", "failed", "message")
    if final:
        assert statuses(folded(twice)) == statuses(folded(records)) or again > index + 1

    same = [*records[: index + 1], records[index], *records[index + 1 :]]
    assert statuses(folded(same)) == statuses(folded(records))


@given(journals)
def test_final_states_are_never_left(records):
    """Whatever records follow."""
    settled: dict[str, MessageStatus] = {}
    for length in range(len(records) + 1):
        now = statuses(folded(records[:length]))
        for one, status in settled.items():
            assert now[one] is status
        settled.update({one: status for one, status in now.items() if status in FINAL})


@given(journals)
def test_the_fold_of_a_prefix_is_a_prefix(records):
    """Messages are in file order, and a later record never takes one away or moves it."""
    order = [entry.message.id for entry in folded(records).entries]
    for length in range(len(records) + 1):
        seen = [entry.message.id for entry in folded(records[:length]).entries]
        assert seen == order[: len(seen)]


@given(journals)
def test_the_last_record_alone_gives_the_head(records):
    """So that the whole file need not be read for it."""
    if records:
        assert folded(records).head == parse_head(records[-1]["head"])
    else:
        assert folded(records) == Mailbox(Head())


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["op", "ids", "head", "message", "x"]),
            st.none()
            | st.text(max_size=5)
            | st.integers()
            | st.lists(st.text(max_size=3), max_size=2)
            | st.dictionaries(st.sampled_from(["id", "open", "handshake"]), st.text(max_size=3)),
        )
    )
)
def test_the_fold_passes_over_what_it_does_not_know(records):
    """A record of a later version, or a nonsense one, is no reason to stop."""
    assert folded([{"op": "message", "message": render_message(message(1)), "head": {}}]).entries
    if all(r.get("op") not in tuple(Op) for r in records):
        assert folded(records).entries == ()


def test_the_first_of_two_messages_with_one_id_wins():
    """A message record is immutable."""
    first, second = (
        {"op": "message", "message": render_message(message(1, text)), "head": {}} for text in "ab"
    )

    (entry,) = folded([first, second]).entries
    assert entry.message.payload["text"] == "a"


def test_every_state_has_a_row_and_final_ones_are_empty():
    """The table is total over states; delivered mail is not claimed again."""
    assert set(NEXT) == set(MessageStatus)
    assert all(not NEXT[status] for status in FINAL)
    for op in (Op.CLAIM, Op.HANDED, Op.DELIVERED):
        assert op not in NEXT[MessageStatus.DELIVERED]


@given(st.sampled_from(list(MessageStatus)), st.sampled_from(STATE_OPS))
def test_a_record_without_a_row_changes_nothing(status, op):
    """A late repeat is passed over."""
    entry = MailEntry(message(1), 0, status=status)
    after = advance(entry, op, {"at": 1.0})

    if op in NEXT[status]:
        assert after.status is NEXT[status][op]
    else:
        assert after == entry


def test_a_message_that_comes_back_is_marked_only_if_it_may_have_been_shown():
    """`shown: false` says that the output was never begun."""
    entry = MailEntry(message(1), 0)
    claimed = advance(entry, Op.CLAIM, {})

    assert advance(claimed, Op.RETURNED, {}).marks == 1
    assert advance(claimed, Op.RETURNED, {"shown": False}).marks == 0


@given(heads)
def test_a_head_survives_its_stored_form(head):
    """Render, parse: equal."""
    assert parse_head(render_head(head)) == head


texts = st.text(max_size=20)
messages = st.builds(
    lambda one, **changes: one._replace(**changes),
    st.integers(1, 99).map(message),
    from_kind=st.sampled_from(list(FromKind)),
    to_kind=st.sampled_from(list(ToKind)),
    kind=st.sampled_from(list(MessageKind)),
    summary=texts,
    payload=st.dictionaries(texts, texts | st.integers() | st.lists(texts)),
    task_id=st.none() | texts,
    trace_id=st.none() | texts,
    parent_message_id=st.none() | texts,
    ttl_seconds=st.floats(1, 1e6),
)


@given(messages)
def test_a_message_survives_its_stored_form(one):
    """Render, parse: equal; unknown fields of a later version are no obstacle."""
    assert parse_message(render_message(one)) == one
    assert parse_message({**render_message(one), "colour": "red"}) == one


@given(messages)
def test_what_programs_are_shown_has_every_field_of_a_message(one):
    """M-64…M-82 and the lane."""
    fields = set(
        "id ts ttl_seconds from_kind from_id to_kind to_id logical_session_id task_id trace_id"
        " parent_message_id correlation_id kind summary payload delivered_at consumed_at status"
        " failure_reason lane".split()
    )
    assert fields <= set(render_entry(MailEntry(one, 0)))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts, lambda i: st.lists(i, max_size=2)
)


@given(st.dictionaries(st.sampled_from(list(message(1)._fields)), json_values))
def test_a_message_of_the_wrong_shape_is_none(changes):
    """Never an exception, never half a message."""
    parsed = parse_message({**render_message(message(1)), **changes})

    assert parsed is None or isinstance(parsed.kind, MessageKind)
