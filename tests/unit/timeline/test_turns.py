"""Turns: their steps, and the head after each of them."""

import json

from tests.unit.transitions import CLOCK, begin, found, lines
from vyane_cli.hosts.port import Trigger
from vyane_cli.timeline import turns
from vyane_cli.timeline.events import EventKind, TurnOutcome
from vyane_cli.timeline.turns import (
    STEPS,
    Standing,
    TimelineHead,
    Transition,
    parse_timeline_head,
    render_timeline_head,
)


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


def test_the_table_of_steps_is_total() -> None:
    for row in STEPS.values():
        assert set(row) == set(Standing)
