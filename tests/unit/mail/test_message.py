"""Messages: the lane follows from the content, each kind has its payload and its direction."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.errors import ExitCode, InvalidInputError, RefusedError
from vyane_cli.mail import message
from vyane_cli.mail.message import (
    DIRECTIONS,
    PAYLOADS,
    Lane,
    MessageKind,
    Relation,
    ToKind,
    check_direction,
    check_payload,
    check_summary,
    decide_lane,
)
from vyane_cli.sessions.speaker import FromKind

C, D, N, Q = Lane.CONTROL, Lane.DIRECT, Lane.NORMAL, Lane.QUIET


@pytest.mark.parametrize(
    "kind, from_kind, to_kind, awaited, lane",
    [
        ("takeover", "human", "worker", False, C),
        ("takeover", "human", "broadcast", False, C),
        ("cancel", "worker", "worker", False, C),
        ("info", "human", "worker", True, Q),
        ("status-update", "worker", "channel", False, Q),
        ("context-inject", "human", "broadcast", False, Q),
        ("task-dispatch", "worker", "broadcast", False, Q),
        ("context-inject", "human", "worker", False, D),
        ("task-dispatch", "worker", "worker", False, D),
        ("task-result", "worker", "worker", False, D),
        ("context-inject", "worker", "worker", True, D),
        ("context-inject", "external", "worker", True, D),
        ("context-inject", "worker", "worker", False, N),
        ("context-inject", "external", "logical_session", False, N),
    ],
)
def test_the_first_row_that_matches_decides_the_lane(kind, from_kind, to_kind, awaited, lane):
    """Control, then quiet, then direct, else normal."""
    assert (
        decide_lane(MessageKind(kind), FromKind(from_kind), ToKind(to_kind), awaited=awaited)
        is lane
    )


@pytest.mark.parametrize("kind", MessageKind)
@pytest.mark.parametrize("from_kind", FromKind)
@pytest.mark.parametrize("to_kind", ToKind)
@pytest.mark.parametrize("awaited", [True, False])
def test_every_message_has_a_lane_and_only_control_kinds_have_control(
    kind, from_kind, to_kind, awaited
):
    """Total; nobody reaches the lane without gates by another kind."""
    lane = decide_lane(kind, from_kind, to_kind, awaited=awaited)

    assert (lane is C) == (kind in (MessageKind.TAKEOVER, MessageKind.CANCEL))
    if from_kind is FromKind.EXTERNAL and kind is MessageKind.CONTEXT_INJECT and not awaited:
        assert lane in (N, Q)


def test_the_tables_have_a_row_for_every_kind():
    """A kind without a row would raise in the middle of somebody's command."""
    assert set(DIRECTIONS) == set(PAYLOADS) == set(MessageKind)
    for kind in MessageKind:
        assert message.default_ttl_s(kind) == (3600.0 if kind is MessageKind.INFO else 86_400.0)


@pytest.mark.parametrize("kind", MessageKind)
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("to_kind", ToKind)
def test_a_kind_is_refused_exactly_where_the_table_says_so(kind, relation, to_kind):
    """Exit 5 with the rule `direction`; a status to a channel is open to all."""
    allowed = relation in DIRECTIONS[kind] or (
        kind is MessageKind.STATUS_UPDATE and to_kind is ToKind.CHANNEL
    )
    if allowed:
        check_direction(kind, relation, to_kind)
        return
    with pytest.raises(RefusedError) as caught:
        check_direction(kind, relation, to_kind)
    assert caught.value.slug == "direction"
    assert caught.value.exit_code == ExitCode.REFUSED


def test_only_a_person_may_take_over_and_only_a_child_reports():
    """The rows on which authority rests."""
    assert DIRECTIONS[MessageKind.TAKEOVER] == (Relation.HUMAN,)
    assert DIRECTIONS[MessageKind.TASK_RESULT] == (Relation.CHILD,)
    assert set(DIRECTIONS[MessageKind.CANCEL]) == {Relation.PARENT, Relation.HUMAN}


@pytest.mark.parametrize(
    "kind, payload, key",
    [
        ("task-dispatch", {}, "prompt"),
        ("task-dispatch", {"prompt": ""}, "prompt"),
        ("task-dispatch", {"prompt": 5}, "prompt"),
        ("task-dispatch", {"prompt": "x", "expected_artifacts": "x"}, "expected_artifacts"),
        ("task-result", {}, "success"),
        ("task-result", {"success": "yes"}, "success"),
        ("task-result", {"success": None}, "success"),
        ("task-result", {"success": False}, "error"),
        ("takeover", {"instruction": ""}, "instruction"),
        ("takeover", {"instruction": "x", "interrupt_first": 1}, "interrupt_first"),
        ("cancel", {"force": "yes"}, "force"),
        ("context-inject", {"text": "x", "position": "now"}, "position"),
        ("context-inject", {"text": ["x"]}, "text"),
        ("status-update", {"progress": True}, "progress"),
        ("status-update", {"progress": 7}, "progress"),
        ("status-update", {"progress": -0.1}, "progress"),
        ("status-update", {"metrics": []}, "metrics"),
        ("info", [], "payload"),
        ("info", None, "payload"),
        ("info", "text", "payload"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_by_its_key(kind, payload, key):
    """Exit 2, and the key is named."""
    with pytest.raises(InvalidInputError) as caught:
        check_payload(MessageKind(kind), payload)

    assert key in caught.value.field


def test_of_a_key_that_is_unknown_the_key_is_named_and_not_its_value():
    with pytest.raises(InvalidInputError) as caught:
        check_payload(MessageKind.CONTEXT_INJECT, {"text": "x", "txet": "y"})

    assert caught.value.message == "payload: 'txet' is not a key of context-inject"
    assert "text" in caught.value.hint


@pytest.mark.parametrize(
    "kind, payload",
    [
        ("task-result", {"success": True}),
        ("task-result", {"success": False, "error": "broke"}),
        ("status-update", {"progress": 0.5, "phase": "build", "metrics": {"n": 1}}),
        ("status-update", {"progress": "half"}),
        ("cancel", {}),
        ("info", {"anything": [1, {"goes": None}]}),
        ("context-inject", {"text": "x", "position": "before_next_turn"}),
    ],
)
def test_a_payload_that_fits_is_taken_as_it_is(kind, payload):
    """Nothing is added and nothing is lost."""
    assert check_payload(MessageKind(kind), payload) == payload


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.sampled_from(list(MessageKind)), json_values)
def test_any_payload_is_taken_or_refused_with_a_name(kind, payload):
    """Checking is total: no other exception."""
    refused = ""
    try:
        assert check_payload(kind, payload) == payload
    except InvalidInputError as error:
        refused = error.field
    assert refused == "" or refused.startswith("payload")


READ = [
    ("context-inject", {"text": "x", "position": "before_next_turn"}, "x"),
    ("task-dispatch", {"prompt": "do", "expected_artifacts": ["a", "b"], "task": "T1"},
     "do\nexpected_artifacts: a, b\ntask: T1"),
    ("task-dispatch", {"prompt": "do", "inherited_context": "so far", "launched": True},
     "do\ninherited_context: so far"),
    ("task-result", {"success": True, "summary": "ok", "artifacts": ["a"],
                     "events_replay_token": "t"}, "ok\nartifacts: a"),
    ("task-result", {"success": True, "head": "long", "summary_ref": {"tokens": 9}}, "long"),
    ("status-update", {"progress": "half", "phase": "build", "metrics": {"n": 1}},
     'half\nphase: build\nmetrics: {"n":1}'),
    ("status-update", {"progress": 0}, "progress: 0"),
    ("info", {"build": "red", "runs": [1, None], "why": ""}, "build: red\nruns: [1,null]"),
    ("info", {"text": "x", "n": 3}, "x\nn: 3"),
    ("info", {"text": "your message …", "bounced": "01", "reason": "ttl"}, "your message …"),
    ("cancel", {"force": True}, ""),
]  # fmt: skip


@pytest.mark.parametrize("kind, payload, told", READ)
def test_a_reader_is_told_all_that_is_meant_for_it(kind, payload, told):
    """The text, then what stands beside it; nothing that only vyane needs, and nothing twice."""
    assert message.told_by(MessageKind(kind), payload) == told
    assert message.told_by(MessageKind(kind), payload, message.first_line(told)) == told


def test_a_summary_is_told_when_there_is_no_text():
    """With what stands beside it."""
    assert message.told_by(MessageKind.INFO, {"n": 3}, "the build") == "the build\nn: 3"
    assert message.told_by(MessageKind.INFO, {"text": "x", "n": 3}, "the build") == "x\nn: 3"


@pytest.mark.parametrize("text", ["two\nlines", "two\rlines", "x" * 513])
def test_a_summary_is_one_line_of_at_most_512_characters(text):
    """Lists show it as it is."""
    with pytest.raises(InvalidInputError, match="summary"):
        check_summary(text)
    assert check_summary("x" * 512) == "x" * 512


@given(st.text())
def test_the_first_line_of_any_text_is_a_summary(text):
    """What is made of a text by itself always passes the check."""
    assert check_summary(message.first_line(text)) == message.first_line(text)


def test_an_unknown_kind_is_refused_and_the_kinds_are_named():
    """Closed list."""
    with pytest.raises(InvalidInputError, match="task-dispatch"):
        message.parse_kind("order")
