"""The kinds of damage, and the tables of events and turns."""

import json

import pytest

from vyane_cli.errors import InvalidInputError
from vyane_cli.hosts.port import Trigger
from vyane_cli.kernel.clock import Clock
from vyane_cli.timeline import turns
from vyane_cli.timeline.check import Checker, TimelineDamage
from vyane_cli.timeline.events import (
    CATEGORIES,
    PRODUCED,
    SCHEMAS,
    EventKind,
    TurnOutcome,
    check_event,
)
from vyane_cli.timeline.turns import (
    STEPS,
    Standing,
    TimelineHead,
    Transition,
    parse_timeline_head,
    render_timeline_head,
)

CLOCK = Clock(1_800_000_000_000, 5_000)
VS = "vs-0123456789ab"


def begin(state: Transition, number: int = 1) -> Transition:
    return turns.start(
        state,
        CLOCK,
        turn=f"01{number:024}",
        token="t",
        trigger=Trigger.HUMAN,
        session="host",
    )


def lines(state: Transition) -> list[dict]:
    return [
        {
            "v": 1,
            "epoch": head.epoch,
            "seq": event.seq,
            "session": VS,
            "kind": str(event.kind),
            "turn": event.turn,
            "turn_number": event.turn_number,
            "at": event.at,
            "payload": dict(event.payload),
            "head": json.loads(json.dumps(render_timeline_head(head))),
        }
        for event, head in zip(state.events, state.heads, strict=True)
    ]


def two_turns() -> list[dict]:
    state = begin(Transition(TimelineHead("e" * 32)))
    state = turns.emit(state, EventKind.TOOL_OBSERVED, {"tool": "Bash"}, CLOCK)
    state = turns.finish(state, CLOCK, TurnOutcome.SUCCESS)
    state = turns.emit(state, EventKind.DIAGNOSTIC, {"code": "x"}, CLOCK)
    state = begin(state, 2)
    return lines(turns.finish(state, CLOCK, TurnOutcome.ERROR, "rate_limit"))


def found(records: list[dict]) -> TimelineDamage | None:
    checker = Checker(VS)
    for record in records:
        fault = checker.check(record)
        if fault is not None:
            return fault.damage
    return None


def test_every_head_that_a_transition_gives_is_the_head_of_its_line() -> None:
    assert found(two_turns()) is None


@pytest.mark.parametrize(
    "line, change, damage",
    [
        (1, {"v": 2}, TimelineDamage.UNKNOWN_VERSION),
        (1, {"v": None}, TimelineDamage.UNKNOWN_VERSION),
        (1, {"kind": "ToolHeard"}, TimelineDamage.UNKNOWN_KIND),
        (1, {"session": "vs-ffffffffffff"}, TimelineDamage.ENVELOPE_MISMATCH),
        (1, {"epoch": "f" * 32}, TimelineDamage.ENVELOPE_MISMATCH),
        (1, {"payload": None}, TimelineDamage.ENVELOPE_MISMATCH),
        (1, {"seq": 4}, TimelineDamage.SEQ_GAP),
        (0, {"seq": 2}, TimelineDamage.SEQ_GAP),
        (1, {"turn": "01" + "9" * 24}, TimelineDamage.INVALID_LIFECYCLE),
        (
            3,
            {"turn": "01" + "0" * 23 + "1"},
            TimelineDamage.INVALID_LIFECYCLE,
        ),  # of a finished turn
        (
            2,
            {"kind": "TurnStarted", "turn": "x", "turn_number": 2},
            TimelineDamage.INVALID_LIFECYCLE,
        ),
        (5, {"turn": "01" + "0" * 23 + "1"}, TimelineDamage.INVALID_LIFECYCLE),
        (4, {"turn_number": 3}, TimelineDamage.INVALID_LIFECYCLE),
        (1, {"head": {}}, TimelineDamage.INVALID_LIFECYCLE),
    ],
)
def test_each_kind_of_damage_is_told_from_the_others(line, change, damage) -> None:
    records = two_turns()
    records[line] |= change

    assert found(records) == damage


def test_a_finish_without_a_start_is_an_invalid_lifecycle() -> None:
    finish = two_turns()[2] | {"seq": 1}

    assert found([finish]) == TimelineDamage.INVALID_LIFECYCLE


def test_a_line_that_is_left_out_is_a_gap() -> None:
    records = two_turns()

    assert found(records[:1] + records[2:]) == TimelineDamage.SEQ_GAP


def test_a_head_comes_back_from_its_stored_form_whatever_is_empty_in_it() -> None:
    state = begin(Transition(TimelineHead("e" * 32)))
    stored = json.loads(json.dumps(render_timeline_head(state.head)))

    assert parse_timeline_head(stored, "e" * 32, state.head.at) == state.head


def test_a_wall_clock_that_goes_back_is_told_once_and_changes_no_order() -> None:
    """X-38: a jump back by more than 5 s is a Diagnostic."""
    back = CLOCK._replace(now_ms=CLOCK.now_ms - 3_600_000)
    state = begin(Transition(TimelineHead("e" * 32)))
    state = turns.emit(state, EventKind.TOOL_OBSERVED, {"tool": "A"}, back)
    state = turns.finish(state, back, TurnOutcome.SUCCESS)
    state = turns.start(
        state, back, turn="01" + "7" * 24, token="t", trigger=Trigger.HUMAN, session="host"
    )
    kinds = [event.kind for event in state.events]

    assert kinds == ["TurnStarted", "Diagnostic", "ToolObserved", "TurnFinished", "TurnStarted"]
    assert [event.seq for event in state.events] == [1, 2, 3, 4, 5]
    assert state.head.open is not None
    assert state.head.open.seq == 5
    assert found(lines(state)) is None


def test_the_tables_of_events_are_total() -> None:
    assert set(CATEGORIES) == set(SCHEMAS) == set(EventKind)
    assert set(PRODUCED) < set(EventKind)


def test_the_table_of_steps_is_total() -> None:
    for row in STEPS.values():
        assert set(row) == set(Standing)


@pytest.mark.parametrize(
    "kind, payload, slug",
    [
        ("ToolHeard", {}, "unknown_kind"),
        ("ToolObserved", {"tool": "Bash", "seq": 3}, "extra_key"),
        ("ToolObserved", {"tool": "Bash", "turn_id": "x"}, "extra_key"),
        ("TurnFinished", {"outcome": "done"}, "wrong_outcome"),
        ("ToolObserved", {}, "invalid_input"),
        ("ToolObserved", [], "invalid_input"),
        ("ResultObserved", {"digest": "d", "chars": True}, "invalid_input"),
    ],
)
def test_a_payload_that_does_not_fit_its_kind_is_refused_by_name(kind, payload, slug) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_event(kind, payload)

    assert caught.value.slug == slug
