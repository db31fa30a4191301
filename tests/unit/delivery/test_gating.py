"""The delivery table and the gates before a start."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.delivery.gating import (
    GATES,
    HOUR_MS,
    MATRIX,
    DeliveryVerdict,
    Gate,
    Moment,
    Readings,
    age_ms,
    ask,
    decide,
    recent_starts,
)
from vyane_cli.kernel.config import DeliveryLimits
from vyane_cli.mail.mailbox import Handshake, HandshakeStage, Head
from vyane_cli.mail.message import Lane, Position
from vyane_cli.sessions.liveness_rules import Liveness, LivenessEvidence, decide_liveness

NOW = 10 * HOUR_MS
FREE = Readings(Head(), Liveness.IDLE, NOW)
AFTER = Position.AFTER_CURRENT_TOOL_CALL

heads = st.builds(
    Head,
    open=st.just(0),
    handshake=st.none()
    | st.builds(
        Handshake,
        st.just("m"),
        st.just("s"),
        st.sampled_from(list(HandshakeStage)),
        st.integers(0, 2 * NOW),
    ),
    normal_ms=st.none() | st.integers(0, 2 * NOW),
    starts_ms=st.lists(st.integers(0, 2 * NOW), max_size=40).map(tuple),
)
readings = st.builds(Readings, heads, st.sampled_from(list(Liveness)), st.integers(0, 2 * NOW))


@given(
    st.sampled_from(list(Moment)),
    st.sampled_from(list(Lane)),
    st.sampled_from(list(Position)),
    readings,
)
def test_every_moment_lane_position_and_reading_has_a_decision(moment, lane, position, seen):
    """Total; the rule has a name; quiet mail never starts; a refusal says when to ask again."""
    decision = decide(moment, lane, position, seen)

    assert decision.rule
    assert isinstance(decision.verdict, DeliveryVerdict)
    assert decision.again_ms is None or decision.again_ms >= 0
    if lane is Lane.QUIET:
        assert decision.verdict is not DeliveryVerdict.START
    if MATRIX[moment][lane] is not DeliveryVerdict.START:
        assert decision.verdict in (MATRIX[moment][lane], DeliveryVerdict.HOLD)
    if decision.rule in tuple(Gate):
        assert decision.verdict is DeliveryVerdict.HOLD
        assert Gate(decision.rule) in GATES[lane]


def test_the_table_has_a_cell_for_every_moment_and_lane():
    """Also those of a lane that never starts."""
    assert set(MATRIX) == set(Moment)
    assert all(set(row) == set(Lane) for row in MATRIX.values())
    assert set(GATES) == set(Lane)


def test_the_gates_of_each_lane_are_those_of_the_design():
    """Control: none. Direct: handshake and busy. Normal: too-soon besides. Rate guards both."""
    both = {Gate.SINGLE_ITEM, Gate.TARGET_BUSY, Gate.RATE_GUARD}
    assert GATES[Lane.CONTROL] == GATES[Lane.QUIET] == ()
    assert set(GATES[Lane.DIRECT]) == both
    assert set(GATES[Lane.NORMAL]) == both | {Gate.TOO_SOON}


@pytest.mark.parametrize("moment", [Moment.STOP, Moment.WATCH])
@pytest.mark.parametrize("lane", [Lane.CONTROL, Lane.DIRECT, Lane.NORMAL])
def test_with_every_gate_open_mail_starts_a_turn(moment, lane):
    """At a Stop and at a watch; the rule is the table's row."""
    decision = decide(moment, lane, AFTER, FREE)

    assert decision.verdict is DeliveryVerdict.START
    assert decision.rule == f"{moment}/{lane}"


def test_single_item_is_shut_while_a_handshake_is_open():
    """For the rest of the five minutes, with the open start as the reading."""
    shake = Handshake("m1", "s", HandshakeStage.WAIT_START, NOW - 60_000)
    decision = ask(Gate.SINGLE_ITEM, FREE._replace(head=Head(handshake=shake)))

    assert decision.rule == "single-item"
    assert decision.again_ms == 240_000
    assert decision.readings["open_start"] == "m1"
    assert ask(Gate.SINGLE_ITEM, FREE) is None


@pytest.mark.parametrize("liveness", [Liveness.BUSY, Liveness.EXITED, Liveness.UNKNOWN])
def test_target_busy_is_shut_unless_the_session_is_idle(liveness):
    """At a Stop it is open: the session has just become idle."""
    seen = FREE._replace(liveness=liveness)

    assert ask(Gate.TARGET_BUSY, seen).rule == "target-busy"
    assert ask(Gate.TARGET_BUSY, seen, at_stop=True) is None
    assert ask(Gate.TARGET_BUSY, FREE) is None


@pytest.mark.parametrize(
    "age, again", [(0, 300_000), (299_999, 1), (300_000, None), (400_000, None)]
)
def test_too_soon_is_shut_for_300_s(age, again):
    """Since the last turn that vyane started with normal mail."""
    decision = ask(Gate.TOO_SOON, FREE._replace(head=Head(normal_ms=NOW - age)))

    assert (decision and decision.again_ms) == again


@pytest.mark.parametrize("starts, shut", [(29, False), (30, True)])
def test_the_rate_guard_is_shut_after_thirty_starts_in_an_hour(starts, shut):
    """Until the oldest of them is an hour old."""
    head = Head(starts_ms=tuple(NOW - 1000 * (n + 1) for n in range(starts)))
    decision = ask(Gate.RATE_GUARD, FREE._replace(head=head))

    assert (decision is not None) == shut
    if decision:
        assert decision.again_ms == HOUR_MS - 30_000


@pytest.mark.parametrize("gate", Gate)
def test_a_negative_age_counts_as_over(gate):
    """The boot clock began anew: what was noted before is in the future, and holds nothing up."""
    later = NOW + 5 * HOUR_MS
    head = Head(normal_ms=later, starts_ms=(later,) * 40)
    assert age_ms(later, NOW) is None
    assert recent_starts(head, NOW) == ()

    assert ask(gate, FREE._replace(head=head)) is None


def test_the_thresholds_are_those_of_the_settings():
    """Not of the code."""
    limits = DeliveryLimits(too_soon_ms=10, starts_per_hour=1)
    seen = FREE._replace(limits=limits, head=Head(normal_ms=NOW - 10))

    assert ask(Gate.TOO_SOON, seen) is None
    assert ask(Gate.RATE_GUARD, seen._replace(head=Head(starts_ms=(NOW,)))) is not None


def test_before_next_turn_is_held_at_a_batch_alone():
    """`position` is the earliest moment; control mail has one too."""
    late = Position.BEFORE_NEXT_TURN
    for lane in Lane:
        assert decide(Moment.BATCH, lane, late, FREE).rule == "batch/before-next-turn"
        assert decide(Moment.PROMPT, lane, late, FREE).verdict is DeliveryVerdict.DELIVER


@given(st.booleans(), st.sampled_from([True, False, None]), st.booleans(), st.booleans())
def test_liveness_is_total_and_the_host_can_only_clear_busy(ended, present, turn, idle):
    """Dead only by proof; what cannot be told is unknown; busy needs an open turn."""
    seen = decide_liveness(LivenessEvidence(ended, present, turn, idle))

    if seen is Liveness.BUSY:
        assert turn
        assert not idle
        assert present
    if present is None and not ended:
        assert seen is Liveness.UNKNOWN
    if ended or present is False:
        assert seen is Liveness.EXITED
    if present and not ended and (idle or not turn):
        assert seen is Liveness.IDLE
