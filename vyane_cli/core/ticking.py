"""One hook call as a plan: HookCall + Snapshot → everything the call changes, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vyane_cli.core import turns
from vyane_cli.core.calls import Event, HookCall, Reply, ToolCall, Trigger
from vyane_cli.core.envelopes import Templates, paginate
from vyane_cli.core.events import EventKind, Outcome
from vyane_cli.core.gating import (
    Decision,
    Gate,
    Limits,
    Moment,
    Readings,
    Verdict,
    age_ms,
    ask_fence,
    decide,
    recent_starts,
)
from vyane_cli.core.liveness import Liveness
from vyane_cli.core.mailbox import (
    Carried,
    Entry,
    Handshake,
    Head,
    Mailbox,
    Op,
    Process,
    Stage,
    advance,
    takeover_of,
)
from vyane_cli.core.messages import Kind, Lane, Position, Status
from vyane_cli.core.turns import Clock, Standing, Step, TimelineHead, Transition
from vyane_cli.core.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FAILURE_PAUSE_MS = 60_000
"""After an API error other sessions' ticks ring no earlier than this."""

LANES = tuple(Lane)
"""The order in which messages are handed over."""


class Snapshot(NamedTuple):
    """Everything that a plan may look at: loaded under the locks, or read before."""

    worker: str
    name: str
    boxes: tuple[Mailbox, ...]
    """The worker's inbox, then that of its logical session if there is one."""
    timeline: TimelineHead
    clock: Clock
    templates: Templates
    limits: Limits = Limits()
    dead: frozenset[str] = frozenset()
    """Ids of messages whose claim is void: its process is gone, or it is the tick we rerun."""
    gone: frozenset[str] = frozenset()
    """Host sessions that have ended, or whose process is gone."""
    carrier_gone: bool = False
    """The session's process is proven gone: what it was given and never proved was not read."""
    host_idle: bool = False
    interrupt_mark: bool = False
    open_present: bool | None = None
    """Whether the process of the open turn is there."""
    ids: tuple[str, ...] = ()
    """Four fresh ULIDs."""
    me: Process = Process("", "", 0, 0)
    guard: int = 0
    silent: bool = False
    """Hand nothing over: a rerun after a death, or a call that is replayed."""
    observed: frozenset[str] = frozenset()
    """Tool calls of the open turn that the timeline has already."""
    tools: tuple[ToolCall, ...] = ()
    """Tool calls of the open turn from the transcript."""
    usage: Mapping[str, Any] | None = None
    diagnostic: str = ""
    """Why the transcript could not be read."""
    last_step: str = ""
    transcript_bytes: int = 0
    wake_path: str = ""
    introduce: bool = False
    excerpt_chars: int = 280


class Change(NamedTuple):
    """One record for one inbox, with the head after it (its `open` is the store's to fill)."""

    box: int
    op: Op
    ids: tuple[str, ...]
    fields: Mapping[str, Any]
    head: Head


class Showing(NamedTuple):
    """What a reply hands over, to be settled when it is out."""

    entries: tuple[tuple[int, Entry], ...]
    transport: str
    session: str
    start: Entry | None = None
    rule: str = ""
    turn: str = ""
    handed: bool = False
    """Only handed to the host: the prompt event that names it is the receipt."""
    process: Process | None = None
    """The host's process that gets it."""
    ends: bool = False
    """It ends the turn: a cancel, which is consumed by being told."""


class Markers(NamedTuple):
    """What the guard and the other ticks shall find beside the session afterwards."""

    pending: bool
    control: bool
    proof: bool
    due_ms: int | None
    """In how many milliseconds mail that may start a turn is due; None: there is none."""


class TickPlan(NamedTuple):
    """Everything one call changes."""

    reply: Reply
    transition: Transition
    markers: Markers | None = None
    """None: leave them alone."""
    changes: tuple[Change, ...] = ()
    showing: Showing | None = None
    wake_self: bool = False
    """Rewrite the wake file last: startable mail is left."""
    sleeps: bool = False
    """Become the session's sleeper: mail waits for a time, or for the session to turn idle."""
    held: tuple[tuple[Entry, Decision], ...] = ()
    need_user: tuple[str, ...] = ()
    expired: tuple[Entry, ...] = ()


UNTURNED = (Moment.SESSION_START, Moment.UNATTENDED_START, Moment.REWAKE, Moment.WATCH)
"""Moments at which the carrying turn is not known yet."""

CANCELLING = (Moment.TOOL, Moment.BATCH, Moment.CALL)
"""Moments at which a cancel is taken; a host without hooks is told in words."""

MOMENTS: Mapping[Event, Moment] = {
    Event.PROMPT: Moment.PROMPT,
    Event.TOOL: Moment.TOOL,
    Event.BATCH: Moment.BATCH,
    Event.STOP: Moment.STOP,
    Event.FILE_CHANGED: Moment.WATCH,
    Event.IDLE: Moment.WATCH,
    Event.CALL: Moment.CALL,
}


def moment_of(call: HookCall) -> Moment | None:
    """When mail may be handed over in this call; None: not at all."""
    if call.subagent:
        return None
    if call.event is Event.SESSION_START:
        if call.rewake:
            return Moment.REWAKE if call.attended else None
        return Moment.SESSION_START if call.attended else Moment.UNATTENDED_START
    moment = MOMENTS.get(call.event)
    if moment is Moment.WATCH and not (call.rewake and call.attended):
        return None  # an unattended run would wait for us, and its exit 2 would be a block
    return moment


def plan_tick(snapshot: Snapshot, call: HookCall) -> TickPlan:
    """Plan one call. Pure and total: the same inputs give the same plan, and it never raises."""
    if call.subagent:
        return _subagent(snapshot, call)
    draft = _Draft(snapshot)
    standing = turns.standing(snapshot.timeline, call, snapshot.clock)
    state, proves = _move_turn(snapshot, call, standing)
    stale = standing is Standing.OLD and call.event in turns.STEPS
    read = _settle_evidence(draft, snapshot, call, state, proves)
    state = _follow_takeovers(draft, snapshot.clock, call, state, read)
    _keep_handshake(draft, snapshot, call, state)
    moment = moment_of(call)
    if moment is Moment.PROMPT and standing is Standing.SAME:
        moment = None  # in the middle of a turn: the prompt event is a receipt, no pull
    if stale or snapshot.silent:
        moment = None
    if moment is None:
        plan = TickPlan(Reply(call.name), state)
    else:
        plan = _hand_over(draft, snapshot, call, moment, state)
    return _finish(draft, snapshot, call, plan, stale)


# ------------------------------------------------------------------ the turn


def _move_turn(snapshot: Snapshot, call: HookCall, standing: Standing) -> tuple[Transition, bool]:
    """The turn after the call, and whether the call proves that its turn went on."""
    state = Transition(snapshot.timeline)
    clock = snapshot.clock
    origin = _origin(call)
    opened = state.head.open
    if opened is not None and _is_over(snapshot, call, opened):
        gone = opened.session != call.session or snapshot.open_present is False
        code = turns.interrupted_code(mark=snapshot.interrupt_mark, gone=gone)
        state = turns.finish(state, clock, Outcome.INTERRUPTED, code, origin=origin)
    proves = False
    for step in turns.STEPS.get(call.event, {}).get(standing, ()):
        match step:
            case Step.INTERRUPT:
                state = turns.finish(
                    state, clock, Outcome.INTERRUPTED, "user_interrupt", origin=origin
                )
            case Step.START:
                state = _start(state, snapshot, call, origin)
            case Step.PROVE:
                proves = True
            case Step.TOOLS:
                state = _observe(state, snapshot, call, origin)
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
                state = turns.finish(
                    state, clock, Outcome.INTERRUPTED, "process_exit", origin=origin
                )
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
        turn=snapshot.ids[0],
        token=snapshot.ids[1],
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


def _origin(call: HookCall) -> dict[str, Any]:
    origin = {"provider": call.host, "hook": call.name, "native_session": call.session}
    return {**origin, "native_turn": call.turn} if call.turn else origin


# ------------------------------------------------------------------ the mail


class _Draft:
    """The boxes while a plan is made: each change is applied at once and kept for the store."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.clock = snapshot.clock
        self.head = snapshot.boxes[0].head if snapshot.boxes else Head()
        self.boxes = [{entry.message.id: entry for entry in box.entries} for box in snapshot.boxes]
        self.changes: list[Change] = []
        self.need_user: list[str] = []
        self.expired: list[Entry] = []

    def all(self) -> list[tuple[int, Entry]]:
        """Every entry with its box, in file order."""
        return [(number, entry) for number, box in enumerate(self.boxes) for entry in box.values()]

    def mailboxes(self) -> list[Mailbox]:
        """The boxes as they stand now."""
        heads = [self.head, *(Head() for _ in self.boxes[1:])]
        return [
            Mailbox(head, tuple(box.values())) for head, box in zip(heads, self.boxes, strict=True)
        ]

    def put(
        self, op: Op, entries: Iterable[tuple[int, Entry]], head: Head | None = None, **fields: Any
    ) -> None:
        """One change for these entries, a record for each box that it touches."""
        if head is not None:
            self.head = head
        touched: dict[int, list[str]] = {}
        for number, entry in entries:
            touched.setdefault(number, []).append(entry.message.id)
        if head is not None:
            touched.setdefault(0, [])  # the head is in the worker's own inbox alone
        record = {"at": self.clock.at, "boot_ms": self.clock.boot_ms, **fields}
        for number, ids in touched.items():
            box = self.boxes[number]
            for message_id in ids:
                box[message_id] = advance(box[message_id], op, record)
            box_head = self.head if number == 0 else Head()
            self.changes.append(Change(number, op, tuple(ids), record, box_head))


def _settle_evidence(
    draft: _Draft, snapshot: Snapshot, call: HookCall, state: Transition, proves: bool
) -> list[Entry]:
    """What this call proves about mail that was handed over before it: the takeovers read."""
    read: list[Entry] = []
    clock = snapshot.clock
    opened = state.head.open
    running = opened.native if opened is not None and opened.session == call.session else ""
    was = snapshot.timeline.open
    turn = call.turn or (was.native if was is not None else "")
    returned: dict[str, list[tuple[int, Entry]]] = {}
    for number, entry in draft.all():
        item = [(number, entry)]
        if entry.settled:
            continue
        if (
            call.event is Event.PROMPT
            and entry.message.id in call.named_ids
            and (entry.handed or entry.message.id in snapshot.dead)
        ):
            _taken(draft, number, entry, call, clock)
        elif entry.claim is not None:
            if entry.message.id in snapshot.dead:
                returned.setdefault("claim-void", []).extend(item)
        elif entry.handed:
            if _not_taken(entry, snapshot, call):
                returned.setdefault("not-taken", []).extend(item)
        elif entry.status is Status.DELIVERED:
            verdict = _proof(entry, call, turn, running, proves, snapshot)
            if verdict == "consumed":
                draft.put(Op.CONSUMED, item, evidence=call.name)
                if entry.message.kind is Kind.TAKEOVER:
                    read.append(entry)
            elif verdict:
                returned.setdefault(verdict, []).extend(item)
        elif entry.message.launched and call.session:
            draft.put(Op.CONSUMED, item, evidence="launch", rule="launch")
        elif _expired(entry, clock):
            draft.put(Op.EXPIRED, item, reason="ttl")
            draft.expired.append(entry)
    for reason, items in returned.items():
        ids = {entry.message.id for _, entry in items}
        head = draft.head
        if head.handshake is not None and head.handshake.id in ids:
            head = head._replace(handshake=None)
        draft.put(Op.RETURNED, items, head, reason=reason)
    return read


def _follow_takeovers(
    draft: _Draft, clock: Clock, call: HookCall, state: Transition, read: Iterable[Entry] = ()
) -> Transition:
    """TakeoverConsumed at the end of the carrying turn; until then the head remembers it."""
    running = state.head.open
    over: list[str] = []
    carried = draft.head.takeover
    for entry in read:
        if running is not None and entry.turn in ("", running.native):
            over += [carried.id] if carried is not None else []  # the later one has its turn
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
        state = turns.emit(state, EventKind.TAKEOVER_CONSUMED, payload, clock, origin=_origin(call))
    return state


def _taken(draft: _Draft, number: int, entry: Entry, call: HookCall, clock: Clock) -> None:
    """The prompt event names it: the host did take what the watch gave it."""
    head = draft.head
    if head.handshake is not None and head.handshake.id == entry.message.id:
        head = head._replace(handshake=head.handshake._replace(stage=Stage.WAIT_DONE))
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


def _not_taken(entry: Entry, snapshot: Snapshot, call: HookCall) -> bool:
    if entry.session in snapshot.gone or entry.session != call.session:
        return True
    age = age_ms(entry.moved_ms, snapshot.clock.boot_ms)
    over = age is None or age >= snapshot.limits.handed_grace_ms
    if call.event is Event.SESSION_START:
        return call.source != "compact" and _other_process(entry, call, snapshot.clock)
    if call.event is Event.PROMPT:
        return over and snapshot.timeline.open is None
    return over and call.event in (Event.FILE_CHANGED, Event.IDLE) and _idle(snapshot)


def _proof(
    entry: Entry, call: HookCall, turn: str, running: str, proves: bool, snapshot: Snapshot
) -> str:
    """`consumed`, why it is pending again, or nothing yet."""
    if entry.session != call.session:
        return "session-ended" if entry.session else ""
    by_tool = entry.message.lane is Lane.CONTROL and call.event is Event.TOOL
    if proves and not by_tool and entry.turn in ("", turn):
        return "consumed"
    if call.event is Event.SESSION_END:
        return "session-ended"
    if call.event is Event.SESSION_START:
        ended = call.source != "compact" and _other_process(entry, call, snapshot.clock)
        return "session-ended" if ended else ""
    if call.event is Event.CALL:
        return "consumed"
    if not entry.turn or entry.turn == running:
        return "session-ended" if snapshot.carrier_gone else ""
    # the carrying turn is over and no event of it came: a text that began the turn by a watch
    # stays in the conversation after Esc (measured), anything else given at a prompt does not
    goes_on = call.event in (Event.PROMPT, Event.TOOL, Event.BATCH, Event.STOP)
    if entry.started and goes_on and entry.rule.startswith(("watch/", "rewake/")):
        return "consumed"
    return "turn-ended"


def _other_process(entry: Entry, call: HookCall, clock: Clock) -> bool:
    """Whether it was given to an earlier process of this session; by age where none is known."""
    if entry.host is not None and call.process is not None:
        return entry.host != (call.process.pid, call.process.start)
    age = age_ms(entry.moved_ms, clock.boot_ms)
    return not call.rewake and (age is None or age > turns.REPEAT_MS)


def _expired(entry: Entry, clock: Clock) -> bool:
    """Over on the wall clock and, in the same boot, over on the boot clock too."""
    ttl_ms = entry.message.ttl_seconds * 1000
    over = clock.now_ms - entry.message.ts * 1000 >= ttl_ms
    if entry.boot and entry.boot == clock.boot and entry.boot_ms:
        return clock.boot_ms - entry.boot_ms >= ttl_ms
    return over


def _keep_handshake(draft: _Draft, snapshot: Snapshot, call: HookCall, state: Transition) -> None:
    """Close the handshake with any terminal of its turn; release one that never started."""
    handshake = draft.head.handshake
    if handshake is None:
        return
    finished = any(event.kind is EventKind.TURN_FINISHED for event in state.events)
    before = snapshot.boxes[0].head.handshake  # this call's prompt event may just have begun it
    began = before is not None and before.stage is Stage.WAIT_DONE
    done = handshake.stage is Stage.WAIT_DONE and ((finished and began) or state.head.open is None)
    lost = handshake.session in snapshot.gone or (
        handshake.session != call.session and call.event is Event.SESSION_START
    )
    waited = age_ms(handshake.boot_ms, snapshot.clock.boot_ms)
    late = handshake.stage is Stage.WAIT_START and (
        waited is None or waited >= snapshot.limits.start_wait_ms
    )
    if not (done or lost or late):
        return
    if late and not (done or lost):
        draft.need_user.append(
            f"{snapshot.name} did not start the turn that message {handshake.id} should have begun"
        )
    reason = "turn-finished" if done else "session-gone" if lost else "no-start"
    draft.put(Op.RELEASED, [], draft.head._replace(handshake=None), reason=reason)


def _idle(snapshot: Snapshot) -> bool:
    return snapshot.timeline.open is None or snapshot.host_idle


def _hand_over(
    draft: _Draft, snapshot: Snapshot, call: HookCall, moment: Moment, state: Transition
) -> TickPlan:
    """Choose, render and claim what this call hands over."""
    idle = (Moment.PROMPT, Moment.STOP, Moment.WATCH, Moment.SESSION_START)
    if moment in idle and (call.attended or moment is not Moment.PROMPT):
        _settle_idle_cancels(draft, state)  # not that of a child whose one turn begins here
    liveness = Liveness.BUSY if state.head.open is not None else Liveness.IDLE
    limits = snapshot.limits
    opened = snapshot.timeline.open
    chain = opened.continued if opened is not None and call.event is Event.STOP else 0
    given: list[tuple[int, Entry]] = []
    held: list[tuple[Entry, Decision]] = []
    start: tuple[int, Entry] | None = None
    rule = ""
    takeover = takeover_of(draft.mailboxes())
    for number, entry in _in_order(draft):
        if entry.message.kind is Kind.CANCEL and moment not in CANCELLING:
            continue  # it is no text: it denies tools and ends the turn
        readings = Readings(draft.head, liveness, snapshot.clock.boot_ms, limits)
        fence = ask_fence(entry.message, takeover)
        lane, position = entry.message.lane, entry.message.position
        decision = fence or decide(moment, lane, position, readings)
        if decision.verdict is Verdict.START and chain >= limits.stop_continuations:
            decision = Decision(Verdict.HOLD, "stop-cap", 0, {"in_a_row": chain})
        if decision.rule == Gate.RATE_GUARD:
            draft.need_user.append(
                f"vyane started {limits.starts_per_hour} turns in {snapshot.name} within an hour; "
                "it starts no more for now: look whether two sessions keep answering each other"
            )
        if decision.verdict is Verdict.START and start is None:
            start, rule = (number, entry), decision.rule
        elif decision.verdict is Verdict.DELIVER:
            given.append((number, entry))
            rule = rule or decision.rule
        elif decision.verdict is Verdict.HOLD:
            held.append((entry, decision))
    if moment is Moment.STOP and start is not None:  # other mail rides along
        rest = [
            item
            for item in _in_order(draft)
            if item != start
            and item[1].message.kind is not Kind.CANCEL
            and ask_fence(item[1].message, takeover) is None
        ]
        held = [one for one in held if one[1].rule == "takeover-fence"]
        given = [start, *rest]
    elif start is not None:
        given = [start]
    if moment is Moment.TOOL:
        return _interrupt(draft, snapshot, call, state, given)
    cancels = [item for item in given if item[1].message.kind is Kind.CANCEL]
    if cancels and moment is Moment.BATCH:
        return _end_turn(draft, snapshot, call, state, cancels)
    return _show(draft, snapshot, call, moment, state, given, start, rule, held)


def _show(
    draft: _Draft,
    snapshot: Snapshot,
    call: HookCall,
    moment: Moment,
    state: Transition,
    given: list[tuple[int, Entry]],
    start: tuple[int, Entry] | None,
    rule: str,
    held: list[tuple[Entry, Decision]],
) -> TickPlan:
    templates = snapshot.templates
    preface = ""
    if snapshot.introduce and moment in (Moment.SESSION_START, Moment.UNATTENDED_START):
        preface = templates.fill("introduction", name=snapshot.name)
    page = paginate(
        [entry for _, entry in given], templates, preface=preface, last_step=snapshot.last_step
    )
    shown = tuple(item for item in given if item[1] in page.shown)
    for _, entry in given[len(shown) :]:
        held.append((entry, Decision(Verdict.HOLD, "no-room", 0)))
    reply = Reply(call.name)
    match moment:
        case Moment.WATCH | Moment.REWAKE:
            reply = reply._replace(wake=page.text)
        case Moment.CALL:
            reply = reply._replace(text=page.text)
        case _:
            reply = reply._replace(context=page.text)
    if not shown:
        return TickPlan(reply, state, held=tuple(held))
    by_wake = moment in (Moment.WATCH, Moment.REWAKE)
    head = draft.head
    turn = call.turn
    if start is not None:
        stage = Stage.WAIT_START if by_wake else Stage.WAIT_DONE
        head = head._replace(
            handshake=Handshake(start[1].message.id, call.session, stage, snapshot.clock.boot_ms)
        )
        if not by_wake:
            state = _continue(state, snapshot, call, shown)
    elif state.head.open is not None:
        turn = state.head.open.native
    draft.put(
        Op.CLAIM,
        shown,
        head,
        by=snapshot.me._asdict(),
        guard=snapshot.guard,
        transport=str(moment),
        session=call.session,
        rule=rule,
    )
    showing = Showing(
        shown,
        str(moment),
        call.session,
        start[1] if start is not None else None,
        rule,
        turn if moment not in UNTURNED else "",
        handed=by_wake,
        process=call.process,
    )
    return TickPlan(reply, state, showing=showing, held=tuple(held))


def _continue(
    state: Transition, snapshot: Snapshot, call: HookCall, shown: Iterable[tuple[int, Entry]]
) -> Transition:
    """The turn that a delivery at a Stop begins: the host keeps its id for it."""
    before = snapshot.timeline.open
    return turns.start(
        state,
        snapshot.clock,
        turn=snapshot.ids[2],
        token=snapshot.ids[3],
        trigger=Trigger.DELIVERY,
        session=call.session,
        native=call.turn,
        digest=call.digest,
        continued=(before.continued if before is not None else 0) + 1,
        process=call.process,
        transcript_bytes=snapshot.transcript_bytes,
        payload={"message_ids": [entry.message.id for _, entry in shown]},
        origin=_origin(call),
    )


def _in_order(draft: _Draft) -> list[tuple[int, Entry]]:
    """What may be claimed: control, direct, normal, quiet, and within a lane by position."""
    waiting = [(number, entry) for number, entry in draft.all() if entry.waiting]
    return sorted(waiting, key=lambda item: LANES.index(item[1].message.lane))


# ------------------------------------------------------------------ control


def _interrupt(
    draft: _Draft,
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


def _end_turn(
    draft: _Draft,
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


def _settle_idle_cancels(draft: _Draft, state: Transition) -> None:
    """Nothing runs that could be stopped: the cancel is settled without a start."""
    idle = [item for item in draft.all() if item[1].waiting and item[1].message.kind is Kind.CANCEL]
    if idle and (state.head.open is None or state.events):
        draft.put(Op.CONSUMED, idle, evidence="idle", rule="cancel/nothing-runs")


def _subagent(snapshot: Snapshot, call: HookCall) -> TickPlan:
    """A subagent never receives messages and moves no turn; under control its tools are denied."""
    draft = _Draft(snapshot)
    deny = ""
    if call.event is Event.TOOL:
        for _, entry in draft.all():
            if entry.message.interrupts and not entry.settled:
                cancel = entry.message.kind is Kind.CANCEL
                deny = snapshot.templates.fill("deny-cancel" if cancel else "deny-subagent")
                break
    return TickPlan(Reply(call.name, deny=deny), Transition(snapshot.timeline), None)


# ------------------------------------------------------------------ what is left


def _finish(
    draft: _Draft, snapshot: Snapshot, call: HookCall, plan: TickPlan, stale: bool
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
            if message.startable:
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


# ------------------------------------------------------------------ settling


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
