"""The input and output of a plan: values, and the moments of a host."""

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
    """ULIDs for the two turns that one call may start: by an event, and by a delivery at a Stop."""

    turn: str = ""
    token: str = ""
    next_turn: str = ""
    next_token: str = ""


class Snapshot(NamedTuple):
    """Everything that a plan may look at: loaded under the locks, or read before them."""

    worker: str
    name: str
    boxes: tuple[Mailbox, ...]
    """The worker's inbox, then the inbox of its logical session if that exists."""
    timeline: TimelineHead
    clock: Clock
    templates: Templates
    limits: DeliveryLimits = DeliveryLimits()
    dead: frozenset[str] = frozenset()
    """Ids of messages whose claim is void: its process is gone, or it belongs to the rerun tick."""
    gone: frozenset[str] = frozenset()
    """Ids of host sessions that have ended, or whose process is gone."""
    carrier_gone: bool = False
    """Whether the session's process is proven gone: mail given to it without proof was not read."""
    host_idle: bool = False
    interrupt_mark: bool = False
    open_present: bool | None = None
    """Whether the process of the open turn exists; None: unknown, or no turn is open."""
    ids: FreshIds = FreshIds()
    me: Process = Process("", "", 0, 0)
    guard: int = 0
    silent: bool = False
    """Whether no mail is handed over: a rerun after a death, or a replayed call."""
    observed: frozenset[str] = frozenset()
    """Ids of the open turn's tool calls that the timeline already has."""
    tools: tuple[ToolCall, ...] = ()
    """Tool calls of the open turn, from the transcript."""
    usage: Mapping[str, Any] | None = None
    diagnostic: str = ""
    """The reason why the transcript could not be read."""
    last_step: str = ""
    transcript_bytes: int = 0
    wake_path: str = ""
    introduce: bool = False
    excerpt_chars: int = 280


class Showing(NamedTuple):
    """The mail that a reply hands over, to be settled when the reply has been written."""

    entries: tuple[tuple[int, MailEntry], ...]
    transport: str
    session: str
    start: MailEntry | None = None
    rule: str = ""
    turn: str = ""
    handed: bool = False
    """Whether the mail is only handed to the host: a prompt event that names it is the receipt."""
    process: Process | None = None
    """The host's process that gets the mail."""
    ends: bool = False
    """Whether the mail ends the turn: a cancel, which is consumed when the reply is written."""


class TickPlan(NamedTuple):
    """Everything that one call changes."""

    reply: Reply
    transition: Transition
    markers: Markers | None = None
    """None: the marker files stay unchanged."""
    changes: tuple[InboxChange, ...] = ()
    showing: Showing | None = None
    wake_self: bool = False
    """Whether to rewrite the wake file last, because startable mail is left."""
    sleeps: bool = False
    """Whether to become the session's sleeper: mail waits for a time, or for an idle session."""
    held: tuple[tuple[MailEntry, Decision], ...] = ()
    need_user: tuple[str, ...] = ()
    expired: tuple[MailEntry, ...] = ()


UNTURNED = (Moment.SESSION_START, Moment.UNATTENDED_START, Moment.REWAKE, Moment.WATCH)
"""Moments at which the turn that carries the mail is not known yet."""

CANCELLING = (Moment.TOOL, Moment.BATCH, Moment.CALL)
"""Moments at which a cancel is taken. A host without hooks gets the cancel in words."""

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
    """Return the moment at which this call may hand over mail; None if it may not."""
    if call.subagent:
        return None
    if call.event is HostEvent.SESSION_START:
        if call.rewake:
            return Moment.REWAKE if call.attended else None
        return Moment.SESSION_START if call.attended else Moment.UNATTENDED_START
    moment = MOMENTS.get(call.event)
    if moment is Moment.WATCH and not (call.rewake and call.attended):
        return None  # an unattended run would wait for the handler, and exit 2 would block
    return moment


def origin_of(call: HookCall) -> dict[str, Any]:
    """Return the origin of an event, in the host's own terms."""
    origin = {"provider": call.host, "hook": call.name, "native_session": call.session}
    return {**origin, "native_turn": call.turn} if call.turn else origin


LANES = tuple(Lane)
"""The lanes in the order in which their messages are handed over."""


class MailboxDrafts:
    """The inboxes while a plan is made: each change is applied at once and kept for the commit."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.clock = snapshot.clock
        self.head = snapshot.boxes[0].head if snapshot.boxes else Head()
        self.boxes = [{entry.message.id: entry for entry in box.entries} for box in snapshot.boxes]
        self.changes: list[InboxChange] = []
        self.need_user: list[str] = []
        self.expired: list[MailEntry] = []

    def all(self) -> list[tuple[int, MailEntry]]:
        """Return every entry with the number of its inbox, in file order."""
        return [(number, entry) for number, box in enumerate(self.boxes) for entry in box.values()]

    def mailboxes(self) -> list[Mailbox]:
        """Return the inboxes with the changes made so far."""
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
        """Apply one change to these entries, with one record for each inbox that it touches."""
        if head is not None:
            self.head = head
        touched: dict[int, list[str]] = {}
        for number, entry in entries:
            touched.setdefault(number, []).append(entry.message.id)
        if head is not None:
            touched.setdefault(0, [])  # only the worker's own inbox has a head
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
    """Return the entries that may be claimed, by lane (control first), then in file order."""
    waiting = [(number, entry) for number, entry in draft.all() if entry.waiting]
    return sorted(waiting, key=lambda item: LANES.index(item[1].message.lane))
