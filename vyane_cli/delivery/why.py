"""The story of a message's delivery: each record about the message as a step with its rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vyane_cli.delivery.gating import DeliveryVerdict
from vyane_cli.delivery.outlook import state_of_message
from vyane_cli.kernel.values import OMIT
from vyane_cli.mail.lookup import FoundMessage, find_message
from vyane_cli.mail.mailbox import Op, brought
from vyane_cli.mail.message import Lane, MessageStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home

RULES: Mapping[str, str] = {
    "single-item": "one started turn at a time: an earlier start is not over",
    "target-busy": "the session was in the middle of a turn",
    "too-soon": "normal mail started a turn here a short while ago",
    "rate-guard": "too many turns were started here within the hour",
    "stop-cap": "as many turns in a row were started at a Stop as the settings allow",
    "before-next-turn": "it asked to wait for the next turn",
    "takeover-fence": "older work waits until the person's takeover is over",
    "no-room": "the output was full",
    "timeline-damaged": "the session's timeline is damaged: vyane doctor --fix",
    "ttl": "it waited longer than its time to live",
    "claim-void": "the process that was showing it died",
    "not-taken": "the host did not start the turn",
    "no-start": "the host started no turn in all its time: you were called",
    "turn-ended": "its turn was broken off before anything proved that it was read",
    "session-ended": "its session ended before anything proved that it was read",
    "output-failed": "the output could not be written",
    "input-in-use": "something stood in its input box: nothing was typed",
    "launch": "its session was started with it, so it is not shown again",
    "channel": "it was shown in the channel",
    "cancel/nothing-runs": "nothing ran that could be stopped",
    "control-of-a-busy-session": "the next tool call of the running turn takes it",
}
"""Rules and reasons in words. A row of the delivery table needs no words: its name is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStep:
    """One record about a message: its time, step, rule and readings."""

    at: float | None
    step: str
    rule: str
    transport: str | None = field(default=None, metadata=OMIT)
    session: str | None = field(default=None, metadata=OMIT)
    turn: str | None = field(default=None, metadata=OMIT)
    verdict: str | None = field(default=None, metadata=OMIT)
    readings: Mapping[str, Any] | None = field(default=None, metadata=OMIT)
    again_ms: int | None = field(default=None, metadata=OMIT)
    evidence: str | None = field(default=None, metadata=OMIT)
    by_pid: int | None = field(default=None, metadata=OMIT)
    """Pid of the process that claimed the message."""
    why: str | None = field(default=None, metadata=OMIT)
    """The rule in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStory:
    """A message with its state, and its steps in order."""

    id: str
    status: MessageStatus
    lane: Lane
    to_id: str
    to_name: str
    from_name: str
    summary: str
    steps: tuple[MessageStep, ...]
    now: str
    """A sentence that says what the message waits for."""


def tell(home: Home, message_id: str) -> MessageStory:
    """Return the story of a message: its current state, and its steps in order."""
    found = find_message(home, message_id)
    return MessageStory(
        id=found.message.id,
        status=found.entry.status,
        lane=found.message.lane,
        to_id=found.message.to_id,
        to_name=state_of_message(home, found.message).to_name,
        from_name=found.message.from_name,
        summary=found.message.summary,
        steps=tuple(step(record) for record in found.records),
        now=_now(home, found),
    )


def step(record: Mapping[str, Any]) -> MessageStep:
    """Return one record as a step: its time, step, rule and readings."""
    op = str(record.get("op"))
    message = brought(record)
    at = message.get("ts") if op == Op.MESSAGE else record.get("at")
    rule = str(record.get("rule") or record.get("reason") or record.get("evidence") or "")
    said = STEPS.get(op, op)
    if op == Op.ATTEMPT and record.get("verdict") == DeliveryVerdict.START:
        said = "tried"
    short = rule.split("/", 1)[-1] if rule.startswith(("batch/", "tool/", "tmux/")) else rule
    return MessageStep(
        at=at,
        step=said,
        rule=rule,
        transport=record.get("transport") or None,
        session=record.get("session") or None,
        turn=record.get("turn") or None,
        verdict=record.get("verdict") or None,
        readings=record.get("readings") or None,
        again_ms=record.get("again_ms"),
        evidence=record.get("evidence") or None,
        by_pid=(record.get("by") or {}).get("pid") if op == Op.CLAIM else None,
        why=RULES.get(short),
    )


STEPS: Mapping[str, str] = {
    Op.MESSAGE: "stored",
    Op.ATTEMPT: "held",
    Op.CLAIM: "claimed",
    Op.HANDED: "handed to the host",
    Op.DELIVERED: "delivered",
    Op.CONSUMED: "consumed",
    Op.RETURNED: "pending again",
    Op.EXPIRED: "expired",
    Op.FAILED: "failed",
    Op.RELEASED: "released",
}


def _now(home: Home, found: FoundMessage) -> str:
    entry = found.entry
    if entry.settled:
        return f"settled: {entry.status}"
    if entry.claim is not None:
        return f"being shown by process {entry.claim.by.pid}; if that died, it is shown again"
    if entry.handed:
        return "handed to the host; waiting for the prompt event that names it"
    if entry.status == "delivered":
        return "delivered; waiting for an event that proves that its turn went on"
    return f"pending: {state_of_message(home, found.message).outlook}"
