"""What is in an inbox, and what will happen to a message. Looking changes nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from vyane_cli.delivery.gating import Moment, Readings, Verdict, decide
from vyane_cli.errors import CorruptStateError, InvalidInputError, NotFoundError, TooNewError
from vyane_cli.kernel.values import OMIT, InJson, NamedTuple
from vyane_cli.mail import inbox
from vyane_cli.mail.address import check_channel
from vyane_cli.mail.boxes import boxes_of
from vyane_cli.mail.lookup import ShownMessage, find_message
from vyane_cli.mail.mailbox import Entry, Head
from vyane_cli.mail.message import Kind, Lane, Message, Position, Status, ToKind
from vyane_cli.mail.once import Sent
from vyane_cli.mail.routing import CHANNEL
from vyane_cli.sessions import registry
from vyane_cli.sessions.liveness import look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import find_worker
from vyane_cli.storage import journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime

LIMIT_MAX = 1000


class Listing(NamedTuple):
    """Messages by time, and the lines that are none: what these held is not among the rows."""

    rows: tuple[ShownMessage, ...]
    damaged: list[CorruptStateError]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageState:
    """A stored message, and what will happen to it."""

    id: str
    status: Status
    to_kind: ToKind
    to_id: str
    lane: Lane
    kind: Kind
    liveness: Liveness | None = field(default=None, metadata=OMIT)
    """Of the worker that gets it, if one does."""
    to_name: str
    outlook: str
    """What will happen to it, as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentState:
    """What a send has stored: its message, and of a broadcast all its copies."""

    first: MessageState = field(metadata={InJson: InJson(spread=True)})
    copies: tuple[MessageState, ...] | None = field(default=None, metadata=OMIT)
    """None: the message is the only one."""


def list_messages(
    runtime: Runtime,
    who: str,
    *,
    kind: str = "",
    status: str = "",
    since_s: float | None = None,
    limit: int = 100,
    everything: bool = False,
) -> Listing:
    """A worker's (or logical session's) messages by time, the newest `limit` of them.

    By default what is not settled and the last settled ones that are still in the inbox.
    """
    if not 1 <= limit <= LIMIT_MAX:
        raise InvalidInputError("limit", limit, f"between 1 and {LIMIT_MAX}")
    entries: list[Entry] = []
    damaged: list[CorruptStateError] = []
    for path in _paths(runtime, who):
        reading = inbox.read(path, whole=everything or bool(since_s))
        for offset, name in reading.unknown:
            line = journal.line_number(path, offset)
            raise TooNewError(path, f"a message of the unknown kind {name!r}", line=line)
        damaged += [journal.error_of(path, damage) for damage in reading.damage]
        entries += reading.mailbox.entries
    entries = [
        entry
        for entry in entries
        if (not kind or entry.message.kind == kind)
        and (not status or entry.status == status)
        and (since_s is None or entry.message.ts >= since_s)
    ]
    entries.sort(key=lambda entry: (entry.message.ts, entry.message.id))
    return Listing(tuple(ShownMessage(entry=entry) for entry in entries[-limit:]), damaged)


def _paths(runtime: Runtime, who: str) -> Sequence[str]:
    if who.startswith(CHANNEL):
        name = who.removeprefix(CHANNEL)
        path = runtime.layout.channel_inbox(name)
        if not os.path.exists(path):
            check_channel(runtime, name)
        return [path]
    if who.startswith("vs-"):
        logical = registry.load_logical_session(runtime.layout, who)
        if logical is None:
            raise NotFoundError("logical session", who)
        return boxes_of(runtime, logical.worker, logical.id)
    worker = find_worker(who, registry.Registry(runtime.layout).listing())
    return boxes_of(runtime, worker.id, worker.logical_session_id)


def state_of_message(
    runtime: Runtime, message: Message, *, stored_before: bool = False
) -> MessageState:
    """A stored message, and what the table says will happen to it; or what has, of an older one."""
    status, reached = Status.PENDING, None
    name, outlook = message.to_id, "it waits in the inbox"
    worker_id, head, logical = message.to_id, Head(), ""
    if message.to_kind is ToKind.LOGICAL_SESSION:
        found = registry.load_logical_session(runtime.layout, message.to_id)
        worker_id, logical = (found.worker, found.id) if found else ("", "")
    if message.to_kind in (ToKind.WORKER, ToKind.LOGICAL_SESSION) and worker_id:
        workers = registry.Registry(runtime.layout)
        worker = workers.workers.get(worker_id)
        if worker is not None:
            name = worker.name
            seen = look(runtime, worker)
            paths = boxes_of(runtime, worker_id, logical)
            head = inbox.read_head(paths[0])
            outlook = _outlook(runtime, message, seen.liveness, head, seen.transports)
            if worker.final:
                outlook = f"it has ended ({worker.status}) and reads it only if it is opened again"
            reached = seen.liveness
    elif message.to_kind is ToKind.BROADCAST:
        outlook = "each active worker gets it with its next turn"
        if message.lane is Lane.CONTROL:
            outlook = "each active worker that is busy is stopped for it, each idle one is woken"
    elif message.to_kind is ToKind.CHANNEL:
        outlook = "the next `vyane mirror push`, or round, shows it there"
    if stored_before:
        status = find_message(runtime, message.id).entry.status
        if status is not Status.PENDING:
            outlook = f"it is {status}"
    return MessageState(
        id=message.id,
        status=status,
        to_kind=message.to_kind,
        to_id=message.to_id,
        lane=message.lane,
        kind=message.kind,
        liveness=reached,
        to_name=name,
        outlook=outlook,
    )


def state_of_sent(runtime: Runtime, sent: Sent) -> SentState:
    """What a send has stored, and what will happen to it."""
    states = tuple(
        state_of_message(runtime, message, stored_before=sent.repeated) for message in sent.messages
    )
    return SentState(first=states[0], copies=states if len(states) > 1 else None)


def _outlook(
    runtime: Runtime, message: Message, liveness: Liveness, head: Head, ways: Sequence[str]
) -> str:
    position = message.position
    if "call" in ways:
        return "it gets the message at its next call (vyane tick --host generic)"
    if "resume" in ways and message.lane is not Lane.QUIET:
        return "the session is closed; vyane opens it again for the message"
    match liveness:
        case Liveness.EXITED:
            return "the session is closed; it gets the message when it comes back"
        case Liveness.UNKNOWN:
            return "whether the session runs cannot be told; it gets the message at its next hook"
        case Liveness.BUSY if message.lane is Lane.CONTROL:
            return "the session is busy; its next tool call is stopped for it"
        case Liveness.BUSY if position is Position.BEFORE_NEXT_TURN:
            return "the session is busy; it gets the message with its next turn"
        case Liveness.BUSY:
            return "the session is busy; it gets the message after the current tool call"
        case _:
            pass
    if message.lane is Lane.QUIET:
        return "the session is idle; the message goes along with its next turn"
    if "watch" not in ways:
        return "the session is idle and has no watch; it gets the message at its next prompt"
    clock = runtime.clock()
    readings = Readings(head, liveness, clock.boot_ms, runtime.config.limits)
    decision = decide(Moment.WATCH, message.lane, position, readings)
    if decision.verdict is Verdict.START:
        return "the session is idle and is being woken"
    again = f" in {decision.again_ms // 1000} s" if decision.again_ms else ""
    return f"the session is idle; held ({decision.rule}), tried again{again}"
