"""The first step of a plan, the turn; and what is true of each plan as a whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.scripted import HOST, HUMAN, Scripted, said
from vyane_cli.delivery.decide import plan_tick
from vyane_cli.hosts.port import HookCall, HostEvent, ToolCall, Trigger
from vyane_cli.kernel.config import DeliveryLimits
from vyane_cli.mail.mailbox import Op
from vyane_cli.mail.message import Lane, MessageKind, MessageStatus, ToKind
from vyane_cli.sessions.speaker import FromKind

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


# ------------------------------------------------------------------ subagents


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


# ------------------------------------------------------------------ calls that a death cut short


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


def test_a_rerun_hands_nothing_over_and_rings(one):
    """The tick before it died by a signal: what it claimed is void, and the wake file is rung."""
    mail = one.say(from_kind=HUMAN)
    one.alive = False
    one.watch()
    plan = one.call(HostEvent.RERUN, silent=True, dead=frozenset({mail}))

    assert plan.showing is None
    assert plan.wake_self
    assert one.entry(mail).marks == 1


# ------------------------------------------------------------------ each plan as a whole


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
