"""Turns: at most one is open in a timeline, its first end is kept, and vyane assigns the id.

A host has its own id for a turn (Claude Code: `prompt_id`). That id shows which events belong
together, but it is never the turn's identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

from vyane_cli.hosts.port import HookCall, HostEvent, Trigger
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.process import Process, parse_process
from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.timeline.events import CommittedEvent, EventKind, TurnOutcome, normalise_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


REMEMBERED = 12
"""Number of the host's turn ids that are kept, to tell a late event from a new turn."""
REPEAT_MS = 2_000
"""Milliseconds within which a byte-equal call counts as the host's repeat of the same call."""
STEP_BACK_S = 5.0
"""Seconds that the wall clock may go back before a Diagnostic is recorded."""


class OpenTurn(NamedTuple):
    """The turn that is open."""

    id: str
    number: int
    token: str
    seq: int
    """Sequence number of its TurnStarted."""
    native: str
    session: str
    """The host session in which the turn runs."""
    trigger: Trigger
    at: float
    boot_ms: int
    digest: str = ""
    """Digest of the call that started the turn."""
    continued: int = 0
    """Number of turns in a row that vyane started at a Stop, including this one."""
    process: Process | None = None
    transcript_bytes: int = 0


class Finished(NamedTuple):
    """The latest turn that ended, kept so that repeating its end is idempotent."""

    id: str
    token: str
    outcome: TurnOutcome
    code: str
    seq: int
    native: str = ""
    """The host's id of the turn: the host may continue a turn that is already closed here."""
    digest: str = ""
    """Digest of the call that ended the turn."""


class TimelineHead(NamedTuple):
    """The head of a timeline: the state after its last line, stored in that line."""

    epoch: str
    seq: int = 0
    turns: int = 0
    open: OpenTurn | None = None
    finished: Finished | None = None
    recent: tuple[str, ...] = ()
    at: float = 0.0
    """Wall clock time of the last event, in Unix seconds."""


def short(native: str) -> str:
    """Return the form in which a host's turn id is kept: 8 hex digits are enough for a dozen."""
    return f"{crc32(native.encode('utf-8', 'replace')):08x}"


class Standing(StrEnum):
    """The relation of a call's turn id to the open turn."""

    SAME = "same"
    NEW = "new"
    OLD = "old"
    NONE = "none"  # the host gave no id


class TurnStep(StrEnum):
    """One step by which a call changes or observes the turn."""

    INTERRUPT = "interrupt"  # close an open turn whose end the host did not report
    START = "start"
    PROVE = "prove"  # the turn continued: its mail was consumed
    TOOLS = "tools"
    ASKED = "asked"  # the person is asked whether a tool may run
    RESULT = "result"
    FINISH = "finish"
    FAIL = "fail"
    EXIT = "exit"


_ANEW = (TurnStep.INTERRUPT, TurnStep.START)

# fmt: off
STEPS: Mapping[HostEvent, Mapping[Standing, tuple[TurnStep, ...]]] = {
    HostEvent.PROMPT: {
        Standing.SAME: (),  # typed ahead, or a wake in the middle of a turn
        Standing.NEW:  _ANEW,
        Standing.OLD:  (),
        Standing.NONE: _ANEW,
    },
    HostEvent.TOOL: {
        Standing.SAME: (TurnStep.PROVE,),
        Standing.NEW:  (*_ANEW, TurnStep.PROVE),  # no prompt event: Esc, prompt queued
        Standing.OLD:  (),
        Standing.NONE: (TurnStep.PROVE,),
    },
    HostEvent.BATCH: {
        Standing.SAME: (TurnStep.PROVE, TurnStep.TOOLS),
        Standing.NEW:  (*_ANEW, TurnStep.PROVE, TurnStep.TOOLS),
        Standing.OLD:  (),
        Standing.NONE: (TurnStep.PROVE, TurnStep.TOOLS),
    },
    HostEvent.PERMISSION: {
        Standing.SAME: (TurnStep.ASKED,),
        Standing.NEW:  (),  # a permission request starts no turn
        Standing.OLD:  (),
        Standing.NONE: (TurnStep.ASKED,),
    },
    HostEvent.STOP: {
        Standing.SAME: (TurnStep.PROVE, TurnStep.TOOLS, TurnStep.RESULT, TurnStep.FINISH),
        Standing.NEW:  (*_ANEW, TurnStep.PROVE, TurnStep.TOOLS, TurnStep.RESULT, TurnStep.FINISH),
        Standing.OLD:  (),
        Standing.NONE: (TurnStep.PROVE, TurnStep.TOOLS, TurnStep.RESULT, TurnStep.FINISH),
    },
    HostEvent.STOP_FAILURE: {
        Standing.SAME: (TurnStep.TOOLS, TurnStep.FAIL,),
        Standing.NEW:  (*_ANEW, TurnStep.TOOLS, TurnStep.FAIL),
        Standing.OLD:  (),
        Standing.NONE: (TurnStep.TOOLS, TurnStep.FAIL,),
    },
    HostEvent.SESSION_END: dict.fromkeys(Standing, (TurnStep.EXIT,)),  # the event has its own id
}
# fmt: on


def standing(head: TimelineHead, call: HookCall, clock: Clock) -> Standing:
    """Return the relation of the call's turn id to the open turn.

    A byte-equal repeat of the call that started the turn is SAME, or OLD if it is a Stop.
    """
    turn = head.open
    if turn is not None and turn.session == call.session and _repeats(turn, call, clock):
        return Standing.OLD if call.event is HostEvent.STOP else Standing.SAME
    if not call.turn:
        return Standing.NONE
    if turn is not None and turn.session == call.session and turn.native == call.turn:
        return Standing.SAME
    if short(call.turn) not in head.recent or _goes_on(head, call):
        return Standing.NEW
    return Standing.OLD


def _goes_on(head: TimelineHead, call: HookCall) -> bool:
    """Return whether the host continues the turn that ended last, because of another Stop hook.

    Tools and batches of the main agent never arrive late, so they prove it. A Stop says so itself
    (`stop_active`), unless it is byte-equal to the call that ended the turn: then it is a repeat.
    """
    last = head.finished
    if head.open is not None or last is None or not last.native or last.native != call.turn:
        return False
    again = call.stop_active and call.digest != last.digest
    return call.event in (HostEvent.TOOL, HostEvent.BATCH) or (
        call.event is HostEvent.STOP and again
    )


def _repeats(turn: OpenTurn, call: HookCall, clock: Clock) -> bool:
    recent = 0 <= clock.boot_ms - turn.boot_ms <= REPEAT_MS
    return bool(turn.digest) and turn.digest == call.digest and recent


class Transition(NamedTuple):
    """A new head, the events that led to it, and the head after each of these events."""

    head: TimelineHead
    events: tuple[CommittedEvent, ...] = ()
    heads: tuple[TimelineHead, ...] = ()


def _noted(state: Transition, clock: Clock) -> Transition:
    """Add a Diagnostic if the wall clock has gone back since the last event. Return the state."""
    head = state.head
    if not head.at or clock.at >= head.at - STEP_BACK_S:
        return state
    payload = {"code": "clock_moved_back", "text": f"by {head.at - clock.at:.0f} s"}
    head = head._replace(seq=head.seq + 1, at=clock.at)
    event = CommittedEvent(head.seq, EventKind.DIAGNOSTIC, payload, at=clock.at)
    return Transition(head, (*state.events, event), (*state.heads, head))


def emit(
    state: Transition,
    kind: EventKind,
    payload: Mapping[str, Any],
    clock: Clock,
    *,
    origin: Mapping[str, Any] | None = None,
    in_turn: bool = True,
) -> Transition:
    """Add an event that does not start or end a turn. Return the new state.

    The event belongs to the open turn, if one is open and `in_turn` is set.
    """
    state = _noted(state, clock)
    head = state.head._replace(seq=state.head.seq + 1, at=clock.at)
    turn = head.open if in_turn else None
    event = CommittedEvent(
        seq=head.seq,
        kind=kind,
        payload=payload,
        turn=turn.id if turn else None,
        turn_number=turn.number if turn else None,
        origin=origin,
        at=clock.at,
    )
    return Transition(head, (*state.events, event), (*state.heads, head))


def start(
    state: Transition,
    clock: Clock,
    *,
    turn: str,
    token: str,
    trigger: Trigger,
    session: str,
    native: str = "",
    digest: str = "",
    continued: int = 0,
    process: Process | None = None,
    transcript_bytes: int = 0,
    payload: Mapping[str, Any] | None = None,
    origin: Mapping[str, Any] | None = None,
) -> Transition:
    """Add TurnStarted, the first event of a turn. ValueError if another turn is open."""
    state = _noted(state, clock)
    head = state.head
    if head.open is not None:
        raise ValueError(f"turn {head.open.id} is open")
    opened = OpenTurn(
        id=turn,
        number=head.turns + 1,
        token=token,
        seq=head.seq + 1,
        native=native,
        session=session,
        trigger=trigger,
        at=clock.at,
        boot_ms=clock.boot_ms,
        digest=digest,
        continued=continued,
        process=process,
        transcript_bytes=transcript_bytes,
    )
    recent = head.recent
    if native and short(native) not in recent:
        recent = (*recent, short(native))[-REMEMBERED:]
    head = head._replace(turns=opened.number, open=opened, recent=recent)
    body = {"trigger": str(trigger), **(payload or {})}
    opening = state._replace(head=head)
    return emit(opening, EventKind.TURN_STARTED, body, clock, origin=origin)


def finish(
    state: Transition,
    clock: Clock,
    outcome: TurnOutcome,
    code: str = "",
    *,
    text: str = "",
    digest: str = "",
    origin: Mapping[str, Any] | None = None,
) -> Transition:
    """Add TurnFinished, the last event of the open turn. Do nothing if no turn is open.

    The same line is the completion barrier: it invalidates the token, and with it the right to
    emit for this turn, before another turn can start.
    """
    turn = state.head.open
    if turn is None:
        return state
    payload: dict[str, Any] = {"outcome": str(outcome)}
    if code:
        payload["code"] = code
    if text:
        payload["text"] = text
    if clock.boot_ms >= turn.boot_ms:
        payload["duration_ms"] = clock.boot_ms - turn.boot_ms
    after = emit(state, EventKind.TURN_FINISHED, payload, clock, origin=origin)
    done = Finished(
        id=turn.id,
        token=turn.token,
        outcome=outcome,
        code=code,
        seq=after.head.seq,
        native=turn.native,
        digest=digest,
    )
    head = after.head._replace(open=None, finished=done)
    return Transition(head, after.events, (*after.heads[:-1], head))


def interrupted_code(*, mark: bool, gone: bool) -> str:
    """Return the code of a turn that ended without a Stop.

    `mark`: the host noted an interrupt itself. `gone`: the host's process ended, or another host
    session replaced its session.
    """
    if gone:
        return "runtime_restart"
    return "user_interrupt" if mark else "stop_missed"


def failure_code(call: HookCall) -> str:
    """Return the stable code of a StopFailure."""
    return normalise_error(call.error)


# ------------------------------------------------------------------ the head as plain data


def parse_timeline_head(data: object, epoch: str, at: float = 0.0) -> TimelineHead | None:
    """Parse the `head` of a line that was written `at`. Return None if it is not a valid head."""
    if not isinstance(data, Mapping):
        return None
    try:
        raw, done = data.get("open"), data.get("finished")
        opened = finished = None
        if isinstance(raw, Mapping):
            values = {key: raw[key] for key in OpenTurn._fields if key in raw}
            values = {"native": "", "session": "", "at": 0.0, "boot_ms": 0, **values}
            values["trigger"] = Trigger(values["trigger"])
            values["process"] = parse_process(values.get("process"))
            opened = OpenTurn(**values)
        if isinstance(done, Mapping):
            values = {key: done[key] for key in Finished._fields if key in done}
            finished = Finished(**{**values, "outcome": TurnOutcome(values["outcome"])})
        recent = tuple(str(native) for native in data.get("recent") or ())
        seq, number = int(data["seq"]), int(data["turns"])
        return TimelineHead(
            epoch=epoch, seq=seq, turns=number, open=opened, finished=finished, recent=recent, at=at
        )
    except (KeyError, TypeError, ValueError):
        return None


def render_timeline_head(head: TimelineHead) -> dict[str, Any]:
    """Render the stored form of a head: without epoch and time, which the line has.

    Empty fields are left out.
    """
    data: dict[str, Any] = {"seq": head.seq, "turns": head.turns}
    if head.open is not None:
        turn = {key: value for key, value in head.open._asdict().items() if value not in ("", 0)}
        turn["process"] = head.open.process._asdict() if head.open.process else None
        data["open"] = turn
    if head.finished is not None:
        data["finished"] = head.finished._asdict()
    if head.recent:
        data["recent"] = list(head.recent)
    return data
