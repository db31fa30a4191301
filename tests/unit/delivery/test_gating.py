"""The delivery table, and the gates before a start, a takeover and a notice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.scripted import HUMAN, message
from vyane_cli.delivery.gating import (
    GATES,
    HOUR_MS,
    MATRIX,
    NOTICE_GATES,
    DeliveryVerdict,
    Gate,
    Moment,
    Readings,
    Telling,
    age_ms,
    ask,
    decide,
    decide_notice,
    recent_starts,
)
from vyane_cli.kernel.config import DeliveryLimits
from vyane_cli.mail.mailbox import Handshake, HandshakeStage, Head, Mailbox
from vyane_cli.mail.message import Lane, MessageKind, Position
from vyane_cli.sessions.liveness_rules import Liveness

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


# ------------------------------------------------------------------ in the calls of a session


def test_before_next_turn_waits_past_tool_batches(one):
    """`position` is the earliest moment: this one is for a prompt."""
    one.prompt()
    mail = one.say(position="before_next_turn")
    one.batch()
    assert one.status(mail) == "pending"
    assert one.entry(mail).rule == "batch/before-next-turn"
    one.pass_s(400)
    one.stop()

    assert one.shown == [mail]


def test_after_the_current_tool_call_may_also_be_given_at_a_prompt(one):
    """The default position names the earliest moment, not the only one."""
    mail = one.say(position="after_current_tool_call")
    one.prompt()

    assert one.shown == [mail]


def test_normal_mail_starts_a_turn_once_in_300_s(one):
    """Too soon is held, becomes due, and then starts: no gate consumes a message."""
    one.say()
    one.watch()
    first = one.shown[0]
    one.woken(first)
    one.stop()
    second = one.say()
    one.pass_s(100)
    plan = one.watch()
    assert plan.showing is None
    assert plan.sleeps
    assert one.entry(second).rule == "too-soon"
    assert 190_000 <= plan.markers.due_ms <= 200_000
    one.pass_s(plan.markers.due_ms / 1000)
    one.watch()

    assert one.shown == [first, second]


def test_direct_mail_is_never_too_soon(one):
    """The interval is for normal mail alone."""
    one.say()
    one.watch()
    one.woken(one.shown[0])
    one.stop()
    second = one.say(from_kind=HUMAN)
    one.watch()

    assert one.shown[1:] == [second]


def test_one_started_turn_at_a_time(one):
    """While a handshake is open a second start waits: single-item."""
    one.say(from_kind=HUMAN)
    one.watch()
    second = one.say(from_kind=HUMAN)
    plan = one.watch()

    assert plan.showing is None
    assert one.entry(second).rule == "single-item"


def test_thirty_starts_an_hour_end_a_loop_and_call_a_person(one):
    """The rate guard: two sessions that answer each other for ever are stopped."""
    one.limits = DeliveryLimits(starts_per_hour=3)
    for _ in range(3):
        mail = one.say(from_kind=HUMAN)
        one.watch()
        one.woken(mail)
        one.stop()
        one.pass_s(60)
    last = one.say(from_kind=HUMAN)
    plan = one.watch()

    assert plan.showing is None
    assert one.entry(last).rule == "rate-guard"
    assert one.needs
    one.pass_s(3600)
    assert one.watch().showing is not None


def test_the_rate_guard_lets_control_mail_through(one):
    """Control has no gates."""
    one.limits = DeliveryLimits(starts_per_hour=0)
    mail = one.say(kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    one.watch()

    assert one.shown == [mail]


def test_work_that_waited_before_a_takeover_is_fenced_until_it_is_over(one):
    """Neither with the envelope nor in the carrying turn; at its end it may start the next."""
    one.prompt()
    old = one.say("the old plan")
    info = one.say("a fact", kind=MessageKind.INFO)
    takeover = one.say("the new plan", kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    new = one.say("about the new plan")
    one.tool()
    plan = one.batch()

    assert one.shown == [takeover, new, info]
    assert one.entry(old).rule == "takeover-fence"
    assert not plan.markers.pending
    one.batch()
    assert one.status(old) == "pending"
    one.stop()
    assert one.shown[-1] == old


def test_the_fence_holds_what_would_ride_along_at_a_stop(one):
    """A takeover that begins a turn at a Stop comes without the older work."""
    one.prompt()
    old = one.say("the old plan")
    takeover = one.say("the new plan", kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    one.stop()

    assert one.shown == [takeover]
    assert one.entry(old).rule == "takeover-fence"


def test_the_persons_decision_opens_the_fence(one):
    """`takeover --resolve`: older work goes on in the same turn, and the takeover is over."""
    one.prompt()
    old = one.say("the old plan")
    mail = one.say("wait", kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    one.tool()
    one.batch()
    decision = one.say("go on as planned", from_kind=HUMAN, takeover=mail)
    one.batch()

    assert one.shown == [mail, decision, old]
    assert one.ended_takeovers() == [mail]


def test_an_agent_cannot_open_the_fence(one):
    """The same payload from a worker decides nothing."""
    one.prompt()
    old = one.say("the old plan")
    mail = one.say("wait", kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    one.tool()
    one.batch()
    one.say("go on as planned", takeover=mail)
    one.batch()

    assert old not in one.shown
    assert one.ended_takeovers() == []


def test_mail_to_the_logical_session_passes_the_same_gates(one):
    """Its records lie in another file; the head is in the worker's own."""
    one.boxes.append(Mailbox(Head()))
    first, second = (one.put(message(n, f"n {n}"), box=1).id for n in (900, 901))
    one.watch()
    assert one.head.handshake is not None
    assert one.head.handshake.id == first
    one.watch()

    assert one.shown == [first]
    assert one.status(second) == "pending"


# ------------------------------------------------------------------ notices

FREE_NOTICE = FREE._replace(notice=Telling("new"))


def test_with_every_gate_open_a_notice_is_told():
    assert decide_notice(FREE_NOTICE).verdict is DeliveryVerdict.START


def test_each_throttle_refuses_by_its_name():
    busy = FREE_NOTICE._replace(liveness=Liveness.BUSY)
    open_start = Head(handshake=Handshake("m", "s", HandshakeStage.WAIT_DONE, NOW))
    refusals = {
        Gate.SINGLE_ITEM: (
            FREE_NOTICE._replace(notice=Telling("new", waiting="m")),
            FREE_NOTICE._replace(head=open_start),
        ),
        Gate.TARGET_BUSY: (busy, FREE_NOTICE._replace(liveness=Liveness.UNKNOWN)),
        Gate.SAME_ITEM: (FREE_NOTICE._replace(notice=Telling("new", told_digest="new")),),
        Gate.TOO_SOON: (
            FREE_NOTICE._replace(notice=Telling("new", told_ms=NOW - 299_999)),
            FREE_NOTICE._replace(head=Head(normal_ms=NOW - 1)),
        ),
        Gate.TRUE_STALL: (FREE_NOTICE._replace(notice=Telling("new", stall_ms=899_999)),),
        Gate.RATE_GUARD: (FREE_NOTICE._replace(head=Head(starts_ms=(NOW,) * 30)),),
    }

    assert set(refusals) == set(NOTICE_GATES)
    for gate, readings in refusals.items():
        for one in readings:
            decision = decide_notice(one)
            assert (decision.verdict, decision.rule) == (DeliveryVerdict.HOLD, gate)


def test_the_last_second_counts():
    """300 s and 15 min are over when they are over; a reboot ends an interval."""
    for told_ms in (NOW - 300_000, NOW + 1):
        assert (
            decide_notice(FREE_NOTICE._replace(notice=Telling("new", told_ms=told_ms))).rule
            == "notice"
        )
    assert (
        decide_notice(FREE_NOTICE._replace(notice=Telling("new", stall_ms=900_000))).rule
        == "notice"
    )
