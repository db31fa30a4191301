"""Plan of a hook call: the snapshot it is made from, its changes, and the moments of a host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vyane_cli.delivery.gating import Decision, Moment
from vyane_cli.hosts.port import HookCall, HostEvent, Reply, ToolCall
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.config import DeliveryLimits
from vyane_cli.kernel.process import Process
from vyane_cli.kernel.text import Templates
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.mail.mailbox import Head, InboxChange, Mailbox, MailEntry, Op, advance
from vyane_cli.mail.message import Lane
from vyane_cli.sessions.session import Markers
from vyane_cli.timeline.turns import TimelineHead, Transition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class FreshIds(NamedTuple):
    """ULIDs for the two turns that one call may begin, by an event and by a delivery at a Stop."""

    turn: str = ""
    token: str = ""
    next_turn: str = ""
    next_token: str = ""


class Snapshot(NamedTuple):
    """Everything that a plan may look at: loaded under the locks, or read before."""

    worker: str
    name: str
    boxes: tuple[Mailbox, ...]
    """The worker's inbox, then that of its logical session if there is one."""
    timeline: TimelineHead
    clock: Clock
    templates: Templates
    limits: DeliveryLimits = DeliveryLimits()
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
    ids: FreshIds = FreshIds()
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


class Showing(NamedTuple):
    """What a reply hands over, to be settled when it is out."""

    entries: tuple[tuple[int, MailEntry], ...]
    transport: str
    session: str
    start: MailEntry | None = None
    rule: str = ""
    turn: str = ""
    handed: bool = False
    """Only handed to the host: the prompt event that names it is the receipt."""
    process: Process | None = None
    """The host's process that gets it."""
    ends: bool = False
    """It ends the turn: a cancel, which is consumed by being told."""


class TickPlan(NamedTuple):
    """Everything one call changes."""

    reply: Reply
    transition: Transition
    markers: Markers | None = None
    """None: leave them alone."""
    changes: tuple[InboxChange, ...] = ()
    showing: Showing | None = None
    wake_self: bool = False
    """Rewrite the wake file last: startable mail is left."""
    sleeps: bool = False
    """Become the session's sleeper: mail waits for a time, or for the session to turn idle."""
    held: tuple[tuple[MailEntry, Decision], ...] = ()
    need_user: tuple[str, ...] = ()
    expired: tuple[MailEntry, ...] = ()


UNTURNED = (Moment.SESSION_START, Moment.UNATTENDED_START, Moment.REWAKE, Moment.WATCH)
"""Moments at which the carrying turn is not known yet."""

CANCELLING = (Moment.TOOL, Moment.BATCH, Moment.CALL)
"""Moments at which a cancel is taken; a host without hooks is told in words."""

MOMENTS: Mapping[HostEvent, Moment] = {
    HostEvent.PROMPT: Moment.PROMPT,
    HostEvent.TOOL: Moment.TOOL,
    HostEvent.BATCH: Moment.BATCH,
    HostEvent.STOP: Moment.STOP,
    HostEvent.FILE_CHANGED: Moment.WATCH,
    HostEvent.IDLE: Moment.WATCH,
    HostEvent.CALL: Moment.CALL,
}


def moment_of(call: HookCall) -> Moment | None:
    """When mail may be handed over in this call; None: not at all."""
    if call.subagent:
        return None
    if call.event is HostEvent.SESSION_START:
        if call.rewake:
            return Moment.REWAKE if call.attended else None
        return Moment.SESSION_START if call.attended else Moment.UNATTENDED_START
    moment = MOMENTS.get(call.event)
    if moment is Moment.WATCH and not (call.rewake and call.attended):
        return None  # an unattended run would wait for us, and its exit 2 would be a block
    return moment


def origin_of(call: HookCall) -> dict[str, Any]:
    """Where an event comes from, in the host's own terms."""
    origin = {"provider": call.host, "hook": call.name, "native_session": call.session}
    return {**origin, "native_turn": call.turn} if call.turn else origin


LANES = tuple(Lane)
"""The order in which messages are handed over."""


class MailboxDrafts:
    """The boxes while a plan is made: each change is applied at once and kept for the store."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.clock = snapshot.clock
        self.head = snapshot.boxes[0].head if snapshot.boxes else Head()
        self.boxes = [{entry.message.id: entry for entry in box.entries} for box in snapshot.boxes]
        self.changes: list[InboxChange] = []
        self.need_user: list[str] = []
        self.expired: list[MailEntry] = []

    def all(self) -> list[tuple[int, MailEntry]]:
        """Every entry with its box, in file order."""
        return [(number, entry) for number, box in enumerate(self.boxes) for entry in box.values()]

    def mailboxes(self) -> list[Mailbox]:
        """The boxes as they stand now."""
        heads = [self.head, *(Head() for _ in self.boxes[1:])]
        return [
            Mailbox(head, tuple(box.values())) for head, box in zip(heads, self.boxes, strict=True)
        ]

    def put(
        self,
        op: Op,
        entries: Iterable[tuple[int, MailEntry]],
        head: Head | None = None,
        **fields: Any,
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
            self.changes.append(
                InboxChange(box=number, op=op, ids=tuple(ids), fields=record, head=box_head)
            )


def in_order(draft: MailboxDrafts) -> list[tuple[int, MailEntry]]:
    """What may be claimed: control, direct, normal, quiet, and within a lane by position."""
    waiting = [(number, entry) for number, entry in draft.all() if entry.waiting]
    return sorted(waiting, key=lambda item: LANES.index(item[1].message.lane))
