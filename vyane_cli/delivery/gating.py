"""Gating: the delivery table and the gates, which decide whether a message is handed over now.

No gate ever consumes a message: a refused message stays pending and is tried again.
"""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.kernel.config import DeliveryLimits
from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.mail.mailbox import Head
from vyane_cli.mail.message import Lane, Message, MessageKind, Position
from vyane_cli.sessions.liveness_rules import Liveness


class Telling(NamedTuple):
    """A notice of vyane as the gates see it, and the notice that the target got last."""

    digest: str
    told_digest: str = ""
    """Digest of the notice that the target got last."""
    told_ms: int | None = None
    """Boot clock time of that notice, in milliseconds; None: never, or in another boot."""
    waiting: str = ""
    """Id of a notice that the target has not read yet."""
    stall_ms: int | None = None
    """Milliseconds without any progress; None: the notice is about a change."""
    stall_after_ms: int = 900_000


MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


class Moment(StrEnum):
    """A moment at which a host asks for mail."""

    SESSION_START = "session-start"  # a person is there: control and direct mail wait for REWAKE
    UNATTENDED_START = "unattended-start"  # a prompt follows without a person
    REWAKE = "rewake"  # the second handler of SessionStart
    PROMPT = "prompt"
    TOOL = "tool"
    BATCH = "batch"
    STOP = "stop"
    WATCH = "watch"
    CALL = "call"  # a host without hooks asks for mail


class DeliveryVerdict(StrEnum):
    """The decision about a message at a moment."""

    DELIVER = "deliver"  # within a turn that runs anyway
    START = "start"  # it starts a turn, if its gates are open
    RIDE = "ride"  # it goes along when something else starts a turn
    HOLD = "hold"


DELIVER, START = DeliveryVerdict.DELIVER, DeliveryVerdict.START
RIDE, HOLD = DeliveryVerdict.RIDE, DeliveryVerdict.HOLD

# fmt: off
MATRIX: Mapping[Moment, Mapping[Lane, DeliveryVerdict]] = {
    Moment.SESSION_START:    {Lane.CONTROL: HOLD, Lane.DIRECT: HOLD,
                              Lane.NORMAL: DELIVER, Lane.QUIET: DELIVER},
    Moment.UNATTENDED_START: {Lane.CONTROL: DELIVER, Lane.DIRECT: DELIVER,
                              Lane.NORMAL: DELIVER, Lane.QUIET: DELIVER},
    Moment.REWAKE:           {Lane.CONTROL: START, Lane.DIRECT: START,
                              Lane.NORMAL: HOLD, Lane.QUIET: HOLD},
    Moment.PROMPT:           {Lane.CONTROL: DELIVER, Lane.DIRECT: DELIVER,
                              Lane.NORMAL: DELIVER, Lane.QUIET: DELIVER},
    Moment.TOOL:             {Lane.CONTROL: DELIVER, Lane.DIRECT: HOLD,
                              Lane.NORMAL: HOLD, Lane.QUIET: HOLD},
    Moment.BATCH:            {Lane.CONTROL: DELIVER, Lane.DIRECT: DELIVER,
                              Lane.NORMAL: DELIVER, Lane.QUIET: DELIVER},
    Moment.STOP:             {Lane.CONTROL: START, Lane.DIRECT: START,
                              Lane.NORMAL: START, Lane.QUIET: RIDE},
    Moment.WATCH:            {Lane.CONTROL: START, Lane.DIRECT: START,
                              Lane.NORMAL: START, Lane.QUIET: HOLD},
    Moment.CALL:             {Lane.CONTROL: DELIVER, Lane.DIRECT: DELIVER,
                              Lane.NORMAL: DELIVER, Lane.QUIET: DELIVER},
}
# fmt: on


class Gate(StrEnum):
    """A check before a start, under the name that the timeline, the docs and `why` use."""

    SINGLE_ITEM = "single-item"
    TARGET_BUSY = "target-busy"
    TOO_SOON = "too-soon"
    RATE_GUARD = "rate-guard"
    SAME_ITEM = "same-item"  # only for notices
    TRUE_STALL = "true-stall"  # only for notices


# fmt: off
GATES: Mapping[Lane, tuple[Gate, ...]] = {
    Lane.CONTROL: (),
    Lane.DIRECT:  (Gate.RATE_GUARD, Gate.SINGLE_ITEM, Gate.TARGET_BUSY),
    Lane.NORMAL:  (Gate.RATE_GUARD, Gate.SINGLE_ITEM, Gate.TARGET_BUSY, Gate.TOO_SOON),
    Lane.QUIET:   (),  # never starts a turn
}
# fmt: on

NOTICE_GATES: Mapping[Gate, str] = {
    Gate.RATE_GUARD: "vyane started fewer turns in this session within the hour than the settings "
    "allow",
    Gate.SINGLE_ITEM: "the one before it was read, and the turn that it started is over",
    Gate.TARGET_BUSY: "no turn is open in the main worker's session",
    Gate.SAME_ITEM: "it says something else than the one before it",
    Gate.TOO_SOON: "the last notice, and the last turn that normal mail started, are 300 s ago",
    Gate.TRUE_STALL: "it is of a change; or of a stall, and for 15 minutes no task changed, no "
    "turn ended well, and nobody works",
}
"""Gates that vyane's own notice to a main worker passes before it becomes a message, in this order.

Each text says, for people, when the gate is open.
"""


class Readings(NamedTuple):
    """The readings that the gates judge: one target, at one instant of the boot clock."""

    head: Head
    liveness: Liveness
    boot_ms: int
    limits: DeliveryLimits = DeliveryLimits()
    notice: Telling | None = None
    """The notice that vyane itself has for the target; None: it has none."""


class Decision(NamedTuple):
    """The decision about one message, and the row or gate that made it."""

    verdict: DeliveryVerdict
    rule: str
    again_ms: int | None = None
    """Milliseconds until asking again is worthwhile; None: at the next event."""
    readings: Mapping[str, object] = {}


def decide(moment: Moment, lane: Lane, position: Position, readings: Readings) -> Decision:
    """Decide for one message at one moment. Total: every input has a row."""
    waking = moment in (Moment.WATCH, Moment.REWAKE)
    if lane is Lane.CONTROL and waking and readings.liveness is Liveness.BUSY:
        # the next tool call interrupts the running turn; a wake would arrive as text beside it
        return Decision(DeliveryVerdict.HOLD, "control-of-a-busy-session")
    verdict = MATRIX[moment][lane]
    rule = f"{moment}/{lane}"
    if moment in (Moment.TOOL, Moment.BATCH) and position is Position.BEFORE_NEXT_TURN:
        return Decision(DeliveryVerdict.HOLD, f"{moment}/before-next-turn")
    if verdict is not DeliveryVerdict.START:
        return Decision(verdict, rule)
    for gate in GATES[lane]:
        refusal = ask(gate, readings, at_stop=moment is Moment.STOP)
        if refusal is not None:
            return refusal
    return Decision(DeliveryVerdict.START, rule, None, _seen(readings))


FENCED = (MessageKind.TASK_DISPATCH, MessageKind.CONTEXT_INJECT)
"""Kinds that ask for work. Work asked for before a takeover waits until the takeover has ended."""


def ask_fence(message: Message, takeover: str) -> Decision | None:
    """Return the refusal of work that is older than an open takeover; None for other messages.

    `takeover` is the id of the open takeover, or empty.
    """
    if message.kind in FENCED and message.id < takeover:  # ids sort by time
        return Decision(DeliveryVerdict.HOLD, "takeover-fence", None, {"takeover": takeover})
    return None


def decide_notice(readings: Readings) -> Decision:
    """Decide whether a notice may become a message for its target now.

    A refused notice stays where it is.
    """
    for gate in NOTICE_GATES:
        refusal = ask(gate, readings)
        if refusal is not None:
            return refusal
    return Decision(DeliveryVerdict.START, "notice", None, _seen(readings))


def ask(gate: Gate, readings: Readings, *, at_stop: bool = False) -> Decision | None:
    """Ask one gate. Return None if it is open, else the refusal with the reading behind it."""
    head, limits, now = readings.head, readings.limits, readings.boot_ms
    notice = readings.notice
    match gate:
        case Gate.SINGLE_ITEM if notice is not None and notice.waiting:
            return Decision(DeliveryVerdict.HOLD, gate, None, {"unread_notice": notice.waiting})
        case Gate.SINGLE_ITEM if head.handshake is not None:
            seen: dict[str, object] = {
                "open_start": head.handshake.id,
                "stage": str(head.handshake.stage),
            }
            waited = age_ms(head.handshake.boot_ms, now)
            left = max(limits.start_wait_ms - (waited or 0), 0)
            return Decision(DeliveryVerdict.HOLD, gate, left, {**seen, "for_s": _seconds(waited)})
        case Gate.TARGET_BUSY if not at_stop and readings.liveness is not Liveness.IDLE:
            return Decision(DeliveryVerdict.HOLD, gate, None, {"liveness": str(readings.liveness)})
        case Gate.SAME_ITEM if notice is not None and notice.digest == notice.told_digest:
            return Decision(DeliveryVerdict.HOLD, gate, None, {"digest": notice.digest})
        case Gate.TRUE_STALL if notice is not None and notice.stall_ms is not None:
            if notice.stall_ms < notice.stall_after_ms:
                seen = {"stalled_for_s": _seconds(notice.stall_ms)}
                return Decision(
                    DeliveryVerdict.HOLD, gate, notice.stall_after_ms - notice.stall_ms, seen
                )
        case Gate.TOO_SOON:
            starts = (head.normal_ms, notice.told_ms if notice is not None else None)
            ages = [age_ms(ms, now) for ms in starts if ms is not None]
            age = min((age for age in ages if age is not None), default=None)
            if age is not None and age < limits.too_soon_ms:
                seen = {"last_start_s_ago": _seconds(age), "minimum_s": limits.too_soon_ms // 1000}
                return Decision(DeliveryVerdict.HOLD, gate, limits.too_soon_ms - age, seen)
        case Gate.RATE_GUARD:
            recent = recent_starts(head, now)
            if len(recent) >= limits.starts_per_hour:
                seen = {"starts_last_hour": len(recent), "limit": limits.starts_per_hour}
                age = age_ms(min(recent, default=now), now) or 0
                return Decision(DeliveryVerdict.HOLD, gate, HOUR_MS - age, seen)
        case _:
            pass
    return None


def age_ms(then_ms: int, now_ms: int) -> int | None:
    """Return the age by the boot clock, in milliseconds.

    None if it would be negative: the machine has rebooted since, so the time has passed.
    """
    return now_ms - then_ms if now_ms >= then_ms else None


def is_late(then_ms: int, now_ms: int, limits: DeliveryLimits) -> bool:
    """Return whether a turn expected since `then_ms` is late, so that a person must be called."""
    waited = age_ms(then_ms, now_ms)
    return waited is None or waited >= limits.start_wait_ms


def recent_starts(head: Head, now_ms: int) -> tuple[int, ...]:
    """Return the starts of the last hour, in milliseconds of the boot clock."""
    return tuple(ms for ms in head.starts_ms if 0 <= now_ms - ms < HOUR_MS)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else round(milliseconds / 1000, 1)


def _seen(readings: Readings) -> dict[str, object]:
    seen: dict[str, object] = {"liveness": str(readings.liveness)}
    if readings.head.normal_ms is not None:
        seen["last_start_s_ago"] = _seconds(age_ms(readings.head.normal_ms, readings.boot_ms))
    return seen
