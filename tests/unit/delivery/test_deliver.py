"""The third step of a plan: what a call hands over, and how it is settled."""

from tests.unit.scripted import HUMAN, ME, said
from vyane_cli.hosts.port import HostEvent, Reply, Trigger
from vyane_cli.mail.mailbox import HandshakeStage
from vyane_cli.mail.message import MessageKind

LONG = "x" * 3000


def test_direct_mail_found_at_a_start_begins_a_turn_and_is_not_put_into_the_start(one):
    """SessionStart is asyncRewake too: a person who sent while it was closed gets an answer."""
    direct, normal = one.say(from_kind=HUMAN), one.say()
    sync = one.start("resume")
    wake = one.rewake(source="resume")

    assert normal in said(sync.reply)
    assert direct not in said(sync.reply)
    assert direct in wake.reply.wake
    assert one.entry(direct).handed


def test_an_unattended_start_gives_everything_and_waits_for_nothing(one):
    """`claude -p` waits for every hook: no wake there, and a prompt follows by itself."""
    one.attended = False
    direct = one.say(from_kind=HUMAN)
    assert one.rewake().reply.wake == ""
    plan = one.start()

    assert direct in said(plan.reply)


def test_an_output_ends_at_the_first_message_that_does_not_fit(one):
    """Order holds: a small message behind a big one is not pulled ahead of it."""
    first, second, third = one.say(LONG), one.say("y" * 8000), one.say("small")
    one.prompt()

    assert one.shown == [first]
    one.batch()
    one.batch()
    assert one.shown == [first, second, third]


def test_thirty_messages_of_1000_characters_take_four_outputs(one):
    """Each output is at most 9,500 units and says how many are left; each message comes once."""
    mail = [one.say(f"{n:02}" + "z" * 998) for n in range(30)]
    plans = [one.prompt()] + [one.batch() for _ in range(3)]

    assert one.shown == mail
    assert all(len(said(plan.reply)) <= 9500 for plan in plans)
    assert "left" in said(plans[0].reply)
    assert "left" not in said(plans[-1].reply)


def test_a_watch_hands_over_one_message_of_its_lane(one):
    """A start carries one message and opens the handshake; the rest stays."""
    first, second = one.say(from_kind=HUMAN), one.say(from_kind=HUMAN)
    plan = one.watch()

    assert first in plan.reply.wake
    assert second not in plan.reply.wake
    assert one.entry(first).handed
    assert one.head.handshake.id == first
    assert one.head.handshake.stage is HandshakeStage.WAIT_START


def test_mail_stops_nobody_who_is_busy(one):
    """A watch in the middle of a turn hands nothing over: the turn's own batches do."""
    one.prompt()
    mail = one.say(from_kind=HUMAN)
    plan = one.watch()

    assert plan.showing is None
    assert plan.sleeps
    assert one.entry(mail).rule == "target-busy"


def test_a_watch_takes_no_control_mail_from_a_busy_session(one):
    """The next tool call of the running turn is the interruption."""
    one.prompt()
    one.say(kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    plan = one.watch()

    assert plan.showing is None
    assert plan.markers.control


def test_quiet_mail_never_starts_a_turn(one):
    """It rides along, or waits for the next turn."""
    mail = one.say(kind=MessageKind.INFO)
    assert one.watch().showing is None
    assert one.idle().showing is None
    assert one.rewake().showing is None
    one.prompt()
    one.stop()
    assert one.shown == [mail]
    other = one.say(kind=MessageKind.INFO)
    one.prompt()
    assert one.stop().showing is None
    assert one.shown == [mail, other]


def test_a_stop_starts_the_next_turn_and_other_mail_rides_along(one):
    """Stop continues the session with what may start a turn; quiet mail goes with it."""
    one.prompt("A")
    quiet, normal, direct = one.say(kind=MessageKind.INFO), one.say(), one.say(from_kind=HUMAN)
    plan = one.stop()

    assert one.shown == [direct, normal, quiet]
    assert plan.reply.context
    assert not plan.reply.stop
    assert one.timeline.open.trigger is Trigger.DELIVERY
    assert one.timeline.open.native == "A"


def test_stop_continues_at_most_three_times_in_a_row_and_then_rings(one):
    """What is left goes by the wake file, so that the host's own cap is never met."""
    one.prompt()
    for _ in range(3):
        one.say(from_kind=HUMAN)
        one.pass_s(3)
        assert one.stop().showing is not None
    left = one.say(from_kind=HUMAN)
    one.pass_s(3)
    plan = one.stop()

    assert plan.showing is None
    assert plan.wake_self
    assert one.entry(left).rule == "stop-cap"
    one.pass_s(3)
    assert left in one.watch().reply.wake


def test_a_prompt_of_a_person_makes_the_stop_count_begin_anew(one):
    """In a row means without a prompt in between."""
    one.prompt()
    for _ in range(3):
        one.say(from_kind=HUMAN)
        one.pass_s(3)
        one.stop()
    one.prompt()
    one.say(from_kind=HUMAN)

    assert one.stop().showing is not None


# ------------------------------------------------------------------ takeover and cancel


def test_a_takeover_stops_the_next_tool_and_gives_its_text_there(one):
    """Interruption and injection in one step: short reason, envelope as context."""
    one.prompt()
    mail = one.say("do this instead", kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    plan = one.tool()

    assert plan.reply.deny == "<deny-takeover>"
    assert "do this instead" in plan.reply.context
    assert one.status(mail) == "delivered"
    assert one.outcomes() == []


def test_the_other_calls_of_the_batch_are_denied_with_a_fixed_text(one):
    """Parallel calls do not run, and the envelope is not shown twice."""
    one.prompt()
    mail = one.say("do this instead", kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    one.tool()
    plan = one.tool()

    assert plan.reply.deny == "<deny-batch>"
    assert plan.reply.context == ""
    assert one.shown == [mail]


def test_the_end_of_the_batch_clears_control(one):
    """After PostToolBatch tools run again."""
    one.prompt()
    mail = one.say(kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    assert one.tool().markers.control
    one.tool()
    assert not one.batch().markers.control
    assert one.status(mail) == "consumed"

    assert one.tool().reply == Reply("PreToolUse")


def test_a_turn_after_the_takeover_is_free_though_no_batch_came(one):
    """Control is cleared at the next event of another turn."""
    one.prompt()
    one.say(kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    one.tool()
    one.prompt()
    one.batch()

    assert one.tool().reply.deny == ""


def test_a_takeover_that_does_not_interrupt_waits_for_the_next_turn(one):
    """Soft: no tool is denied, nothing is said after a batch; at the Stop it begins a turn."""
    one.prompt()
    mail = one.say(kind=MessageKind.TAKEOVER, from_kind=HUMAN, interrupt_first=False)
    plan = one.tool()
    assert plan.reply.deny == ""
    assert not plan.markers.control
    one.batch()
    assert one.shown == []
    one.stop()

    assert one.shown == [mail]


def test_a_cancel_that_could_not_be_told_is_not_settled(one):
    """The host goes on: the turn is open, and the next batch ends it."""
    one.prompt()
    mail = one.say("enough", kind=MessageKind.CANCEL, from_kind=HUMAN)
    one.tool()
    one.batch(fails=True)
    assert one.outcomes() == []
    assert one.status(mail) == "pending"

    assert one.batch().reply.stop == "enough"
    assert one.outcomes() == ["cancelled/cancel_requested"]


def test_a_cancel_denies_the_tools_and_ends_the_turn_at_the_batch(one):
    """`continue: false` at PostToolBatch: no Stop comes, so the tick itself ends the turn."""
    one.prompt()
    mail = one.say("enough", kind=MessageKind.CANCEL, from_kind=HUMAN)
    assert one.tool().reply.deny == "<deny-cancel>"
    assert one.tool().reply.deny == "<deny-cancel>"
    assert one.outcomes() == []
    plan = one.batch()

    assert plan.reply.stop == "enough"
    assert one.outcomes() == ["cancelled/cancel_requested"]
    assert one.status(mail) == "consumed"
    assert not plan.markers.control


def test_the_cancel_of_an_idle_session_is_settled_without_a_start(one):
    """Nothing runs that could be stopped."""
    mail = one.say(kind=MessageKind.CANCEL, from_kind=HUMAN)
    plan = one.watch()

    assert plan.showing is None
    assert one.status(mail) == "consumed"


def test_a_cancel_of_a_child_before_its_one_turn_ends_that_turn(one):
    """Nobody attends it, so the prompt is its dispatch: its first tool does not run."""
    one.attended = False
    mail = one.say("enough", kind=MessageKind.CANCEL, from_kind=HUMAN)
    one.start()
    one.prompt()
    assert one.status(mail) == "pending"
    assert one.shown == []
    assert one.tool().reply.deny == "<deny-cancel>"
    assert one.batch().reply.stop == "enough"

    assert one.status(mail) == "consumed"


def test_a_cancel_never_begins_a_turn_when_a_session_is_opened_again(one):
    """It is no text for a model."""
    one.say(kind=MessageKind.CANCEL, from_kind=HUMAN)

    assert one.rewake().showing is None


def test_a_cancel_that_came_too_late_for_its_turn_stops_no_other(one):
    """It is settled when its turn has ended, not kept for the next."""
    one.prompt()
    mail = one.say(kind=MessageKind.CANCEL, from_kind=HUMAN)
    one.stop()

    assert one.status(mail) == "consumed"
    assert one.timeline.open is None


# ------------------------------------------------------------------ claims


def test_a_claimed_message_is_not_claimed_by_another_tick(one):
    """Three identical hooks at once give exactly one output."""
    one.prompt()
    mail = one.say()
    one.alive = False
    one.batch()
    plan = one.batch()

    assert plan.showing is None
    assert one.shown == [mail]


def test_what_could_not_be_written_is_pending_again_marked(one):
    """The pipe was closed: nobody read it, or perhaps half of it."""
    mail = one.say()
    one.prompt(fails=True)
    assert one.status(mail) == "pending"
    assert one.entry(mail).marks == 1
    one.batch()

    assert one.shown == [mail]


def test_a_start_that_could_not_be_written_opens_no_handshake(one):
    """Or the next start would wait five minutes for nothing."""
    one.say(from_kind=HUMAN)
    one.watch(fails=True)

    assert one.head.handshake is None


def test_a_claimed_startable_message_stays_due(one):
    """If the claimer dies, something must ring again: another tick may not take `due` away."""
    one.say(from_kind=HUMAN)
    one.alive = False
    one.watch()
    plan = one.call(HostEvent.CWD_CHANGED)

    assert plan.markers.due_ms is not None


def test_a_claim_names_its_process_and_guard(one):
    """So that its death can be told, and its rerun can void it."""
    one.say()
    one.alive = False
    one.prompt(guard=77)
    claim = next(e for b in one.boxes for e in b.entries).claim

    assert claim.by == ME
    assert claim.guard == 77
