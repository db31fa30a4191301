"""What a plan is made from and what it says: values, and the moments of a host."""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.delivery.gating import Decision, Moment
from vyane_cli.hosts.port import Event, HookCall, Reply, ToolCall
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.config import Limits
from vyane_cli.kernel.process import Process
from vyane_cli.kernel.text import Templates
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.mail.mailbox import Entry, Head, Mailbox, Op
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


def origin_of(call: HookCall) -> dict[str, Any]:
    """Where an event comes from, in the host's own terms."""
    origin = {"provider": call.host, "hook": call.name, "native_session": call.session}
    return {**origin, "native_turn": call.turn} if call.turn else origin
