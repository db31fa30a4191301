"""One hook call as a plan: HookCall + Snapshot → everything the call changes, as data."""

from __future__ import annotations

from vyane_cli.delivery.deliver import hand_over
from vyane_cli.delivery.drafts import Draft
from vyane_cli.delivery.evidence import follow_takeovers, keep_handshake, settle_evidence
from vyane_cli.delivery.gating import Moment
from vyane_cli.delivery.plan import Snapshot, TickPlan, moment_of
from vyane_cli.delivery.settling import plan_markers
from vyane_cli.delivery.turning import move_turn
from vyane_cli.hosts.port import Event, HookCall, Reply
from vyane_cli.mail.mailbox import Op
from vyane_cli.mail.message import Kind
from vyane_cli.timeline import turns
from vyane_cli.timeline.turns import Standing, Transition

FAILURE_PAUSE_MS = 60_000
"""After an API error other sessions' ticks ring no earlier than this."""


def plan_tick(snapshot: Snapshot, call: HookCall) -> TickPlan:
    """Plan one call. Pure and total: the same inputs give the same plan, and it never raises."""
    if call.subagent:
        return _subagent(snapshot, call)
    draft = Draft(snapshot)
    standing = turns.standing(snapshot.timeline, call, snapshot.clock)
    state, proves = move_turn(snapshot, call, standing)
    stale = standing is Standing.OLD and call.event in turns.STEPS
    read = settle_evidence(draft, snapshot, call, state, proves)
    state = follow_takeovers(draft, snapshot.clock, call, state, read)
    keep_handshake(draft, snapshot, call, state)
    moment = moment_of(call)
    if moment is Moment.PROMPT and standing is Standing.SAME:
        moment = None  # in the middle of a turn: the prompt event is a receipt, no pull
    if stale or snapshot.silent:
        moment = None
    if moment is None:
        plan = TickPlan(Reply(call.name), state)
    else:
        plan = hand_over(draft, snapshot, call, moment, state)
    return _finish(draft, snapshot, call, plan, stale)


def _subagent(snapshot: Snapshot, call: HookCall) -> TickPlan:
    """A subagent never receives messages and moves no turn; under control its tools are denied."""
    draft = Draft(snapshot)
    deny = ""
    if call.event is Event.TOOL:
        for _, entry in draft.all():
            if entry.message.interrupts and not entry.settled:
                cancel = entry.message.kind is Kind.CANCEL
                deny = snapshot.templates.fill("deny-cancel" if cancel else "deny-subagent")
                break
    return TickPlan(Reply(call.name, deny=deny), Transition(snapshot.timeline), None)


def _finish(
    draft: Draft, snapshot: Snapshot, call: HookCall, plan: TickPlan, stale: bool
) -> TickPlan:
    reply = plan.reply
    starts = call.event is Event.SESSION_START and not call.rewake
    if (starts or call.event is Event.CWD_CHANGED) and snapshot.wake_path:
        reply = reply._replace(watch=(snapshot.wake_path,))
    for entry, decision in plan.held:
        if entry.rule != decision.rule and decision.rule != "no-room":
            number = next(n for n, e in draft.all() if e.message.id == entry.message.id)
            draft.put(
                Op.ATTEMPT,
                [(number, entry)],
                transport=str(moment_of(call) or call.name),
                verdict=str(decision.verdict),
                rule=decision.rule,
                readings=dict(decision.readings),
                again_ms=decision.again_ms,
            )
    markers = plan_markers(draft.mailboxes(), snapshot.clock, snapshot.limits)
    if call.event is Event.STOP_FAILURE and markers.due_ms is not None:
        markers = markers._replace(due_ms=max(markers.due_ms, FAILURE_PAUSE_MS))
    startable = markers.due_ms is not None
    at_stop = call.event is Event.STOP and not stale
    watching = call.event in (Event.FILE_CHANGED, Event.IDLE) and call.rewake and call.attended
    return plan._replace(
        reply=reply,
        changes=tuple(draft.changes),
        markers=markers,
        wake_self=startable and (at_stop or snapshot.silent),
        sleeps=startable and watching and plan.showing is None,
        need_user=tuple(draft.need_user),
        expired=tuple(draft.expired),
    )
