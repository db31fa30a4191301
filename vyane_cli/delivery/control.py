"""Control mail in a running turn: the tools that it denies, the turn that it ends."""

from __future__ import annotations

from vyane_cli.delivery.drafts import Draft
from vyane_cli.delivery.gating import Moment
from vyane_cli.delivery.plan import Showing, Snapshot, TickPlan
from vyane_cli.hosts.port import HookCall, Reply
from vyane_cli.mail.envelope import paginate
from vyane_cli.mail.mailbox import Entry, Op
from vyane_cli.mail.message import Kind, Lane, Status
from vyane_cli.timeline.turns import Transition


def interrupt(
    draft: Draft,
    snapshot: Snapshot,
    call: HookCall,
    state: Transition,
    given: list[tuple[int, Entry]],
) -> TickPlan:
    """The next tool does not run: interruption and injection in one step."""
    templates = snapshot.templates
    cancels = [item for item in given if item[1].message.kind is Kind.CANCEL]
    takeovers = [item for item in given if item[1].message.kind is not Kind.CANCEL]
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
            (first,),
            str(Moment.TOOL),
            call.session,
            None,
            "tool/control",
            turn,
            process=call.process,
        )
        return TickPlan(reply, state, showing=showing)
    if cancels:
        return TickPlan(Reply(call.name, deny=templates.fill("deny-cancel")), state)
    if any(_interrupting(entry, call) for _, entry in draft.all()):
        return TickPlan(Reply(call.name, deny=templates.fill("deny-batch")), state)
    return TickPlan(Reply(call.name), state)


def _interrupting(entry: Entry, call: HookCall) -> bool:
    """A takeover that was given at a tool of this batch: its other calls must not run either."""
    shown = entry.status is Status.DELIVERED or entry.claim is not None
    control = entry.message.lane is Lane.CONTROL and entry.rule in ("tool/control", "")
    same = entry.turn == call.turn or entry.claim is not None
    return shown and control and same and entry.message.kind is Kind.TAKEOVER


def end_turn(
    draft: Draft,
    snapshot: Snapshot,
    call: HookCall,
    state: Transition,
    cancels: list[tuple[int, Entry]],
) -> TickPlan:
    """At the end of a batch a cancel ends the turn: consumed when the host has been told."""
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
        tuple(cancels),
        str(Moment.BATCH),
        call.session,
        None,
        "batch/cancel",
        turn,
        process=call.process,
        ends=True,
    )
    return TickPlan(Reply(call.name, stop=reason), state, showing=showing)


def settle_idle_cancels(draft: Draft, state: Transition) -> None:
    """Nothing runs that could be stopped: the cancel is settled without a start."""
    idle = [item for item in draft.all() if item[1].waiting and item[1].message.kind is Kind.CANCEL]
    if idle and (state.head.open is None or state.events):
        draft.put(Op.CONSUMED, idle, evidence="idle", rule="cancel/nothing-runs")
