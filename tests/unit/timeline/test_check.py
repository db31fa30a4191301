"""The kinds of damage: each is told from the others."""

import pytest

from tests.unit.transitions import CLOCK, begin, found, lines
from vyane_cli.timeline import turns
from vyane_cli.timeline.check import TimelineDamage
from vyane_cli.timeline.events import EventKind, TurnOutcome
from vyane_cli.timeline.turns import TimelineHead, Transition


def two_turns() -> list[dict]:
    state = begin(Transition(TimelineHead("e" * 32)))
    state = turns.emit(state, EventKind.TOOL_OBSERVED, {"tool": "Bash"}, CLOCK)
    state = turns.finish(state, CLOCK, TurnOutcome.SUCCESS)
    state = turns.emit(state, EventKind.DIAGNOSTIC, {"code": "x"}, CLOCK)
    state = begin(state, 2)
    return lines(turns.finish(state, CLOCK, TurnOutcome.ERROR, "rate_limit"))


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
