"""A session without disk or clock: calls are planned, and what they change is applied in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vyane_cli.delivery.decide import plan_tick
from vyane_cli.delivery.deliver import plan_settle, plan_unshown, settle_turn
from vyane_cli.delivery.plan import FreshIds, Showing, Snapshot, TickPlan
from vyane_cli.hosts.port import HookCall, HostEvent, Reply, ToolCall, Trigger
from vyane_cli.kernel import ids
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.config import DeliveryLimits
from vyane_cli.kernel.process import Process
from vyane_cli.kernel.text import Templates
from vyane_cli.mail.mailbox import Head, InboxChange, Mailbox, MailEntry, advance
from vyane_cli.mail.message import Lane, Message, MessageKind, ToKind, decide_lane
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.timeline.turns import TimelineHead, Transition

NAMES = (
    "introduction message reply redelivered takeover decision no-step deny-takeover deny-batch"
    " deny-subagent deny-cancel rest left note-former-owner bounce"
).split()
TEMPLATES = Templates(
    {
        **{name: f"<{name}>" for name in NAMES},
        "message": "Message from {sender}, id {id} ({kind}){notes}\n{body}\n{reply}",
        "takeover": "[SYSTEM TAKEOVER] from {sender}, id {id}{notes}\n{step}\n{body}",
        "redelivered": "redelivered",
        "left": "{count} left",
        "rest": "head of {total}: show {id}",
        "no-step": "",
    }
)
BOOT = "boot"
HOST = Process(BOOT, "ns", 100, 1000)
ME = Process(BOOT, "ns", 200, 2000)
HUMAN = FromKind.HUMAN
START_MS = 1_800_000_000_000


def message(
    number: int,
    text: str = "hello",
    *,
    kind: MessageKind = MessageKind.CONTEXT_INJECT,
    from_kind: FromKind = FromKind.WORKER,
    to_kind: ToKind = ToKind.WORKER,
    lane: Lane | None = None,
    ttl: float = 86_400.0,
    ts: float = START_MS / 1000,
    **payload: Any,
) -> Message:
    key = {MessageKind.TAKEOVER: "instruction", MessageKind.CANCEL: "reason"}.get(kind, "text")
    return Message(
        ids.render_ulid(START_MS, number.to_bytes(10, "big")),
        ts,
        ttl,
        from_kind,
        "w-sender",
        "sender",
        to_kind,
        "w-1",
        kind,
        lane or decide_lane(kind, from_kind, to_kind),
        payload={key: text, **payload},
    )


@dataclass
class Scripted:
    """One worker with one host session; `call` plans, applies, shows and settles."""

    limits: DeliveryLimits = field(default_factory=DeliveryLimits)
    boxes: list[Mailbox] = field(default_factory=lambda: [Mailbox(Head())])
    timeline: TimelineHead = field(default_factory=lambda: TimelineHead("e" * 32))
    now_ms: int = START_MS
    boot_ms: int = 1_000_000
    session: str = "S1"
    turn: str = "T1"
    attended: bool = True
    serial: int = 0
    events: list[Any] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    """Ids in the order in which they were shown, each time."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Fields of every snapshot, such as host_idle or gone."""
    alive: bool = True
    """Whether the ticks live to settle what they claim."""
    last_change: list[InboxChange] = field(default_factory=list)

    # ---------------------------------------------------------------- the world

    def put(self, *messages: Message, box: int = 0) -> Message:
        for one in messages:
            entry = MailEntry(one, self._next(), BOOT, self.boot_ms, moved_ms=self.boot_ms)
            before = self.boxes[box]
            self.boxes[box] = before._replace(entries=(*before.entries, entry))
        return messages[0]

    def say(self, text: str = "hello", *, number: int | None = None, **more: Any) -> str:
        """A message to this session; its id."""
        return self.put(message(self._next() if number is None else number, text, **more)).id

    def pass_s(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)
        self.boot_ms += int(seconds * 1000)

    def entry(self, message_id: str) -> MailEntry:
        return next(e for b in self.boxes for e in b.entries if e.message.id == message_id)

    def status(self, message_id: str) -> str:
        return str(self.entry(message_id).status)

    @property
    def head(self) -> Head:
        return self.boxes[0].head

    @property
    def clock(self) -> Clock:
        return Clock(self.now_ms, self.boot_ms, BOOT)

    # ---------------------------------------------------------------- calls

    def call(self, event: HostEvent, *, fails: bool = False, **more: Any) -> TickPlan:
        """One hook call, from the plan to the settlement."""
        snapshot_facts = {k: more.pop(k) for k in list(more) if k in ONLY_SNAPSHOT}
        if "transcript_tools" in more:
            snapshot_facts["tools"] = more.pop("transcript_tools")
        call = HookCall("claude-code", event, NAME_OF.get(event, str(event)), self.session)
        call = call._replace(turn=self.turn, attended=self.attended, process=HOST)
        call = call._replace(digest=f"{self._next():x}")
        call = call._replace(**more)
        return self.run(call, fails=fails, **snapshot_facts)

    def run(self, call: HookCall, *, fails: bool = False, **facts: Any) -> TickPlan:
        plan = plan_tick(self.snapshot(**facts), call)
        self.apply(plan.changes)
        self.timeline = plan.transition.head
        self.events += plan.transition.events
        self.needs += plan.need_user
        self.last_change = list(plan.changes)
        if plan.showing is not None and not fails:
            self.shown += [entry.message.id for _, entry in plan.showing.entries]
        if plan.showing is not None and self.alive:
            self.settle(plan.showing, shown=not fails)
        return plan

    def snapshot(self, **facts: Any) -> Snapshot:
        fresh = FreshIds(
            *(
                ids.render_ulid(self.now_ms, (1 << 60 | self._next()).to_bytes(10, "big"))
                for _ in FreshIds._fields
            )
        )
        given: dict[str, Any] = {"ids": fresh, "me": ME, "limits": self.limits}
        given |= self.facts | facts
        return Snapshot(
            worker="w-1",
            name="alice",
            boxes=tuple(self.boxes),
            timeline=self.timeline,
            clock=self.clock,
            templates=TEMPLATES,
            **given,
        )

    def settle(self, showing: Showing, *, shown: bool = True) -> None:
        planned = plan_settle if shown else plan_unshown
        self.apply(planned(self.head, showing, self.clock))
        state = settle_turn(Transition(self.timeline), showing, self.clock, shown=shown)
        self.timeline = state.head
        self.events += state.events

    def apply(self, changes: Sequence[InboxChange]) -> None:
        for change in changes:
            box = self.boxes[change.box]
            entries = tuple(
                advance(entry, change.op, change.fields)
                if entry.message.id in change.ids
                else entry
                for entry in box.entries
            )
            self.boxes[change.box] = Mailbox(change.head if change.box == 0 else box.head, entries)

    def start(self, source: str = "startup", **more: Any) -> TickPlan:
        return self.call(HostEvent.SESSION_START, source=source, turn="", **more)

    def rewake(self, **more: Any) -> TickPlan:
        return self.start(rewake=True, **more)

    def prompt(self, turn: str = "", **more: Any) -> TickPlan:
        self.turn = turn or f"T{self._next()}"
        return self.call(HostEvent.PROMPT, **more)

    def woken(self, *named: str, **more: Any) -> TickPlan:
        return self.prompt(named_ids=named, trigger=Trigger.WAKE, **more)

    def tool(self, **more: Any) -> TickPlan:
        return self.call(HostEvent.TOOL, **more)

    def batch(self, **more: Any) -> TickPlan:
        tools = (ToolCall(f"tool-{self._next()}", "Bash"),)
        return self.call(HostEvent.BATCH, **{"tools": tools, **more})

    def stop(self, **more: Any) -> TickPlan:
        return self.call(HostEvent.STOP, **{"result": "done", "result_digest": "d", **more})

    def watch(self, **more: Any) -> TickPlan:
        return self.call(HostEvent.FILE_CHANGED, rewake=True, **more)

    def idle(self, **more: Any) -> TickPlan:
        return self.call(HostEvent.IDLE, rewake=True, **more)

    def end(self, source: str = "other", **more: Any) -> TickPlan:
        return self.call(HostEvent.SESSION_END, source=source, **more)

    def outcomes(self) -> list[str]:
        return [
            "/".join(filter(None, (e.payload["outcome"], e.payload.get("code"))))
            for e in self.events
            if e.kind == "TurnFinished"
        ]

    def ended_takeovers(self) -> list[str]:
        return [e.payload["message_id"] for e in self.events if e.kind == "TakeoverConsumed"]

    def _next(self) -> int:
        self.serial += 1
        return self.serial


def said(reply: Reply) -> str:
    return reply.context + reply.wake + reply.text


ONLY_SNAPSHOT = frozenset(Snapshot._fields) - frozenset(HookCall._fields)
NAME_OF = {
    HostEvent.SESSION_START: "SessionStart",
    HostEvent.PROMPT: "UserPromptSubmit",
    HostEvent.TOOL: "PreToolUse",
    HostEvent.PERMISSION: "PermissionRequest",
    HostEvent.BATCH: "PostToolBatch",
    HostEvent.STOP: "Stop",
    HostEvent.STOP_FAILURE: "StopFailure",
    HostEvent.SESSION_END: "SessionEnd",
    HostEvent.FILE_CHANGED: "FileChanged",
    HostEvent.CWD_CHANGED: "CwdChanged",
    HostEvent.IDLE: "Notification",
}
