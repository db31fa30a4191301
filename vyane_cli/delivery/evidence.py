"""Evidence, the second step of a plan: what a call proves about mail handed over before it."""

from __future__ import annotations

from collections.abc import Iterable

from vyane_cli.delivery.gating import age_ms, is_late
from vyane_cli.delivery.plan import MailboxDrafts, Snapshot, origin_of
from vyane_cli.hosts.port import HookCall, HostEvent
from vyane_cli.kernel.clock import Clock
from vyane_cli.mail.mailbox import NO_START, Carried, HandshakeStage, MailEntry, Op
from vyane_cli.mail.message import Lane, MessageKind, MessageStatus
from vyane_cli.timeline import turns
from vyane_cli.timeline.events import EventKind
from vyane_cli.timeline.turns import Transition


def settle_evidence(
    draft: MailboxDrafts, snapshot: Snapshot, call: HookCall, state: Transition, proves: bool
) -> list[MailEntry]:
    """Record what this call proves about mail that was handed over before it.

    Also consume messages that launched the session, and expire messages whose time to live has
    passed. Return the takeovers that were read.
    """
    read: list[MailEntry] = []
    clock = snapshot.clock
    opened = state.head.open
    running = opened.native if opened is not None and opened.session == call.session else ""
    was = snapshot.timeline.open
    turn = call.turn or (was.native if was is not None else "")
    consumed: list[tuple[int, MailEntry]] = []
    launched: list[tuple[int, MailEntry]] = []
    expired: list[tuple[int, MailEntry]] = []
    returned: dict[str, list[tuple[int, MailEntry]]] = {}
    for item in draft.all():
        number, entry = item
        if entry.settled:
            continue
        if (
            call.event is HostEvent.PROMPT
            and entry.message.id in call.named_ids
            and (entry.handed or entry.message.id in snapshot.dead)
        ):
            _taken(draft, number, entry, call, clock)
        elif entry.claim is not None:
            if entry.message.id in snapshot.dead:
                returned.setdefault("claim-void", []).append(item)
        elif entry.handed:
            if _not_taken(entry, snapshot, call):
                unanswered = _is_unanswered(entry, snapshot, call)
                if unanswered:
                    _call_for_start(draft, snapshot, entry.message.id)
                returned.setdefault(NO_START if unanswered else "not-taken", []).append(item)
        elif entry.status is MessageStatus.DELIVERED:
            verdict = _proof(entry, call, turn, running, proves, snapshot)
            if verdict == "consumed":
                consumed.append(item)
                if entry.message.kind is MessageKind.TAKEOVER:
                    read.append(entry)
            elif verdict:
                returned.setdefault(verdict, []).append(item)
        elif entry.message.launched and call.session:
            launched.append(item)
        elif _expired(entry, clock):
            expired.append(item)
    draft.put(Op.CONSUMED, consumed, evidence=call.name)
    draft.put(Op.CONSUMED, launched, evidence="launch", rule="launch")
    draft.put(Op.EXPIRED, expired, reason="ttl")
    draft.expired += [entry for _, entry in expired]
    for reason, items in returned.items():
        ids = {entry.message.id for _, entry in items}
        head = draft.head
        if head.handshake is not None and head.handshake.id in ids:
            head = head._replace(handshake=None)
        draft.put(Op.RETURNED, items, head, reason=reason)
    return read


def follow_takeovers(
    draft: MailboxDrafts,
    clock: Clock,
    call: HookCall,
    state: Transition,
    read: Iterable[MailEntry] = (),
) -> Transition:
    """Emit TakeoverConsumed at the end of the turn that carries the takeover.

    Until then the head remembers the takeover. Return the transition.
    """
    running = state.head.open
    over: list[str] = []
    carried = draft.head.takeover
    for entry in read:
        if running is not None and entry.turn in ("", running.native):
            over += [carried.id] if carried is not None else []  # the later takeover replaces it
            carried = Carried(entry.message.id, running.id)
        else:
            over.append(entry.message.id)
    decided = {entry.message.decides for _, entry in draft.all()}
    ended = carried is not None and (running is None or running.id != carried.turn)
    if carried is not None and (ended or carried.id in decided):
        over.append(carried.id)
        carried = None
    if carried != draft.head.takeover:
        draft.put(Op.RELEASED, [], draft.head._replace(takeover=carried), reason="takeover")
    for message_id in over:
        payload = {"message_id": message_id}
        state = turns.emit(
            state, EventKind.TAKEOVER_CONSUMED, payload, clock, origin=origin_of(call)
        )
    return state


def _taken(
    draft: MailboxDrafts, number: int, entry: MailEntry, call: HookCall, clock: Clock
) -> None:
    """Mark a message as delivered: the prompt event names it, so the host took it by a watch."""
    head = draft.head
    if head.handshake is not None and head.handshake.id == entry.message.id:
        head = head._replace(handshake=head.handshake._replace(stage=HandshakeStage.WAIT_DONE))
    if entry.message.lane is Lane.NORMAL:
        head = head._replace(normal_ms=clock.boot_ms)
    draft.put(
        Op.DELIVERED,
        [(number, entry)],
        head,
        session=call.session,
        turn=call.turn,
        start=True,
        rule=entry.rule,
        transport="watch",
        host=list(entry.host) if entry.host is not None else None,
    )


def _not_taken(entry: MailEntry, snapshot: Snapshot, call: HookCall) -> bool:
    if entry.session in snapshot.gone or entry.session != call.session:
        return True
    age = age_ms(entry.moved_ms, snapshot.clock.boot_ms)
    over = age is None or age >= snapshot.limits.handed_grace_ms
    if call.event is HostEvent.SESSION_START:
        return call.source != "compact" and _other_process(entry, call, snapshot.clock)
    if call.event is HostEvent.PROMPT:
        return over and snapshot.timeline.open is None
    return over and call.event in (HostEvent.FILE_CHANGED, HostEvent.IDLE) and _idle(snapshot)


def _is_unanswered(entry: MailEntry, snapshot: Snapshot, call: HookCall) -> bool:
    """Return whether this session has left every start with the message unanswered for too long."""
    if call.event not in (HostEvent.FILE_CHANGED, HostEvent.IDLE) or entry.offered_ms is None:
        return False  # the session has ended, or a prompt takes the message along
    there = entry.session == call.session and entry.session not in snapshot.gone
    return there and is_late(entry.offered_ms, snapshot.clock.boot_ms, snapshot.limits)


def _call_for_start(draft: MailboxDrafts, snapshot: Snapshot, message_id: str) -> None:
    draft.need_user.append(
        f"{snapshot.name} did not start the turn that message {message_id} should have begun"
    )


def _proof(
    entry: MailEntry, call: HookCall, turn: str, running: str, proves: bool, snapshot: Snapshot
) -> str:
    """Return `consumed`, or the reason why the message is pending again; empty: no proof yet."""
    if entry.session != call.session:
        return "session-ended" if entry.session else ""
    by_tool = entry.message.lane is Lane.CONTROL and call.event is HostEvent.TOOL
    if proves and not by_tool and entry.turn in ("", turn):
        return "consumed"
    if call.event is HostEvent.SESSION_END:
        return "session-ended"
    if call.event is HostEvent.SESSION_START:
        ended = call.source != "compact" and _other_process(entry, call, snapshot.clock)
        return "session-ended" if ended else ""
    if call.event is HostEvent.CALL:
        return "consumed"
    if not entry.turn or entry.turn == running:
        return "session-ended" if snapshot.carrier_gone else ""
    # the carrying turn ended without any event: a text that started the turn by a watch stays in
    # the conversation after Esc (measured), other text that was given at a prompt does not
    goes_on = call.event in (HostEvent.PROMPT, HostEvent.TOOL, HostEvent.BATCH, HostEvent.STOP)
    if entry.started and goes_on and entry.rule.startswith(("watch/", "rewake/")):
        return "consumed"
    return "turn-ended"


def _other_process(entry: MailEntry, call: HookCall, clock: Clock) -> bool:
    """Return whether the message was given to an earlier process of this session.

    If one of the processes is unknown, the message's age decides.
    """
    if entry.host is not None and call.process is not None:
        return entry.host != (call.process.pid, call.process.start)
    age = age_ms(entry.moved_ms, clock.boot_ms)
    return not call.rewake and (age is None or age > turns.REPEAT_MS)


def _expired(entry: MailEntry, clock: Clock) -> bool:
    """Return whether the message's time to live has passed.

    The boot clock decides in the boot in which the message was stored, else the wall clock.
    """
    ttl_ms = entry.message.ttl_seconds * 1000
    over = clock.now_ms - entry.message.ts * 1000 >= ttl_ms
    if entry.boot and entry.boot == clock.boot and entry.boot_ms:
        return clock.boot_ms - entry.boot_ms >= ttl_ms
    return over


def keep_handshake(
    draft: MailboxDrafts, snapshot: Snapshot, call: HookCall, state: Transition
) -> None:
    """Close the handshake with any terminal event of its turn.

    Release a handshake whose turn never started, or whose session is gone.
    """
    handshake = draft.head.handshake
    if handshake is None:
        return
    finished = any(event.kind is EventKind.TURN_FINISHED for event in state.events)
    before = snapshot.boxes[0].head.handshake  # this call's prompt may just have started it
    began = before is not None and before.stage is HandshakeStage.WAIT_DONE
    done = handshake.stage is HandshakeStage.WAIT_DONE and (
        (finished and began) or state.head.open is None
    )
    lost = handshake.session in snapshot.gone or (
        handshake.session != call.session and call.event is HostEvent.SESSION_START
    )
    late = handshake.stage is HandshakeStage.WAIT_START and is_late(
        handshake.boot_ms, snapshot.clock.boot_ms, snapshot.limits
    )
    if not (done or lost or late):
        return
    if late and not (done or lost):
        _call_for_start(draft, snapshot, handshake.id)
    reason = "turn-finished" if done else "session-gone" if lost else NO_START
    draft.put(Op.RELEASED, [], draft.head._replace(handshake=None), reason=reason)


def _idle(snapshot: Snapshot) -> bool:
    return snapshot.timeline.open is None or snapshot.host_idle
