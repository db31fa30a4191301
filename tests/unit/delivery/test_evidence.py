"""The second step of a plan: what a call proves about mail that was handed over before it."""

import pytest

from tests.unit.scripted import HUMAN, said
from vyane_cli.hosts.port import HostEvent
from vyane_cli.mail.mailbox import HandshakeStage, Op
from vyane_cli.mail.message import MessageKind


def test_what_a_prompt_gave_is_consumed_by_the_next_event_of_its_turn(one):
    """Delivered is not consumed: a later event with the turn's id proves that it went on."""
    mail = one.say()
    one.prompt()
    assert one.status(mail) == "delivered"

    one.tool()
    assert one.status(mail) == "consumed"


def test_what_a_prompt_gave_comes_back_marked_when_the_turn_is_broken_off(one):
    """Text given at a prompt that is Esc'd before the answer reaches no request (measured)."""
    mail = one.say()
    one.prompt("A")
    plan = one.prompt("B")

    assert one.shown == [mail, mail]
    assert one.entry(mail).marks == 1
    assert "redelivered" in said(plan.reply)


def test_what_a_batch_gave_is_consumed_by_the_stop(one):
    """A Stop of the carrying turn is proof as well."""
    one.prompt()
    mail = one.say()
    one.batch()
    one.stop()

    assert one.status(mail) == "consumed"


def test_what_one_call_proves_of_many_messages_is_one_record(one):
    one.prompt()
    mails = [one.say(), one.say(), one.say()]
    one.batch()
    plan = one.batch()

    (change,) = [change for change in plan.changes if change.op is Op.CONSUMED]
    assert list(change.ids) == mails
    assert {one.status(mail) for mail in mails} == {"consumed"}


def test_what_a_session_start_gave_comes_back_when_the_session_ends_unproven(one):
    """The carrier of a SessionStart delivery is the session: `/clear` before any turn ends it."""
    mail = one.say()
    one.start()
    assert one.status(mail) == "delivered"
    one.end("clear")

    assert one.status(mail) == "pending"
    assert one.entry(mail).marks == 1
    one.session = "S2"
    one.start("clear", gone=frozenset({"S1"}))
    assert one.shown == [mail, mail]


def test_a_delivery_of_a_session_that_is_replaced_comes_back(one):
    """Even when no SessionEnd came: a new session finds what the old one was given."""
    mail = one.say()
    one.start()
    one.session = "S2"
    one.start("clear", gone=frozenset({"S1"}))

    assert one.shown == [mail, mail]
    assert one.entry(mail).marks == 1


def test_a_compaction_ends_no_session(one):
    """SessionStart `compact` belongs to the same conversation: nothing comes back."""
    mail = one.say()
    one.start()
    one.start("compact")

    assert one.shown == [mail]
    assert one.status(mail) == "delivered"


@pytest.mark.parametrize("source", ["startup", "resume", "clear"])
def test_a_session_start_that_is_run_twice_gives_once(one, source):
    """The same hook installed twice (settings and plugin) runs twice, up to 1.4 s apart."""
    mail = one.say()
    one.start(source, digest="same")
    one.pass_s(1.4)
    one.start(source, digest="same")

    assert one.shown == [mail]
    assert one.entry(mail).marks == 0


def test_the_second_handler_of_a_session_start_takes_nothing_back(one):
    """The asynchronous handler runs beside the synchronous one, in either order."""
    mail, direct = one.say(), one.say(from_kind=HUMAN)
    one.start("resume")
    one.rewake(source="resume")
    one.start("resume")

    assert sorted(one.shown) == sorted([mail, direct])


# ------------------------------------------------------------------ what was handed to a host


def test_the_prompt_event_that_names_it_makes_it_delivered(one):
    """A watch records only `handed`; the host's prompt event is the receipt, and consumes it."""
    mail = one.say(from_kind=HUMAN)
    one.watch()
    assert one.status(mail) == "pending"
    one.woken(mail)
    assert one.head.handshake.stage is HandshakeStage.WAIT_DONE
    one.tool()

    assert one.status(mail) == "consumed"
    assert one.shown == [mail]


def test_handed_mail_that_the_host_did_not_take_comes_back_after_30_s_of_idleness(one):
    """Marked, and not earlier."""
    mail = one.say(from_kind=HUMAN)
    one.watch()
    one.pass_s(29)
    assert one.watch().reply.wake == ""
    one.pass_s(1)
    plan = one.watch()

    assert mail in plan.reply.wake
    assert one.entry(mail).marks == 1


def test_handed_mail_stays_handed_while_the_session_is_busy(one):
    """A turn is running: the wake may be queued behind it, so nothing is offered twice."""
    mail = one.say(from_kind=HUMAN)
    one.watch()
    one.prompt()
    one.pass_s(60)
    one.batch()
    one.watch()

    assert one.shown == [mail]


def test_the_text_of_a_wake_survives_esc(one):
    """Measured: it stays in the conversation; the next prompt's event does not bring it back."""
    mail = one.say(from_kind=HUMAN)
    one.watch()
    one.woken(mail)
    one.prompt()

    assert one.status(mail) == "consumed"
    assert one.shown == [mail]


@pytest.mark.parametrize("event", ["tool", "batch", "stop"])
def test_the_text_of_a_wake_survives_esc_with_a_queued_prompt(one, event):
    """The same when the next event is one of the queued prompt's turn."""
    mail = one.say(from_kind=HUMAN)
    one.watch()
    one.woken(mail)
    one.turn = "queued"
    getattr(one, event)()

    assert one.status(mail) == "consumed"
    assert one.shown == [mail]


def test_the_text_of_a_wake_at_the_start_survives_esc(one):
    """The second handler of SessionStart wakes by the same mechanism."""
    mail = one.say(from_kind=HUMAN)
    one.rewake()
    one.woken(mail)
    one.prompt()

    assert one.status(mail) == "consumed"
    assert one.shown == [mail]


def test_a_resumed_session_gets_what_its_killed_client_never_took(one):
    """Killed between the wake and its prompt event: SessionStart of the same id brings it back."""
    mail = one.say()
    one.watch()
    one.pass_s(120)
    one.start("resume")
    one.prompt()

    assert one.shown == [mail, mail]
    assert one.entry(mail).marks == 1


@pytest.mark.parametrize("ending", ["stop", "failure", "prompt", "end"])
def test_any_terminal_of_the_turn_closes_the_handshake(one, ending):
    """Stop, an error, an interruption or the session's end: the next message may start a turn."""
    mail = one.say(from_kind=HUMAN)
    one.watch()
    one.woken(mail)
    assert one.head.handshake.stage is HandshakeStage.WAIT_DONE
    if ending == "failure":
        one.call(HostEvent.STOP_FAILURE, error="x")
    else:
        getattr(one, ending)()

    assert one.head.handshake is None


def test_the_handshake_is_open_while_its_turn_runs(one):
    """The terminal of an older turn, closed by the same prompt event, is not its own."""
    mail = one.say(from_kind=HUMAN)
    one.watch()
    one.prompt("typed")
    one.woken(mail)

    assert one.head.handshake is not None
    assert one.head.handshake.stage is HandshakeStage.WAIT_DONE


def test_a_start_that_never_began_calls_a_person_once_and_is_released(one):
    """wait_start lasts five minutes."""
    mail = one.say(from_kind=HUMAN)
    one.watch()
    one.pass_s(5)
    one.prompt("typed")
    one.pass_s(294)
    one.batch()
    assert one.needs == []
    one.pass_s(1)
    one.batch()
    one.batch()

    assert len(one.needs) == 1
    assert mail in one.needs[0]
    assert one.head.handshake is None


@pytest.mark.parametrize("every_s", [31, 100, 299, 400, 4000])
def test_starts_that_a_session_lets_pass_count_together(one, every_s):
    """Each offer comes back after 30 s and is made anew; five minutes count from the first."""
    mail = one.say(from_kind=HUMAN)
    one.watch()
    passed = 0
    while passed < 300:
        assert one.needs == []
        one.pass_s(every_s)
        passed += every_s
        one.watch()

    assert len(one.needs) == 1
    assert mail in one.needs[0]
    assert one.shown[-1] == mail  # it is offered again


def test_after_a_call_the_next_offer_is_counted_anew(one):
    """A person who said that it is done with is not called again at once."""
    one.say(from_kind=HUMAN)
    one.watch()
    one.pass_s(400)
    one.watch()
    one.pass_s(40)
    one.watch()
    assert len(one.needs) == 1
    one.pass_s(300)
    one.watch()

    assert len(one.needs) == 2


def test_a_start_that_was_answered_late_calls_nobody(one):
    """The second offer was taken: nothing is counted any more."""
    mail = one.say(from_kind=HUMAN)
    one.watch()
    one.pass_s(200)
    one.watch()
    one.woken(mail)
    one.pass_s(400)
    one.batch()
    one.stop()
    one.pass_s(400)
    one.watch()

    assert one.needs == []


def test_a_prompt_of_the_person_takes_the_mail_along_and_calls_nobody(one):
    one.say(from_kind=HUMAN)
    one.watch()
    one.pass_s(400)
    one.prompt("typed")

    assert one.needs == []


def test_a_host_that_never_starts_the_turn_is_not_rung_for_ever(one):
    """Offered again every 30 s: in the end a person is called, and the offers cease."""
    one.say(from_kind=HUMAN)
    for _ in range(60):
        one.watch()
        one.pass_s(31)

    assert len(one.shown) <= 30
    assert one.needs


# ------------------------------------------------------------------ takeovers


def test_a_takeover_is_over_at_the_end_of_the_turn_that_read_it(one):
    """TakeoverConsumed comes after that turn's TurnFinished, once, though it was read before."""
    one.prompt()
    mail = one.say(kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    one.tool()
    one.batch()
    assert one.status(mail) == "consumed"
    assert one.ended_takeovers() == []
    one.stop()
    one.prompt()
    one.stop()

    assert one.ended_takeovers() == [mail]
    kinds = [str(e.kind) for e in one.events]
    assert kinds.index("TakeoverConsumed") == kinds.index("TurnFinished") + 1
    assert one.head.takeover is None


@pytest.mark.parametrize("ends", ["stop", "prompt", "end"])
def test_a_takeover_of_an_idle_session_is_over_with_the_turn_that_it_made(one, ends):
    """Whether that turn stops, is broken off by Esc, or the session ends."""
    mail = one.say(kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    one.watch()
    one.woken(mail)
    one.tool()
    one.batch()
    assert one.ended_takeovers() == []
    getattr(one, ends)()

    assert one.ended_takeovers() == [mail]


def test_of_two_takeovers_in_one_turn_each_is_over_once(one):
    """The later one has the turn."""
    one.prompt()
    first = one.say(kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    one.tool()
    one.batch()
    second = one.say(kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    one.tool()
    one.batch()
    one.stop()

    assert one.ended_takeovers() == [first, second]


def test_a_cancelled_turn_ends_the_takeover_that_it_carried(one):
    """The cancel ends the turn without a Stop."""
    one.prompt()
    mail = one.say(kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    one.tool()
    one.batch()
    one.say(kind=MessageKind.CANCEL, from_kind=HUMAN)
    one.tool()
    one.batch()
    one.prompt()

    assert one.ended_takeovers() == [mail]


# ------------------------------------------------------------------ claims


def test_a_claim_whose_process_is_dead_is_void(one):
    """The message is redelivered, marked."""
    one.prompt()
    mail = one.say()
    one.alive = False
    one.batch()
    plan = one.batch(dead=frozenset({mail}))

    assert one.shown == [mail, mail]
    assert "redelivered" in said(plan.reply)


def test_a_void_claim_of_a_start_opens_the_way_for_another(one):
    """Its handshake is void too."""
    mail = one.say(from_kind=HUMAN)
    one.alive = False
    one.watch()
    one.alive = True
    plan = one.watch(dead=frozenset({mail}))

    assert mail in plan.reply.wake


# ------------------------------------------------------------------ expiry


def test_a_message_expires_and_its_sender_is_told(one):
    """With the fixed reason; an expired message is never shown."""
    mail = one.say(ttl=60)
    one.pass_s(61)
    plan = one.prompt()

    assert one.shown == []
    assert one.status(mail) == "expired"
    assert one.entry(mail).failure_reason == "ttl"
    assert [e.message.id for e in plan.expired] == [mail]


def test_a_step_of_the_wall_clock_expires_nothing(one):
    """In one boot the boot clock must agree."""
    mail = one.say(ttl=60)
    one.now_ms += 86_400_000
    one.prompt()

    assert one.shown == [mail]


def test_a_delivered_message_does_not_expire(one):
    """It was handed over in time."""
    mail = one.say(ttl=60)
    one.prompt()
    one.pass_s(61)
    one.tool()

    assert one.status(mail) == "consumed"


def test_a_consumed_message_stays_consumed(one):
    """Final states never leave."""
    mail = one.say(ttl=60)
    one.prompt()
    one.tool()
    one.pass_s(1000)
    one.end("clear")
    one.start()

    assert one.status(mail) == "consumed"
