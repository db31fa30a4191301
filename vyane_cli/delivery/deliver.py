"""Hand-over, the third step of a plan: the mail that a call shows, and how it is settled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vyane_cli.delivery.gating import (
    Decision,
    DeliveryVerdict,
    Gate,
    Moment,
    Readings,
    ask_fence,
    decide,
    recent_starts,
)
from vyane_cli.delivery.plan import (
    CANCELLING,
    UNTURNED,
    MailboxDrafts,
    Showing,
    Snapshot,
    TickPlan,
    in_order,
    origin_of,
)
from vyane_cli.hosts.port import HookCall, HostEvent, Reply, Trigger
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.config import DeliveryLimits
from vyane_cli.mail.envelope import paginate
from vyane_cli.mail.mailbox import (
    Handshake,
    HandshakeStage,
    Head,
    InboxChange,
    Mailbox,
    MailEntry,
    Op,
    takeover_of,
)
from vyane_cli.mail.message import Lane, MessageKind, MessageStatus, Position
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.session import Markers
from vyane_cli.timeline import turns
from vyane_cli.timeline.events import EventKind, TurnOutcome
from vyane_cli.timeline.turns import Transition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def hand_over(
    draft: MailboxDrafts, snapshot: Snapshot, call: HookCall, moment: Moment, state: Transition
) -> TickPlan:
    """Choose, render and claim the mail that this call hands over. Return the plan."""
    idle = (Moment.PROMPT, Moment.STOP, Moment.WATCH, Moment.SESSION_START)
    if moment in idle and (call.attended or moment is not Moment.PROMPT):
        settle_idle_cancels(draft, state)  # not at the prompt that starts a child's only turn
    liveness = Liveness.BUSY if state.head.open is not None else Liveness.IDLE
    limits = snapshot.limits
    opened = snapshot.timeline.open
    chain = opened.continued if opened is not None and call.event is HostEvent.STOP else 0
    given: list[tuple[int, MailEntry]] = []
    held: list[tuple[MailEntry, Decision]] = []
    start: tuple[int, MailEntry] | None = None
    rule = ""
    takeover = takeover_of(draft.mailboxes())
    for number, entry in in_order(draft):
        if entry.message.kind is MessageKind.CANCEL and moment not in CANCELLING:
            continue  # a cancel is not shown as text: it denies tools and ends the turn
        readings = Readings(draft.head, liveness, snapshot.clock.boot_ms, limits)
        fence = ask_fence(entry.message, takeover)
        lane, position = entry.message.lane, entry.message.position
        decision = fence or decide(moment, lane, position, readings)
        if decision.verdict is DeliveryVerdict.START and chain >= limits.stop_continuations:
            decision = Decision(DeliveryVerdict.HOLD, "stop-cap", 0, {"in_a_row": chain})
        if decision.rule == Gate.RATE_GUARD:
            draft.need_user.append(
                f"vyane started {limits.starts_per_hour} turns in {snapshot.name} within an hour; "
                "it starts no more for now: look whether two sessions keep answering each other"
            )
        if decision.verdict is DeliveryVerdict.START and start is None:
            start, rule = (number, entry), decision.rule
        elif decision.verdict is DeliveryVerdict.DELIVER:
            given.append((number, entry))
            rule = rule or decision.rule
        elif decision.verdict is DeliveryVerdict.HOLD:
            held.append((entry, decision))
    if moment is Moment.STOP and start is not None:  # other mail goes along with the start
        rest = [
            item
            for item in in_order(draft)
            if item != start
            and item[1].message.kind is not MessageKind.CANCEL
            and ask_fence(item[1].message, takeover) is None
        ]
        held = [one for one in held if one[1].rule == "takeover-fence"]
        given = [start, *rest]
    elif start is not None:
        given = [start]
    if moment is Moment.TOOL:
        return interrupt(draft, snapshot, call, state, given)
    cancels = [item for item in given if item[1].message.kind is MessageKind.CANCEL]
    if cancels and moment is Moment.BATCH:
        return end_turn(draft, snapshot, call, state, cancels)
    return _show(draft, snapshot, call, moment, state, given, start, rule, held)


def _show(
    draft: MailboxDrafts,
    snapshot: Snapshot,
    call: HookCall,
    moment: Moment,
    state: Transition,
    given: list[tuple[int, MailEntry]],
    start: tuple[int, MailEntry] | None,
    rule: str,
    held: list[tuple[MailEntry, Decision]],
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
        held.append((entry, Decision(DeliveryVerdict.HOLD, "no-room", 0)))
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
        stage = HandshakeStage.WAIT_START if by_wake else HandshakeStage.WAIT_DONE
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
        entries=shown,
        transport=str(moment),
        session=call.session,
        start=start[1] if start is not None else None,
        rule=rule,
        turn=turn if moment not in UNTURNED else "",
        handed=by_wake,
        process=call.process,
    )
    return TickPlan(reply, state, showing=showing, held=tuple(held))


def _continue(
    state: Transition, snapshot: Snapshot, call: HookCall, shown: Iterable[tuple[int, MailEntry]]
) -> Transition:
    """Start the turn that a delivery at a Stop makes happen. The host keeps its turn id for it."""
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


def interrupt(
    draft: MailboxDrafts,
    snapshot: Snapshot,
    call: HookCall,
    state: Transition,
    given: list[tuple[int, MailEntry]],
) -> TickPlan:
    """Plan a call before a tool: deny the tool because of a takeover or a cancel.

    The reply that denies the tool also shows the takeover: interruption and injection in one step.
    """
    templates = snapshot.templates
    cancels = [item for item in given if item[1].message.kind is MessageKind.CANCEL]
    takeovers = [item for item in given if item[1].message.kind is not MessageKind.CANCEL]
    if takeovers and not cancels:
        first = takeovers[0]
        page = paginate([first[1]], templates, last_step=snapshot.last_step)
        reply = Reply(call.name, context=page.text, deny=templates.fill("deny-takeover"))
        draft.put(
            Op.CLAIM,
            [first],
            draft.head,
            by=snapshot.me._asdict(),
            guard=snapshot.guard,
            transport=str(Moment.TOOL),
            session=call.session,
            rule="tool/control",
        )
        turn = state.head.open.native if state.head.open is not None else call.turn
        showing = Showing(
            entries=(first,),
            transport=str(Moment.TOOL),
            session=call.session,
            start=None,
            rule="tool/control",
            turn=turn,
            process=call.process,
        )
        return TickPlan(reply, state, showing=showing)
    if cancels:
        return TickPlan(Reply(call.name, deny=templates.fill("deny-cancel")), state)
    if any(_interrupting(entry, call) for _, entry in draft.all()):
        return TickPlan(Reply(call.name, deny=templates.fill("deny-batch")), state)
    return TickPlan(Reply(call.name), state)


def _interrupting(entry: MailEntry, call: HookCall) -> bool:
    """Return whether the entry is a takeover that was given at a tool of this batch.

    The other calls of that batch must not run either.
    """
    shown = entry.status is MessageStatus.DELIVERED or entry.claim is not None
    control = entry.message.lane is Lane.CONTROL and entry.rule in ("tool/control", "")
    same = entry.turn == call.turn or entry.claim is not None
    return shown and control and same and entry.message.kind is MessageKind.TAKEOVER


def end_turn(
    draft: MailboxDrafts,
    snapshot: Snapshot,
    call: HookCall,
    state: Transition,
    cancels: list[tuple[int, MailEntry]],
) -> TickPlan:
    """End the turn for a cancel, at the end of a batch.

    The cancel is consumed when the reply has been written to the host.
    """
    reason = str(cancels[0][1].message.payload.get("reason") or "cancelled")
    draft.put(
        Op.CLAIM,
        cancels,
        draft.head,
        by=snapshot.me._asdict(),
        guard=snapshot.guard,
        transport=str(Moment.BATCH),
        session=call.session,
        rule="batch/cancel",
    )
    turn = state.head.open.native if state.head.open is not None else call.turn
    showing = Showing(
        entries=tuple(cancels),
        transport=str(Moment.BATCH),
        session=call.session,
        start=None,
        rule="batch/cancel",
        turn=turn,
        process=call.process,
        ends=True,
    )
    return TickPlan(Reply(call.name, stop=reason), state, showing=showing)


def settle_idle_cancels(draft: MailboxDrafts, state: Transition) -> None:
    """Settle the waiting cancels without a start, if nothing runs that they could stop."""
    idle = [
        item
        for item in draft.all()
        if item[1].waiting and item[1].message.kind is MessageKind.CANCEL
    ]
    if idle and (state.head.open is None or state.events):
        draft.put(Op.CONSUMED, idle, evidence="idle", rule="cancel/nothing-runs")


def plan_markers(boxes: Iterable[Mailbox], clock: Clock, limits: DeliveryLimits) -> Markers:
    """Return the markers that match these inboxes. The first inbox is the worker's own."""
    pending = control = proof = False
    due: int | None = None
    head: Head | None = None
    boxes = tuple(boxes)
    takeover = takeover_of(boxes)
    for box in boxes:
        head = box.head if head is None else head
        for entry in box.unsettled:
            message = entry.message
            if entry.status is MessageStatus.DELIVERED or entry.claim is not None:
                proof = True
                by_tool = message.lane is Lane.CONTROL and entry.rule == "tool/control"
                control = control or by_tool
                if entry.claim is not None and message.startable:  # in case the process dies
                    grace = limits.handed_grace_ms
                    due = grace if due is None else min(due, grace)
                continue
            control = control or message.interrupts
            later = entry.handed or message.position is Position.BEFORE_NEXT_TURN
            later = later or ask_fence(message, takeover) is not None
            pending = pending or not later
            if message.startable and due != 0:
                wait = _wait_ms(entry, head, clock, limits)
                due = wait if due is None else min(due, wait)
    return Markers(pending, control, proof, due)


def _wait_ms(entry: MailEntry, head: Head, clock: Clock, limits: DeliveryLimits) -> int:
    """Return the milliseconds until another attempt is worthwhile; 0: now, or unknown."""
    if entry.handed:
        return limits.handed_grace_ms
    readings = Readings(head, Liveness.IDLE, clock.boot_ms, limits)
    decision = decide(Moment.WATCH, entry.message.lane, entry.message.position, readings)
    return decision.again_ms or 0


def plan_unshown(head: Head, showing: Showing, clock: Clock) -> tuple[InboxChange, ...]:
    """Return the changes to record when the output could not be written.

    The messages are pending again, marked.
    """
    start = showing.start
    if start is not None and head.handshake is not None and head.handshake.id == start.message.id:
        head = head._replace(handshake=None)
    fields = {"at": clock.at, "boot_ms": clock.boot_ms, "reason": "output-failed"}
    return _for_each_box(Op.RETURNED, showing, fields, head)


def plan_settle(head: Head, showing: Showing, clock: Clock) -> tuple[InboxChange, ...]:
    """Return the changes to record when the output has been written, based on the current head."""
    start = showing.start
    if start is not None:
        starts = (*recent_starts(head, clock.boot_ms), clock.boot_ms)
        head = head._replace(starts_ms=starts)
        if not showing.handed and start.message.lane is Lane.NORMAL:
            head = head._replace(normal_ms=clock.boot_ms)
    fields: dict[str, Any] = {
        "at": clock.at,
        "boot_ms": clock.boot_ms,
        "session": showing.session,
        "transport": showing.transport,
        "turn": showing.turn,
        "rule": showing.rule,
    }
    if showing.process is not None:
        fields["host"] = [showing.process.pid, showing.process.start]
    if start is not None:
        fields["start"] = start.message.id
    if showing.ends:
        return _for_each_box(Op.CONSUMED, showing, {**fields, "evidence": "told"}, head)
    return _for_each_box(Op.HANDED if showing.handed else Op.DELIVERED, showing, fields, head)


def settle_turn(state: Transition, showing: Showing, clock: Clock, *, shown: bool) -> Transition:
    """Return the transition that records whether the output was written or failed."""
    payload = {
        "message_ids": [entry.message.id for _, entry in showing.entries],
        "transport": showing.transport,
        "outcome": "shown" if shown else "output-failed",
        "rule": showing.rule,
        "redelivered": sum(1 for _, entry in showing.entries if entry.marks),
    }
    state = turns.emit(state, EventKind.DELIVERY_ATTEMPTED, payload, clock)
    if not shown and showing.start is not None and not showing.handed:
        return turns.finish(state, clock, TurnOutcome.ERROR, "submit_failed")
    if shown and showing.ends:
        return turns.finish(state, clock, TurnOutcome.CANCELLED, "cancel_requested")
    return state


def _for_each_box(
    op: Op, showing: Showing, fields: Mapping[str, Any], head: Head
) -> tuple[InboxChange, ...]:
    touched: dict[int, list[str]] = {0: []}  # only the worker's own inbox has a head
    for number, entry in showing.entries:
        touched.setdefault(number, []).append(entry.message.id)
    return tuple(
        InboxChange(
            box=number, op=op, ids=tuple(ids), fields=fields, head=head if number == 0 else Head()
        )
        for number, ids in touched.items()
    )
