"""The life of a turn: one is open at a time, the first terminal wins, ids are ours alone.

A host has its own id for a turn (Claude Code: `prompt_id`). It says which events belong together;
it never becomes the identity.
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
"""How many of the host's turn ids are remembered, so that a late event is told from a new turn."""
REPEAT_MS = 2_000
"""Within this a byte-equal call is the same call made twice by the host."""
STEP_BACK_S = 5.0
"""A wall clock that goes back by more than this is worth a Diagnostic."""


class OpenTurn(NamedTuple):
    """The turn that runs."""

    id: str
    number: int
    token: str
    seq: int
    """Of its TurnStarted."""
    native: str
    session: str
    """The host session in which it runs."""
    trigger: Trigger
    at: float
    boot_ms: int
    digest: str = ""
    """Of the call that began it."""
    continued: int = 0
    """How many turns in a row vyane has started at a Stop, this one included."""
    process: Process | None = None
    transcript_bytes: int = 0


class Finished(NamedTuple):
    """The latest turn that ended: what makes a repeated terminal idempotent."""

    id: str
    token: str
    outcome: TurnOutcome
    code: str
    seq: int
    native: str = ""
    """The host's id of it: a host may go on with a turn that we have closed."""
    digest: str = ""
    """Of the call that ended it."""


class TimelineHead(NamedTuple):
    """What the last line of a timeline says about the whole of it."""

    epoch: str
    seq: int = 0
    turns: int = 0
    open: OpenTurn | None = None
    finished: Finished | None = None
    recent: tuple[str, ...] = ()
    at: float = 0.0
    """Wall clock of the last event."""


def short(native: str) -> str:
    """A host's turn id as it is remembered: eight digits tell a dozen apart."""
    return f"{crc32(native.encode('utf-8', 'replace')):08x}"


class Standing(StrEnum):
    """What a call's turn id is to the turn that is open."""

    SAME = "same"
    NEW = "new"
    OLD = "old"
    NONE = "none"  # the host gave no id


class TurnStep(StrEnum):
    """What a call does to the turn."""

    INTERRUPT = "interrupt"  # close an open turn: the host told nobody that it was over
    START = "start"
    PROVE = "prove"  # the turn went on: what it carries was consumed
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
        Standing.NEW:  (),  # it moves no turn
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
    HostEvent.SESSION_END: dict.fromkeys(Standing, (TurnStep.EXIT,)),  # with an id of its own
}
# fmt: on


def standing(head: TimelineHead, call: HookCall, clock: Clock) -> Standing:
    """What the call's turn id is to the open turn. A byte-equal repeat of its beginning is OLD."""
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
    """Whether the host goes on with the turn that ended last: another Stop hook let it.

    Tools and batches of the main agent are never late; a Stop says so itself, and a byte-equal one
    is the same Stop.
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
    """A head, the events that led to it, and the head after each of them."""

    head: TimelineHead
    events: tuple[CommittedEvent, ...] = ()
    heads: tuple[TimelineHead, ...] = ()


def _noted(state: Transition, clock: Clock) -> Transition:
    """The state after a Diagnostic, if the wall clock has gone back since the last event."""
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
    """One more event that moves no turn; in the open turn, if there is one and `in_turn`."""
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
    """TurnStarted, the first event of a turn. Raises ValueError while another one is open."""
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
    """TurnFinished, the last event of the open turn. No open turn: nothing happens.

    The completion barrier is the same line: with it the token, and with the token every right to
    emit for this turn, is gone before another turn can start.
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
    """Why a turn without a terminal is over: `mark` is the host's own note of an interrupt."""
    if gone:
        return "runtime_restart"
    return "user_interrupt" if mark else "stop_missed"


def failure_code(call: HookCall) -> str:
    """The stable code of a StopFailure."""
    return normalise_error(call.error)


# ------------------------------------------------------------------ the head as plain data


def parse_timeline_head(data: object, epoch: str, at: float = 0.0) -> TimelineHead | None:
    """The head from the `head` of a line that was written `at`; None when it is not one."""
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
    """The stored form, without epoch and time (the line has them) and without what is empty."""
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
