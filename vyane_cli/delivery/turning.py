"""What a call does to the turn: the first step of a plan."""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.delivery.plan import Snapshot, origin_of
from vyane_cli.hosts.port import Event, HookCall, Trigger
from vyane_cli.timeline import turns
from vyane_cli.timeline.events import EventKind, Outcome
from vyane_cli.timeline.turns import Standing, Step, Transition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def move_turn(snapshot: Snapshot, call: HookCall, standing: Standing) -> tuple[Transition, bool]:
    """The turn after the call, and whether the call proves that its turn went on."""
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
            case Step.INTERRUPT:
                state = _break_off(state, snapshot, "user_interrupt", origin)
            case Step.START:
                state = _start(state, snapshot, call, origin)
            case Step.PROVE:
                proves = True
            case Step.TOOLS:
                state = _observe(state, snapshot, call, origin)
            case Step.ASKED if state.head.open is not None and call.tools:
                payload = {"tool": call.tools[0].name, "decision": "asked"}
                kind = EventKind.PERMISSION_OBSERVED
                state = turns.emit(state, kind, payload, clock, origin=origin)
            case Step.RESULT if state.head.open is not None and call.result:
                payload = _result(call, snapshot.excerpt_chars)
                state = turns.emit(state, EventKind.RESULT_OBSERVED, payload, clock, origin=origin)
            case Step.FINISH:
                state = turns.finish(
                    state, clock, Outcome.SUCCESS, digest=call.digest, origin=origin
                )
            case Step.FAIL:
                code = turns.failure_code(call)
                state = turns.finish(
                    state, clock, Outcome.ERROR, code, text=call.error[:200], origin=origin
                )
            case Step.EXIT if opened is not None and opened.session == call.session:
                state = _break_off(state, snapshot, "process_exit", origin)
            case _:
                pass
    return state, proves


def _is_over(snapshot: Snapshot, call: HookCall, opened: turns.OpenTurn) -> bool:
    """Whether an open turn is over although nobody said so."""
    if snapshot.open_present is False or opened.session in snapshot.gone:
        return True
    if opened.session != call.session:
        return call.event is not Event.SESSION_END
    if call.event is Event.IDLE:
        return not call.turn or opened.native == call.turn
    if call.event in (Event.FILE_CHANGED, Event.CALL):
        return snapshot.host_idle
    return False


def _break_off(
    state: Transition, snapshot: Snapshot, code: str, origin: Mapping[str, Any]
) -> Transition:
    """End a turn without a terminal. A delivery that was never told has not begun its turn.

    Its tick was killed before it could say so: what is told is the turn's next event.
    """
    opened, clock = state.head.open, snapshot.clock
    if opened is not None and opened.trigger is Trigger.DELIVERY and opened.seq == state.head.seq:
        return turns.finish(state, clock, Outcome.ERROR, "submit_failed", origin=origin)
    return turns.finish(state, clock, Outcome.INTERRUPTED, code, origin=origin)


def _start(
    state: Transition, snapshot: Snapshot, call: HookCall, origin: Mapping[str, Any]
) -> Transition:
    prompted = call.event is Event.PROMPT
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
    """Tool calls that the timeline has not, by their ids; at the end of a turn also its usage."""
    if state.head.open is None:
        return state
    fresh = state.head.open != snapshot.timeline.open  # its past is not this turn's
    seen = set() if fresh else set(snapshot.observed)
    ends = call.event is not Event.BATCH
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
