"""The plan of one hook call: HookCall + Snapshot → everything that the call changes, as data."""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.delivery.deliver import hand_over, plan_markers
from vyane_cli.delivery.evidence import follow_takeovers, keep_handshake, settle_evidence
from vyane_cli.delivery.gating import Moment
from vyane_cli.delivery.plan import MailboxDrafts, Snapshot, TickPlan, moment_of, origin_of
from vyane_cli.hosts.port import HookCall, HostEvent, Reply, Trigger
from vyane_cli.mail.mailbox import Op
from vyane_cli.mail.message import MessageKind
from vyane_cli.timeline import turns
from vyane_cli.timeline.events import EventKind, TurnOutcome
from vyane_cli.timeline.turns import Standing, Transition, TurnStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


FAILURE_PAUSE_MS = 60_000
"""Milliseconds after a session's API error before the ticks of other sessions ring it."""


def plan_tick(snapshot: Snapshot, call: HookCall) -> TickPlan:
    """Plan one call. Pure and total: the same inputs give the same plan, and no input raises."""
    if call.subagent:
        return _subagent(snapshot, call)
    draft = MailboxDrafts(snapshot)
    standing = turns.standing(snapshot.timeline, call, snapshot.clock)
    state, proves = move_turn(snapshot, call, standing)
    stale = standing is Standing.OLD and call.event in turns.STEPS
    read = settle_evidence(draft, snapshot, call, state, proves)
    state = follow_takeovers(draft, snapshot.clock, call, state, read)
    keep_handshake(draft, snapshot, call, state)
    moment = moment_of(call)
    if moment is Moment.PROMPT and standing is Standing.SAME:
        moment = None  # in the middle of a turn the prompt event is only a receipt
    if stale or snapshot.silent:
        moment = None
    if moment is None:
        plan = TickPlan(Reply(call.name), state)
    else:
        plan = hand_over(draft, snapshot, call, moment, state)
    return _finish(draft, snapshot, call, plan, stale)


def _subagent(snapshot: Snapshot, call: HookCall) -> TickPlan:
    """Plan the call of a subagent: it never receives messages and never moves a turn.

    Its tool calls are denied while a message that interrupts is unsettled.
    """
    draft = MailboxDrafts(snapshot)
    deny = ""
    if call.event is HostEvent.TOOL:
        for _, entry in draft.all():
            if entry.message.interrupts and not entry.settled:
                cancel = entry.message.kind is MessageKind.CANCEL
                deny = snapshot.templates.fill("deny-cancel" if cancel else "deny-subagent")
                break
    return TickPlan(Reply(call.name, deny=deny), Transition(snapshot.timeline), None)


def _finish(
    draft: MailboxDrafts, snapshot: Snapshot, call: HookCall, plan: TickPlan, stale: bool
) -> TickPlan:
    reply = plan.reply
    starts = call.event is HostEvent.SESSION_START and not call.rewake
    if (starts or call.event is HostEvent.CWD_CHANGED) and snapshot.wake_path:
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
    if call.event is HostEvent.STOP_FAILURE and markers.due_ms is not None:
        markers = markers._replace(due_ms=max(markers.due_ms, FAILURE_PAUSE_MS))
    startable = markers.due_ms is not None
    at_stop = call.event is HostEvent.STOP and not stale
    watching = (
        call.event in (HostEvent.FILE_CHANGED, HostEvent.IDLE) and call.rewake and call.attended
    )
    return plan._replace(
        reply=reply,
        changes=tuple(draft.changes),
        markers=markers,
        wake_self=startable and (at_stop or snapshot.silent),
        sleeps=startable and watching and plan.showing is None,
        need_user=tuple(draft.need_user),
        expired=tuple(draft.expired),
    )


def move_turn(snapshot: Snapshot, call: HookCall, standing: Standing) -> tuple[Transition, bool]:
    """Move the turn by one call.

    Return the transition, and whether the call proves that its turn continued.
    """
    state = Transition(snapshot.timeline)
    clock = snapshot.clock
    origin = origin_of(call)
    opened = state.head.open
    if opened is not None and _is_over(snapshot, call, opened):
        gone = opened.session != call.session or snapshot.open_present is False
        code = turns.interrupted_code(mark=snapshot.interrupt_mark, gone=gone)
        state = _break_off(state, snapshot, code, origin)
    proves = False
    for step in turns.STEPS.get(call.event, {}).get(standing, ()):
        match step:
            case TurnStep.INTERRUPT:
                state = _break_off(state, snapshot, "user_interrupt", origin)
            case TurnStep.START:
                state = _start(state, snapshot, call, origin)
            case TurnStep.PROVE:
                proves = True
            case TurnStep.TOOLS:
                state = _observe(state, snapshot, call, origin)
            case TurnStep.ASKED if state.head.open is not None and call.tools:
                payload = {"tool": call.tools[0].name, "decision": "asked"}
                kind = EventKind.PERMISSION_OBSERVED
                state = turns.emit(state, kind, payload, clock, origin=origin)
            case TurnStep.RESULT if state.head.open is not None and call.result:
                payload = _result(call, snapshot.excerpt_chars)
                state = turns.emit(state, EventKind.RESULT_OBSERVED, payload, clock, origin=origin)
            case TurnStep.FINISH:
                state = turns.finish(
                    state, clock, TurnOutcome.SUCCESS, digest=call.digest, origin=origin
                )
            case TurnStep.FAIL:
                code = turns.failure_code(call)
                state = turns.finish(
                    state, clock, TurnOutcome.ERROR, code, text=call.error[:200], origin=origin
                )
            case TurnStep.EXIT if opened is not None and opened.session == call.session:
                state = _break_off(state, snapshot, "process_exit", origin)
            case _:
                pass
    return state, proves


def _is_over(snapshot: Snapshot, call: HookCall, opened: turns.OpenTurn) -> bool:
    """Return whether the open turn has ended although no event reported its end."""
    if snapshot.open_present is False or opened.session in snapshot.gone:
        return True
    if opened.session != call.session:
        return call.event is not HostEvent.SESSION_END
    if call.event is HostEvent.IDLE:
        return not call.turn or opened.native == call.turn
    if call.event in (HostEvent.FILE_CHANGED, HostEvent.CALL):
        return snapshot.host_idle
    return False


def _break_off(
    state: Transition, snapshot: Snapshot, code: str, origin: Mapping[str, Any]
) -> Transition:
    """End a turn whose terminal event is missing.

    A tick records the output of a delivery as the next event of the turn that the delivery starts.
    Without that event the tick was killed first, so the turn ends as `submit_failed`: it never
    began.
    """
    opened, clock = state.head.open, snapshot.clock
    if opened is not None and opened.trigger is Trigger.DELIVERY and opened.seq == state.head.seq:
        return turns.finish(state, clock, TurnOutcome.ERROR, "submit_failed", origin=origin)
    return turns.finish(state, clock, TurnOutcome.INTERRUPTED, code, origin=origin)


def _start(
    state: Transition, snapshot: Snapshot, call: HookCall, origin: Mapping[str, Any]
) -> Transition:
    prompted = call.event is HostEvent.PROMPT
    payload: dict[str, Any] = {}
    if prompted and call.prompt_digest:
        payload = {"prompt_digest": call.prompt_digest, "prompt_chars": call.prompt_chars}
    if prompted and call.named_ids:
        payload["message_ids"] = list(call.named_ids)
    return turns.start(
        state,
        snapshot.clock,
        turn=snapshot.ids.turn,
        token=snapshot.ids.token,
        trigger=call.trigger if prompted else Trigger.QUEUED,
        session=call.session,
        native=call.turn,
        digest=call.digest if prompted else "",
        process=call.process,
        transcript_bytes=snapshot.transcript_bytes if prompted else 0,
        payload=payload,
        origin=origin,
    )


def _observe(
    state: Transition, snapshot: Snapshot, call: HookCall, origin: Mapping[str, Any]
) -> Transition:
    """Record the tool calls that the timeline does not have yet, by their ids.

    At the end of a turn, also record its usage, and the reason if the transcript is unreadable.
    """
    if state.head.open is None:
        return state
    fresh = state.head.open != snapshot.timeline.open  # `observed` belongs to an earlier turn
    seen = set() if fresh else set(snapshot.observed)
    ends = call.event is not HostEvent.BATCH
    for tool in (*call.tools, *(snapshot.tools if ends else ())):
        if tool.id and tool.id in seen:
            continue
        seen.add(tool.id)
        payload = {"tool": tool.name, "outcome": "ok" if tool.ok else "failed"}
        if tool.id:
            payload["tool_use_id"] = tool.id
        state = turns.emit(state, EventKind.TOOL_OBSERVED, payload, snapshot.clock, origin=origin)
    if ends and snapshot.usage:
        state = turns.emit(
            state, EventKind.USAGE_OBSERVED, snapshot.usage, snapshot.clock, origin=origin
        )
    if ends and snapshot.diagnostic:
        payload = {"code": "transcript_unreadable", "text": snapshot.diagnostic}
        state = turns.emit(state, EventKind.DIAGNOSTIC, payload, snapshot.clock, origin=origin)
    return state


def _result(call: HookCall, excerpt_chars: int) -> dict[str, Any]:
    payload: dict[str, Any] = {"digest": call.result_digest, "chars": len(call.result)}
    if excerpt_chars:
        payload["excerpt"] = call.result[:excerpt_chars]
    return payload
