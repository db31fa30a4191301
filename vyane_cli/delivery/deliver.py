"""What a call hands over: the third step of a plan."""

from __future__ import annotations

from collections.abc import Iterable

from vyane_cli.delivery.control import end_turn, interrupt, settle_idle_cancels
from vyane_cli.delivery.drafts import Draft, in_order
from vyane_cli.delivery.gating import Decision, Gate, Moment, Readings, Verdict, ask_fence, decide
from vyane_cli.delivery.plan import CANCELLING, UNTURNED, Showing, Snapshot, TickPlan, origin_of
from vyane_cli.hosts.port import Event, HookCall, Reply, Trigger
from vyane_cli.mail.envelope import paginate
from vyane_cli.mail.mailbox import Entry, Handshake, Op, Stage, takeover_of
from vyane_cli.mail.message import Kind
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.timeline import turns
from vyane_cli.timeline.turns import Transition


def hand_over(
    draft: Draft, snapshot: Snapshot, call: HookCall, moment: Moment, state: Transition
) -> TickPlan:
    """Choose, render and claim what this call hands over."""
    idle = (Moment.PROMPT, Moment.STOP, Moment.WATCH, Moment.SESSION_START)
    if moment in idle and (call.attended or moment is not Moment.PROMPT):
        settle_idle_cancels(draft, state)  # not that of a child whose one turn begins here
    liveness = Liveness.BUSY if state.head.open is not None else Liveness.IDLE
    limits = snapshot.limits
    opened = snapshot.timeline.open
    chain = opened.continued if opened is not None and call.event is Event.STOP else 0
    given: list[tuple[int, Entry]] = []
    held: list[tuple[Entry, Decision]] = []
    start: tuple[int, Entry] | None = None
    rule = ""
    takeover = takeover_of(draft.mailboxes())
    for number, entry in in_order(draft):
        if entry.message.kind is Kind.CANCEL and moment not in CANCELLING:
            continue  # it is no text: it denies tools and ends the turn
        readings = Readings(draft.head, liveness, snapshot.clock.boot_ms, limits)
        fence = ask_fence(entry.message, takeover)
        lane, position = entry.message.lane, entry.message.position
        decision = fence or decide(moment, lane, position, readings)
        if decision.verdict is Verdict.START and chain >= limits.stop_continuations:
            decision = Decision(Verdict.HOLD, "stop-cap", 0, {"in_a_row": chain})
        if decision.rule == Gate.RATE_GUARD:
            draft.need_user.append(
                f"vyane started {limits.starts_per_hour} turns in {snapshot.name} within an hour; "
                "it starts no more for now: look whether two sessions keep answering each other"
            )
        if decision.verdict is Verdict.START and start is None:
            start, rule = (number, entry), decision.rule
        elif decision.verdict is Verdict.DELIVER:
            given.append((number, entry))
            rule = rule or decision.rule
        elif decision.verdict is Verdict.HOLD:
            held.append((entry, decision))
    if moment is Moment.STOP and start is not None:  # other mail rides along
        rest = [
            item
            for item in in_order(draft)
            if item != start
            and item[1].message.kind is not Kind.CANCEL
            and ask_fence(item[1].message, takeover) is None
        ]
        held = [one for one in held if one[1].rule == "takeover-fence"]
        given = [start, *rest]
    elif start is not None:
        given = [start]
    if moment is Moment.TOOL:
        return interrupt(draft, snapshot, call, state, given)
    cancels = [item for item in given if item[1].message.kind is Kind.CANCEL]
    if cancels and moment is Moment.BATCH:
        return end_turn(draft, snapshot, call, state, cancels)
    return _show(draft, snapshot, call, moment, state, given, start, rule, held)


def _show(
    draft: Draft,
    snapshot: Snapshot,
    call: HookCall,
    moment: Moment,
    state: Transition,
    given: list[tuple[int, Entry]],
    start: tuple[int, Entry] | None,
    rule: str,
    held: list[tuple[Entry, Decision]],
) -> TickPlan:
    templates = snapshot.templates
    preface = ""
    if snapshot.introduce and moment in (Moment.SESSION_START, Moment.UNATTENDED_START):
        preface = templates.fill("introduction", name=snapshot.name)
    page = paginate(
        [entry for _, entry in given], templates, preface=preface, last_step=snapshot.last_step
    )
    shown = tuple(item for item in given if item[1] in page.shown)
    for _, entry in given[len(shown) :]:
        held.append((entry, Decision(Verdict.HOLD, "no-room", 0)))
    reply = Reply(call.name)
    match moment:
        case Moment.WATCH | Moment.REWAKE:
            reply = reply._replace(wake=page.text)
        case Moment.CALL:
            reply = reply._replace(text=page.text)
        case _:
            reply = reply._replace(context=page.text)
    if not shown:
        return TickPlan(reply, state, held=tuple(held))
    by_wake = moment in (Moment.WATCH, Moment.REWAKE)
    head = draft.head
    turn = call.turn
    if start is not None:
        stage = Stage.WAIT_START if by_wake else Stage.WAIT_DONE
        head = head._replace(
            handshake=Handshake(start[1].message.id, call.session, stage, snapshot.clock.boot_ms)
        )
        if not by_wake:
            state = _continue(state, snapshot, call, shown)
    elif state.head.open is not None:
        turn = state.head.open.native
    draft.put(
        Op.CLAIM,
        shown,
        head,
        by=snapshot.me._asdict(),
        guard=snapshot.guard,
        transport=str(moment),
        session=call.session,
        rule=rule,
    )
    showing = Showing(
        shown,
        str(moment),
        call.session,
        start[1] if start is not None else None,
        rule,
        turn if moment not in UNTURNED else "",
        handed=by_wake,
        process=call.process,
    )
    return TickPlan(reply, state, showing=showing, held=tuple(held))


def _continue(
    state: Transition, snapshot: Snapshot, call: HookCall, shown: Iterable[tuple[int, Entry]]
) -> Transition:
    """The turn that a delivery at a Stop begins: the host keeps its id for it."""
    before = snapshot.timeline.open
    return turns.start(
        state,
        snapshot.clock,
        turn=snapshot.ids.next_turn,
        token=snapshot.ids.next_token,
        trigger=Trigger.DELIVERY,
        session=call.session,
        native=call.turn,
        digest=call.digest,
        continued=(before.continued if before is not None else 0) + 1,
        process=call.process,
        transcript_bytes=snapshot.transcript_bytes,
        payload={"message_ids": [entry.message.id for _, entry in shown]},
        origin=origin_of(call),
    )
