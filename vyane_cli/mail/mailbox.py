"""The fold of an inbox: which messages it holds, and how far each has come.

An inbox is a journal. A message is one immutable record; what happens to it later is further
records that name its id. Each record carries the `Head` as it is after it, so the last line alone
says where the oldest unsettled message begins and what the target may be started with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vyane_cli.kernel.process import Process, parse_process
from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.mail.message import Lane, Message, MessageKind, MessageStatus, ToKind
from vyane_cli.sessions.speaker import FromKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Op(StrEnum):
    """What one record of an inbox says. `ids` of all but MESSAGE name the messages it is about."""

    MESSAGE = "message"
    ATTEMPT = "attempt"  # a rule held or refused it
    CLAIM = "claim"  # a tick is about to show it
    HANDED = "handed"  # a watch gave it to the host; the prompt event that names it is awaited
    DELIVERED = "delivered"
    CONSUMED = "consumed"
    RETURNED = "returned"  # it is pending again, marked
    EXPIRED = "expired"
    FAILED = "failed"
    RELEASED = "released"  # the handshake is over


class HandshakeStage(StrEnum):
    """Where a handshake stands."""

    WAIT_START = "wait_start"
    WAIT_DONE = "wait_done"


class Handshake(NamedTuple):
    """One start at a time: opened by a start, closed by any terminal of the turn it made."""

    id: str
    session: str
    stage: HandshakeStage
    boot_ms: int


class Carried(NamedTuple):
    """A takeover that was read and whose turn still runs: older work waits behind it."""

    id: str
    turn: str
    """Ours, not the host's: a turn that vyane continues at a Stop is another one."""


class Head(NamedTuple):
    """What the last line of an inbox says about the whole of it."""

    open: int = 0
    """Byte offset of the oldest unsettled message's record; the file's end when there is none."""
    handshake: Handshake | None = None
    normal_ms: int | None = None
    """Boot clock of the last turn that vyane started with normal mail."""
    starts_ms: tuple[int, ...] = ()
    """Boot clock of the starts of the last hour: the rate guard."""
    takeover: Carried | None = None


class DeliveryClaim(NamedTuple):
    """Who is showing a message at this moment."""

    by: Process
    guard: int
    transport: str
    session: str
    at: float


class MailEntry(NamedTuple):
    """A message and how far it has come."""

    message: Message
    offset: int
    boot: str = ""
    boot_ms: int = 0
    status: MessageStatus = MessageStatus.PENDING
    marks: int = 0
    """How often it came back after it may have been shown."""
    claim: DeliveryClaim | None = None
    handed: bool = False
    started: bool = False
    """Whether the delivery made a turn happen."""
    session: str = ""
    turn: str = ""
    """The host's id of the carrying turn; empty for a SessionStart."""
    host: tuple[int, int] | None = None
    """(pid, start) of the host's process that it was given to."""
    moved_ms: int = 0
    """Boot clock of its last record."""
    offered_ms: int | None = None
    """Boot clock of the first start with it that its session left unanswered."""
    rule: str = ""
    """The rule that held it last."""
    delivered_at: float | None = None
    consumed_at: float | None = None
    failure_reason: str | None = None

    @property
    def settled(self) -> bool:
        """Whether nothing can happen to it any more."""
        return self.status in FINAL

    @property
    def waiting(self) -> bool:
        """Whether it may be claimed."""
        return self.status is MessageStatus.PENDING and self.claim is None and not self.handed


NO_START = "no-start"
"""Why a start was given up: a person is called, and the next start is counted anew."""

FINAL = (MessageStatus.CONSUMED, MessageStatus.EXPIRED, MessageStatus.FAILED)

# fmt: off
NEXT: Mapping[MessageStatus, Mapping[Op, MessageStatus]] = {
    MessageStatus.PENDING: {
        Op.CLAIM:     MessageStatus.PENDING,
        Op.HANDED:    MessageStatus.PENDING,
        Op.RETURNED:  MessageStatus.PENDING,
        Op.ATTEMPT:   MessageStatus.PENDING,
        Op.DELIVERED: MessageStatus.DELIVERED,
        Op.CONSUMED:  MessageStatus.CONSUMED,
        Op.EXPIRED:   MessageStatus.EXPIRED,
        Op.FAILED:    MessageStatus.FAILED,
    },
    MessageStatus.DELIVERED: {
        Op.CONSUMED:  MessageStatus.CONSUMED,
        Op.RETURNED:  MessageStatus.PENDING,
        Op.ATTEMPT:   MessageStatus.DELIVERED,
        Op.EXPIRED:   MessageStatus.EXPIRED,
        Op.FAILED:    MessageStatus.FAILED,
    },
    MessageStatus.CONSUMED: {},
    MessageStatus.EXPIRED: {},
    MessageStatus.FAILED: {},
}
# fmt: on


def advance(entry: MailEntry, op: Op, record: Mapping[str, Any]) -> MailEntry:
    """The entry after one more record; unchanged when the record has no row (a late repeat)."""
    status = NEXT[entry.status].get(op)
    if status is None:
        return entry
    entry = entry._replace(status=status, moved_ms=_whole(record.get("boot_ms")))
    at = record.get("at")
    match op:
        case Op.CLAIM:
            rule = str(record.get("rule") or "")
            return entry._replace(claim=parse_claim(record), handed=False, rule=rule)
        case Op.HANDED | Op.DELIVERED:
            return entry._replace(
                claim=None,
                handed=op is Op.HANDED,
                delivered_at=at if op is Op.DELIVERED else None,
                session=str(record.get("session") or ""),
                turn=str(record.get("turn") or ""),
                host=parse_host(record.get("host")),
                started=bool(record.get("start")) or entry.started,
                offered_ms=_offered(entry, record) if op is Op.HANDED else None,
                rule=str(record.get("rule") or ""),
            )
        case Op.CONSUMED:
            return entry._replace(consumed_at=at, claim=None, handed=False)
        case Op.RETURNED:
            marks = entry.marks + (1 if record.get("shown", True) else 0)
            entry = entry._replace(
                claim=None, handed=False, delivered_at=None, marks=marks, turn="", started=False
            )
            return entry._replace(offered_ms=None) if record.get("reason") == NO_START else entry
        case Op.EXPIRED | Op.FAILED:
            return entry._replace(failure_reason=str(record.get("reason") or op), claim=None)
        case Op.ATTEMPT:
            return entry._replace(rule=str(record.get("rule") or ""))
        case _:
            return entry


def _offered(entry: MailEntry, record: Mapping[str, Any]) -> int:
    """Since when its session leaves it unanswered: another session, or boot, begins anew."""
    now_ms = _whole(record.get("boot_ms"))
    same = entry.session == str(record.get("session") or "")
    first = entry.offered_ms if same else None
    return first if first is not None and first <= now_ms else now_ms


class Mailbox(NamedTuple):
    """An inbox as it stands: its head and its messages in file order."""

    head: Head
    entries: tuple[MailEntry, ...] = ()

    def find(self, message_id: str) -> MailEntry | None:
        """The entry of one message, if the fold reached back to it."""
        return next((e for e in self.entries if e.message.id == message_id), None)

    @property
    def unsettled(self) -> tuple[MailEntry, ...]:
        """What may still change, oldest first."""
        return tuple(entry for entry in self.entries if not entry.settled)

    @property
    def pending(self) -> tuple[MailEntry, ...]:
        """What waits for its reader, oldest first: unclaimed, or handed by a wake so far."""
        return tuple(entry for entry in self.unsettled if entry.waiting or entry.handed)


def takeover_of(boxes: Iterable[Mailbox]) -> str:
    """The id of the latest takeover that is not over: not read yet, or its turn still runs.

    Empty when there is none, or when the person has decided it (`takeover --resolve`).
    """
    open_ids, decided = set(), set()
    for box in boxes:
        if box.head.takeover is not None:
            open_ids.add(box.head.takeover.id)
        for entry in box.entries:
            if entry.message.kind is MessageKind.TAKEOVER and not entry.settled:
                open_ids.add(entry.message.id)
            else:
                decided.add(entry.message.decides)
    return max(open_ids - decided, default="")


def brought(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message that a record brings, in its stored form; empty when it brings none."""
    message = record.get("message")
    return message if isinstance(message, Mapping) else {}


def ids_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The messages that a record changes."""
    ids = record.get("ids")
    return tuple(one for one in ids if isinstance(one, str)) if isinstance(ids, list) else ()


def fold(records: Iterable[tuple[int, Mapping[str, Any]]]) -> Mailbox:
    """Fold (byte offset, record) pairs in file order. Total: what it does not know it passes over.

    A second message record with the id of an earlier one is the same message: the first wins.
    """
    entries: dict[str, MailEntry] = {}
    head: object = None
    for offset, record in records:
        head = record.get("head")  # the last one counts
        try:
            op = Op(record.get("op", ""))
        except ValueError:
            continue
        if op is Op.MESSAGE:
            message = parse_message(record.get("message"))
            if message is not None and message.id not in entries:
                entries[message.id] = MailEntry(
                    message,
                    offset,
                    boot=str(record.get("boot") or ""),
                    boot_ms=_whole(record.get("boot_ms")),
                    moved_ms=_whole(record.get("boot_ms")),
                )
            continue
        for message_id in ids_of(record):
            if message_id in entries:
                entries[message_id] = advance(entries[message_id], op, record)
    return Mailbox(parse_head(head), tuple(entries.values()))


# ------------------------------------------------------------------ values as plain data


def parse_message(data: object) -> Message | None:
    """A message from its stored form; None when it is not one (a kind of a later version, say)."""
    if not isinstance(data, Mapping):
        return None
    try:
        known = {key: data[key] for key in Message._fields if key in data}
        known["from_kind"] = FromKind(known["from_kind"])
        known["to_kind"] = ToKind(known["to_kind"])
        known["kind"] = MessageKind(known["kind"])
        known["lane"] = Lane(known["lane"])
        known["ts"], known["ttl_seconds"] = float(known["ts"]), float(known["ttl_seconds"])
        if not (abs(known["ts"]) < _LARGEST_S and 0 <= known["ttl_seconds"] < _LARGEST_S):
            return None  # no time that a calendar has
        message = Message(**known)
    except (KeyError, TypeError, ValueError):
        return None
    texts = (message.id, message.from_id, message.from_name, message.to_id, message.summary)
    if not all(isinstance(text, str) for text in texts):
        return None
    whole = isinstance(known.get("payload", {}), Mapping)
    return message if whole else None


def render_message(message: Message) -> dict[str, Any]:
    """The stored form of a message."""
    return {**message._asdict(), "payload": dict(message.payload)}


def render_entry(entry: MailEntry) -> dict[str, Any]:
    """A message with its state, as `inbox --json` and `show --json` print it."""
    return {
        **render_message(entry.message),
        "delivered_at": entry.delivered_at,
        "consumed_at": entry.consumed_at,
        "status": str(entry.status),
        "failure_reason": entry.failure_reason,
        "redelivered": entry.marks,
        "handed": entry.handed,
        "rule": entry.rule,
    }


def _whole(value: object) -> int:
    """A number as it stands in a record; 0 for anything else: a checksum vouches for no type."""
    return int(value) if isinstance(value, int | float) and abs(value) < _LARGE else 0


def _moment(value: object) -> float:
    """A time in Unix seconds; 0 for anything else."""
    return float(value) if isinstance(value, int | float) and abs(value) < _LARGE else 0.0


_LARGE, _LARGEST_S = 2.0**62, 1e11


def parse_head(data: object) -> Head:
    """The head of an inbox line; an empty one for anything else."""
    if not isinstance(data, Mapping):
        return Head()
    raw, normal = data.get("handshake"), data.get("normal_ms")
    handshake = None
    carried = data.get("takeover")
    try:
        if isinstance(raw, Mapping) and raw.get("stage") in tuple(HandshakeStage):
            handshake = Handshake(
                str(raw.get("id")),
                str(raw.get("session")),
                HandshakeStage(raw["stage"]),
                _whole(raw.get("boot_ms")),
            )
        return Head(
            open=max(_whole(data.get("open")), 0),
            handshake=handshake,
            normal_ms=_whole(normal) if normal is not None else None,
            starts_ms=tuple(_whole(ms) for ms in data.get("starts_ms") or ()),
            takeover=Carried(str(carried["id"]), str(carried["turn"])) if carried else None,
        )
    except (KeyError, TypeError, ValueError):
        return Head()


def render_head(head: Head) -> dict[str, Any]:
    """The stored form of a head; what is empty is left out."""
    data: dict[str, Any] = {"open": head.open}
    if head.handshake is not None:
        data["handshake"] = head.handshake._asdict()
    if head.normal_ms is not None:
        data["normal_ms"] = head.normal_ms
    if head.starts_ms:
        data["starts_ms"] = list(head.starts_ms)
    if head.takeover is not None:
        data["takeover"] = head.takeover._asdict()
    return data


def parse_host(data: object) -> tuple[int, int] | None:
    """(pid, start) from its stored form, a list of the two."""
    if isinstance(data, list) and len(data) == 2 and all(isinstance(one, int) for one in data):
        return data[0], data[1]
    return None


def parse_claim(data: Mapping[str, Any]) -> DeliveryClaim:
    """A claim from its record; an unreadable holder is a process that never was."""
    return DeliveryClaim(
        by=parse_process(data.get("by")) or Process("", "", 0, 0),
        guard=_whole(data.get("guard")),
        transport=str(data.get("transport") or ""),
        session=str(data.get("session") or ""),
        at=_moment(data.get("at")),
    )


class InboxChange(NamedTuple):
    """One record for one inbox, with the head after it (its `open` is the store's to fill)."""

    box: int
    op: Op
    ids: tuple[str, ...]
    fields: Mapping[str, Any]
    head: Head
