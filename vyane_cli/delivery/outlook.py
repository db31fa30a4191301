"""The outlook of a stored message: what will happen to it, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vyane_cli.delivery.gating import DeliveryVerdict, Moment, Readings, decide
from vyane_cli.delivery.view import transports_of
from vyane_cli.kernel.values import OMIT, InJson
from vyane_cli.mail import inbox
from vyane_cli.mail.enqueue import Sent
from vyane_cli.mail.inbox import boxes_of
from vyane_cli.mail.lookup import find_message
from vyane_cli.mail.mailbox import Head
from vyane_cli.mail.message import Lane, Message, MessageKind, MessageStatus, Position, ToKind
from vyane_cli.sessions import registry
from vyane_cli.sessions.liveness import look
from vyane_cli.sessions.liveness_rules import Liveness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageState:
    """A stored message with its outlook."""

    id: str
    status: MessageStatus
    to_kind: ToKind
    to_id: str
    lane: Lane
    kind: MessageKind
    liveness: Liveness | None = field(default=None, metadata=OMIT)
    """Liveness of the worker that gets the message, if a worker does."""
    to_name: str
    outlook: str
    """A sentence that says what will happen to the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentState:
    """The messages that a send has stored: the first one, and all copies of a broadcast."""

    first: MessageState = field(metadata={InJson: InJson(spread=True)})
    copies: tuple[MessageState, ...] | None = field(default=None, metadata=OMIT)
    """All copies of a broadcast; None: the first message is the only one."""


def state_of_message(home: Home, message: Message, *, stored_before: bool = False) -> MessageState:
    """Return the state of a stored message: what the delivery table says will happen to it.

    For a message that was `stored_before`, return what has already happened to it.
    """
    status, reached = MessageStatus.PENDING, None
    name, outlook = message.to_id, "it waits in the inbox"
    worker_id, head, logical = message.to_id, Head(), ""
    if message.to_kind is ToKind.LOGICAL_SESSION:
        found = registry.load_logical_session(home.layout, message.to_id)
        worker_id, logical = (found.worker, found.id) if found else ("", "")
    if message.to_kind in (ToKind.WORKER, ToKind.LOGICAL_SESSION) and worker_id:
        workers = registry.Registry(home.layout)
        worker = workers.workers.get(worker_id)
        if worker is not None:
            name = worker.name
            seen = look(home, worker)
            paths = boxes_of(home, worker_id, logical)
            head = inbox.read_head(paths[0])
            outlook = _outlook(
                home, message, seen.liveness, head, transports_of(home, worker, seen)
            )
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
        status = find_message(home, message.id).entry.status
        if status is not MessageStatus.PENDING:
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


def state_of_sent(home: Home, sent: Sent) -> SentState:
    """Return the state of each message that a send has stored."""
    states = tuple(
        state_of_message(home, message, stored_before=sent.repeated) for message in sent.messages
    )
    return SentState(first=states[0], copies=states if len(states) > 1 else None)


def _outlook(
    home: Home, message: Message, liveness: Liveness, head: Head, ways: Sequence[str]
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
    clock = home.clock()
    readings = Readings(head, liveness, clock.boot_ms, home.config.limits)
    decision = decide(Moment.WATCH, message.lane, position, readings)
    if decision.verdict is DeliveryVerdict.START:
        return "the session is idle and is being woken"
    again = f" in {decision.again_ms // 1000} s" if decision.again_ms else ""
    return f"the session is idle; held ({decision.rule}), tried again{again}"
