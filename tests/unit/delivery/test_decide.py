"""One hook call as a plan: the rules of a turn, of handing over, and of coming back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.scripted import HOST, ME, Scripted, message, said
from vyane_cli.delivery.decide import plan_tick
from vyane_cli.delivery.gating import Moment
from vyane_cli.delivery.plan import UNTURNED, moment_of
from vyane_cli.hosts.port import HookCall, HostEvent, Reply, ToolCall, Trigger
from vyane_cli.kernel.config import DeliveryLimits
from vyane_cli.mail.mailbox import HandshakeStage, Head, Mailbox, Op
from vyane_cli.mail.message import Lane, MessageKind, MessageStatus, ToKind
from vyane_cli.sessions.speaker import FromKind

HUMAN = FromKind.HUMAN
LONG = "x" * 3000


@pytest.fixture
def one() -> Scripted:
    return Scripted()


# ------------------------------------------------------------------ turns go by the host's id


def test_a_new_id_closes_the_open_turn_as_interrupted_and_starts_the_next(one):
    """After Esc no hook comes: the next prompt's id says that the turn before is over."""
    one.prompt("A")
    one.prompt("B")

    assert one.outcomes() == ["interrupted/user_interrupt"]
    assert one.timeline.open.native == "B"


@pytest.mark.parametrize("event", ["tool", "batch", "stop"])
def test_after_esc_with_a_queued_prompt_the_next_event_starts_the_turn(one, event):
    """No UserPromptSubmit comes for the queued prompt: its first other event begins its turn."""
    one.prompt("A")
    one.prompt("A")
    one.turn = "B"
    getattr(one, event)()

    assert one.outcomes()[0] == "interrupted/user_interrupt"
    starts = [e.payload["trigger"] for e in one.events if e.kind == "TurnStarted"]
    assert starts == ["human", "queued"]


def test_a_typed_ahead_prompt_is_the_same_turn_and_no_pull(one):
    """UserPromptSubmit in the middle of a turn has the running turn's id: mail waits."""
    one.prompt("A")
    mail = one.say()
    plan = one.prompt("A")

    assert said(plan.reply) == ""
    assert one.status(mail) == "pending"
    assert [e.kind for e in one.events] == ["TurnStarted"]
    assert mail in said(one.batch().reply)


@pytest.mark.parametrize("event", ["prompt", "tool", "batch", "stop"])
def test_an_id_of_an_earlier_turn_moves_nothing(one, event):
    """A late event of a turn that is over changes no turn and hands nothing over."""
    one.prompt("A")
    one.stop()
    one.prompt("B")
    mail, before = one.say(), one.timeline
    one.turn = "A"
    plan = one.prompt("A") if event == "prompt" else getattr(one, event)()

    assert one.timeline == before
    assert said(plan.reply) == ""
    assert one.status(mail) == "pending"


@pytest.mark.parametrize(
    "event", [HostEvent.FILE_CHANGED, HostEvent.CWD_CHANGED, HostEvent.SESSION_START]
)
def test_an_event_that_is_no_turn_event_starts_no_turn(one, event):
    """FileChanged and its like carry stale ids."""
    one.call(event, turn="unheard-of", rewake=event is HostEvent.FILE_CHANGED)

    assert one.events == []


def test_that_the_person_is_asked_is_a_fact_of_the_running_turn_and_hands_nothing_over(one):
    """Tool and the fact alone; a late one of another turn, or a subagent's, leaves no trace."""
    one.prompt()
    mail = one.say("hello", kind=MessageKind.INFO)
    tool = (ToolCall("", "Bash"),)

    one.call(HostEvent.PERMISSION, tools=tool)
    one.call(HostEvent.PERMISSION, tools=tool, turn="T9")
    one.call(HostEvent.PERMISSION, tools=tool, subagent=True)
    assert one.status(mail) == "pending"
    one.stop()
    one.call(HostEvent.PERMISSION, tools=tool)

    asked = [e for e in one.events if e.kind == "PermissionObserved"]
    assert [e.payload for e in asked] == [{"tool": "Bash", "decision": "asked"}]
    assert one.timeline.open is None


def test_a_stop_settles_the_turn_with_result_then_terminal(one):
    """ResultObserved comes before TurnFinished, which is the turn's last event."""
    one.prompt()
    one.stop(result="It is done.")

    kinds = [str(e.kind) for e in one.events]
    assert kinds == ["TurnStarted", "ResultObserved", "TurnFinished"]
    assert one.events[1].payload["excerpt"] == "It is done."
    assert one.outcomes() == ["success"]


def test_a_repeated_stop_changes_nothing_and_says_nothing(one):
    """A Stop byte-equal to the one that began the present turn, within 2 s, is a repeat."""
    one.prompt("A")
    one.say("first", from_kind=HUMAN)
    one.stop(digest="same")
    mail = one.say("second", from_kind=HUMAN)
    before = one.timeline
    one.pass_s(1.4)
    plan = one.stop(digest="same")

    assert one.timeline == before
    assert said(plan.reply) == ""
    assert one.status(mail) == "pending"


def test_the_stop_of_a_continued_turn_ends_it_though_its_id_is_the_same(one):
    """A turn that vyane starts at Stop keeps the host's id: it is the next turn of that id."""
    one.prompt("A")
    one.say(from_kind=HUMAN)
    one.stop(digest="first")
    one.pass_s(3)
    one.stop(digest="second")

    assert one.outcomes() == ["success", "success"]
    assert one.timeline.open is None


def test_a_stop_failure_ends_the_turn_with_the_hosts_code(one):
    """An API error is a terminal with a stable code, and hands nothing over."""
    one.prompt()
    mail = one.say(from_kind=HUMAN)
    plan = one.call(HostEvent.STOP_FAILURE, error="rate_limit")

    assert one.outcomes() == ["error/rate_limit"]
    assert said(plan.reply) == ""
    assert one.status(mail) == "pending"
    assert plan.markers.due_ms >= 60_000


def test_session_end_ends_the_open_turn(one):
    """SessionEnd in a turn: the process is going."""
    one.prompt()
    one.end()

    assert one.outcomes() == ["interrupted/process_exit"]


def test_a_turn_of_a_process_that_is_gone_is_closed_at_the_next_start(one):
    """After a kill the resumed session closes the dead turn before anything else."""
    one.prompt()
    one.start("resume", open_present=False)

    assert one.outcomes() == ["interrupted/runtime_restart"]


def test_a_lost_stop_is_closed_as_stop_missed(one):
    """The host's record says idle, the turn is open, and no interrupt is on record."""
    one.prompt()
    one.watch(host_idle=True)

    assert one.outcomes() == ["interrupted/stop_missed"]


def test_the_hosts_note_of_an_interrupt_is_believed(one):
    """With the note in the transcript the same turn was interrupted by the person."""
    one.prompt()
    one.watch(host_idle=True, interrupt_mark=True)

    assert one.outcomes() == ["interrupted/user_interrupt"]


def test_tools_are_observed_once_by_their_ids(one):
    """What a batch reported is not reported again by the transcript at Stop."""
    one.prompt()
    one.batch(tools=(ToolCall("t1", "Bash"),))
    both = (ToolCall("t1", "Bash"), ToolCall("t2", "Edit", False))
    one.stop(observed=frozenset({"t1"}), transcript_tools=both)

    seen = [e.payload for e in one.events if e.kind == "ToolObserved"]
    assert [(p["tool_use_id"], p["outcome"]) for p in seen] == [("t1", "ok"), ("t2", "failed")]


# ------------------------------------------------------------------ pulls


def test_a_pull_takes_all_lanes_in_order(one):
    """Control, direct, normal, quiet, then by position."""
    control = one.say("t", kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    quiet = one.say("q", kind=MessageKind.INFO)
    normal1, normal2 = one.say("n1"), one.say("n2")
    direct = one.say("d", from_kind=HUMAN)
    one.prompt()

    assert one.shown == [control, direct, normal1, normal2, quiet]


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


@pytest.mark.parametrize("event", ["watch", "idle", "rewake"])
def test_an_unattended_session_is_never_woken_and_never_slept_for(one, event):
    """Its exit 2 would be a block, and a sleeper would hold the run open."""
    one.attended = False
    one.say(from_kind=HUMAN)
    plan = getattr(one, event)()

    assert plan.reply.wake == ""
    assert not plan.sleeps
    assert plan.showing is None


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


def test_the_logical_sessions_box_is_read_too(one):
    """Mail to `vs-…` stays in its own file; the current worker folds both."""
    one.boxes.append(one.boxes[0])
    own, other = one.say("own"), one.put(message(500, "to vs"), box=1).id
    one.prompt()
    one.tool()

    assert one.shown == [own, other]
    assert one.status(own) == one.status(other) == "consumed"


# ------------------------------------------------------------------ starts


def test_a_watch_hands_over_one_message_of_its_lane(one):
    """A start carries one message and opens the handshake; the rest stays."""
    first, second = one.say(from_kind=HUMAN), one.say(from_kind=HUMAN)
    plan = one.watch()

    assert first in plan.reply.wake
    assert second not in plan.reply.wake
    assert one.entry(first).handed
    assert one.head.handshake.id == first
    assert one.head.handshake.stage is HandshakeStage.WAIT_START


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


def consumed(one) -> list[str]:
    return [e.payload["message_id"] for e in one.events if e.kind == "TakeoverConsumed"]


def test_a_takeover_is_over_at_the_end_of_the_turn_that_read_it(one):
    """TakeoverConsumed comes after that turn's TurnFinished, once, though it was read before."""
    one.prompt()
    mail = one.say(kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    one.tool()
    one.batch()
    assert one.status(mail) == "consumed"
    assert consumed(one) == []
    one.stop()
    one.prompt()
    one.stop()

    assert consumed(one) == [mail]
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
    assert consumed(one) == []
    getattr(one, ends)()

    assert consumed(one) == [mail]


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

    assert consumed(one) == [first, second]


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
    assert consumed(one) == [mail]


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
    assert consumed(one) == []


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

    assert consumed(one) == [mail]


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


@pytest.mark.parametrize(
    "event", [e for e in HostEvent if e not in (HostEvent.OTHER, HostEvent.SUBAGENT)]
)
@pytest.mark.parametrize(
    "kind", [MessageKind.CONTEXT_INJECT, MessageKind.TAKEOVER, MessageKind.CANCEL]
)
def test_a_subagent_gets_no_mail_and_moves_no_turn(one, event, kind):
    """Its tools are denied with a fixed text while control stands; the envelope is kept."""
    one.prompt()
    mail = one.say("secret words", kind=kind, from_kind=HUMAN)
    before = one.timeline
    plan = one.call(event, subagent=True, rewake=True)

    assert one.timeline == before
    assert plan.showing is None
    assert said(plan.reply) == ""
    assert "secret" not in plan.reply.deny
    assert bool(plan.reply.deny) == (
        event is HostEvent.TOOL and kind is not MessageKind.CONTEXT_INJECT
    )
    assert plan.reply.stop == ""
    assert one.status(mail) == "pending"


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


@pytest.mark.parametrize("next_call", [HostEvent.PROMPT, HostEvent.IDLE, HostEvent.SESSION_END])
def test_a_turn_whose_delivery_was_killed_before_it_was_told_was_never_submitted(one, next_call):
    """Its tick died between the claim and the settlement, and nothing was heard of the turn."""
    one.prompt()
    mail = one.say(from_kind=HUMAN)
    one.alive = False
    one.stop()
    one.alive = True
    one.facts = {"dead": frozenset({mail})}
    one.call(next_call, turn="T2" if next_call is HostEvent.PROMPT else one.turn)

    assert one.outcomes() == ["success", "error/submit_failed"]
    assert one.entry(mail).marks == 1


def test_a_turn_whose_delivery_was_told_is_broken_off_as_any_other(one):
    one.prompt()
    one.say(from_kind=HUMAN)
    one.stop()
    one.prompt("T2")

    assert one.outcomes() == ["success", "interrupted/user_interrupt"]


def test_a_claimed_startable_message_stays_due(one):
    """If the claimer dies, something must ring again: another tick may not take `due` away."""
    one.say(from_kind=HUMAN)
    one.alive = False
    one.watch()
    plan = one.call(HostEvent.CWD_CHANGED)

    assert plan.markers.due_ms is not None


def test_a_rerun_hands_nothing_over_and_rings(one):
    """The tick before it died by a signal: what it claimed is void, and the wake file is rung."""
    mail = one.say(from_kind=HUMAN)
    one.alive = False
    one.watch()
    plan = one.call(HostEvent.RERUN, silent=True, dead=frozenset({mail}))

    assert plan.showing is None
    assert plan.wake_self
    assert one.entry(mail).marks == 1


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


# ------------------------------------------------------------------ totality


@pytest.mark.parametrize("event", HostEvent)
@pytest.mark.parametrize("rewake", [True, False])
@pytest.mark.parametrize("attended", [True, False])
def test_every_event_has_its_moment_or_none(event, rewake, attended):
    """Total; a subagent never has one; an unattended wake never exists."""
    call = HookCall("h", event, "x", "s", rewake=rewake, attended=attended)
    moment = moment_of(call)

    assert moment is None or isinstance(moment, Moment)
    assert moment_of(call._replace(subagent=True)) is None
    if not attended:
        assert moment not in (Moment.WATCH, Moment.REWAKE)
    assert set(UNTURNED) <= set(Moment)


words = st.sampled_from(["", "A", "B", "C"])
sessions = st.sampled_from(["S1", "S1", "S1", "S2"])
calls = st.builds(
    HookCall,
    host=st.just("claude-code"),
    event=st.sampled_from(list(HostEvent)),
    name=st.sampled_from(["Stop", "PreToolUse", "FutureEvent", ""]),
    session=sessions,
    rewake=st.booleans(),
    attended=st.sampled_from([True, True, True, False]),
    subagent=st.sampled_from([False, False, False, True]),
    turn=words,
    trigger=st.sampled_from(list(Trigger)),
    source=st.sampled_from(["", "startup", "resume", "clear", "compact", "fork"]),
    tools=st.sampled_from([(), (ToolCall("t1", "Bash"),), (ToolCall("", "?", False),) * 2]),
    result=st.sampled_from(["", "done"]),
    error=st.sampled_from(["", "rate_limit", "never heard of"]),
    digest=st.sampled_from(["", "d1", "d2"]),
    process=st.sampled_from([None, HOST]),
)
mails = st.builds(
    dict,
    kind=st.sampled_from(list(MessageKind)),
    from_kind=st.sampled_from(list(FromKind)),
    to_kind=st.sampled_from([ToKind.WORKER, ToKind.BROADCAST]),
    position=st.sampled_from(["before_next_turn", "after_current_tool_call", "never", None]),
    ttl=st.sampled_from([1.0, 86_400.0]),
    text=st.sampled_from(["", "hi", "x" * 5000, "y" * 12_000, "😀" * 4000]),
)
weather = st.builds(
    dict,
    host_idle=st.booleans(),
    interrupt_mark=st.booleans(),
    open_present=st.sampled_from([None, True, False]),
    gone=st.sampled_from([frozenset(), frozenset({"S2"})]),
    silent=st.sampled_from([False, False, False, True]),
    observed=st.sampled_from([frozenset(), frozenset({"t1"})]),
    usage=st.sampled_from([None, {"requests": 1}]),
    diagnostic=st.sampled_from(["", "no"]),
    introduce=st.booleans(),
    guard=st.sampled_from([0, 7]),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("mail"), mails),
        st.tuples(
            st.just("call"),
            st.tuples(calls, weather, st.sampled_from(["ok", "ok", "ok", "fails", "dies"])),
        ),
        st.tuples(st.just("time"), st.sampled_from([-7200, 0, 1, 3, 31, 301, 4000, 90_000])),
    ),
    min_size=1,
    max_size=25,
)


@given(script=steps)
def test_any_story_of_calls_and_mail_keeps_the_promises(script):
    """
    Whatever comes in whatever order, a plan is made; at most one message starts a
    turn; subagents get nothing; an unattended run is never woken; a message that is
    claimed, handed, delivered or settled is not shown again, unless it came back
    marked; quiet mail starts nothing; and no output is longer than hosts take.
    """
    one = Scripted(limits=DeliveryLimits(starts_per_hour=5))
    shown: dict[str, int] = {}
    dying: set[str] = set()
    for what, value in script:
        if what == "time":
            one.boot_ms = max(one.boot_ms + value * 1000, 0)
            one.now_ms += value * 1000
            continue
        if what == "mail":
            payload = {"position": value["position"]} if value["position"] else {}
            one.say(
                value["text"],
                kind=value["kind"],
                from_kind=value["from_kind"],
                to_kind=value["to_kind"],
                ttl=value["ttl"],
                ts=one.now_ms / 1000,
                **payload,
            )
            continue
        call, facts, fate = value
        one.session = call.session
        before = {e.message.id: e for b in one.boxes for e in b.entries}
        one.alive = fate != "dies"
        plan = one.run(call, fails=fate == "fails", dead=frozenset(dying), **facts)
        after = {e.message.id: e for b in one.boxes for e in b.entries}
        dying = {e.message.id for e in after.values() if e.claim is not None}
        given_now = [] if plan.showing is None else [e for _, e in plan.showing.entries]
        for entry in given_now:
            mail = entry.message.id
            known = before[mail]
            assert known.status in (MessageStatus.PENDING, MessageStatus.DELIVERED)
            assert known.waiting or entry.marks > known.marks
            count = shown.get(mail, 0)
            assert entry.marks >= count, "shown again without a mark"
            shown[mail] = count + 1
        if call.subagent:
            assert said(plan.reply) == plan.reply.stop == ""
            assert plan.transition.events == ()
        if facts["silent"]:
            assert said(plan.reply) == ""
        if plan.reply.wake:
            assert call.attended
            assert len(given_now) == 1
            assert given_now[0].message.lane is not Lane.QUIET
        if plan.showing is not None and plan.showing.start is not None:
            assert plan.showing.start.message.lane is not Lane.QUIET
        assert len(said(plan.reply).encode("utf-16-le")) // 2 <= 9500
        assert sum(c.op is Op.CLAIM and c.box == 0 for c in plan.changes) <= 1
        for mail, entry in before.items():
            if entry.settled:
                assert after[mail].status is entry.status
        head = plan.transition.head
        seqs = [event.seq for event in plan.transition.events]
        assert seqs == sorted(seqs)
        assert not seqs or seqs[-1] == head.seq
        starts = [e for e in plan.transition.events if e.kind == "TurnStarted"]
        ends = [e for e in plan.transition.events if e.kind == "TurnFinished"]
        assert abs(len(starts) - len(ends)) <= 1


@given(call=calls, facts=weather, kind=st.sampled_from(list(MessageKind)))
def test_a_plan_is_a_function_of_its_inputs(call, facts, kind):
    """The same inputs give the same plan."""
    one = Scripted()
    one.say(kind=kind, from_kind=HUMAN)
    snapshot = one.snapshot(**facts)

    assert plan_tick(snapshot, call) == plan_tick(snapshot, call)


def test_a_claim_names_its_process_and_guard(one):
    """So that its death can be told, and its rerun can void it."""
    one.say()
    one.alive = False
    one.prompt(guard=77)
    claim = next(e for b in one.boxes for e in b.entries).claim

    assert claim.by == ME
    assert claim.guard == 77


def test_a_turn_that_another_stop_hook_lets_go_on_is_followed(one):
    """The host keeps its id: its tools take mail and takeovers, and its Stop ends it."""
    one.prompt()
    one.stop()
    assert one.outcomes() == ["success"]
    mail = one.say("hello")
    one.batch()
    assert one.shown == [mail]
    order = one.say("stop", kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    assert one.tool().reply.deny
    assert one.shown == [mail, order]
    one.batch()
    one.stop(stop_active=True)

    assert one.outcomes() == ["success", "success"]


def test_a_stop_that_is_the_same_stop_ends_nothing_twice(one):
    """Three byte-equal hooks of one Stop: one terminal."""
    one.prompt()
    for _ in range(3):
        one.stop(digest="same", stop_active=True)

    assert one.outcomes() == ["success"]
