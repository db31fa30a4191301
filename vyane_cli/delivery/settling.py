"""What is recorded when an output is out, and what the marker files must say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vyane_cli.delivery.gating import Moment, Readings, ask_fence, decide, recent_starts
from vyane_cli.delivery.plan import Change, Showing
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.config import Limits
from vyane_cli.mail.mailbox import Entry, Head, Mailbox, Op, takeover_of
from vyane_cli.mail.message import Lane, Position, Status
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.session import Markers
from vyane_cli.timeline import turns
from vyane_cli.timeline.events import EventKind, Outcome
from vyane_cli.timeline.turns import Transition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def plan_markers(boxes: Iterable[Mailbox], clock: Clock, limits: Limits) -> Markers:
    """What the marker files must say of these inboxes; the first is the worker's own."""
    pending = control = proof = False
    due: int | None = None
    head: Head | None = None
    boxes = tuple(boxes)
    takeover = takeover_of(boxes)
    for box in boxes:
        head = box.head if head is None else head
        for entry in box.unsettled:
            message = entry.message
            if entry.status is Status.DELIVERED or entry.claim is not None:
                proof = True
                by_tool = message.lane is Lane.CONTROL and entry.rule == "tool/control"
                control = control or by_tool
                if entry.claim is not None and message.startable:  # if its process dies
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


def _wait_ms(entry: Entry, head: Head, clock: Clock, limits: Limits) -> int:
    """In how long this message is worth another try, as far as the clock can tell."""
    if entry.handed:
        return limits.handed_grace_ms
    readings = Readings(head, Liveness.IDLE, clock.boot_ms, limits)
    decision = decide(Moment.WATCH, entry.message.lane, entry.message.position, readings)
    return decision.again_ms or 0


def plan_unshown(head: Head, showing: Showing, clock: Clock) -> tuple[Change, ...]:
    """The output could not be written: the messages are pending again, marked."""
    start = showing.start
    if start is not None and head.handshake is not None and head.handshake.id == start.message.id:
        head = head._replace(handshake=None)
    fields = {"at": clock.at, "boot_ms": clock.boot_ms, "reason": "output-failed"}
    return _for_each_box(Op.RETURNED, showing, fields, head)


def plan_settle(head: Head, showing: Showing, clock: Clock) -> tuple[Change, ...]:
    """The output is out: what is recorded now, on the head as it stands now."""
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
    """What the timeline says of an output that is out, or could not be written."""
    payload = {
        "message_ids": [entry.message.id for _, entry in showing.entries],
        "transport": showing.transport,
        "outcome": "shown" if shown else "output-failed",
        "rule": showing.rule,
        "redelivered": sum(1 for _, entry in showing.entries if entry.marks),
    }
    state = turns.emit(state, EventKind.DELIVERY_ATTEMPTED, payload, clock)
    if not shown and showing.start is not None and not showing.handed:
        return turns.finish(state, clock, Outcome.ERROR, "submit_failed")
    if shown and showing.ends:
        return turns.finish(state, clock, Outcome.CANCELLED, "cancel_requested")
    return state


def _for_each_box(
    op: Op, showing: Showing, fields: Mapping[str, Any], head: Head
) -> tuple[Change, ...]:
    touched: dict[int, list[str]] = {0: []}  # the head is in the worker's own inbox alone
    for number, entry in showing.entries:
        touched.setdefault(number, []).append(entry.message.id)
    return tuple(
        Change(number, op, tuple(ids), fields, head if number == 0 else Head())
        for number, ids in touched.items()
    )
