"""The fold of an inbox: its messages, and the state of each.

An inbox is a journal. A message is one immutable record; later events of the message are further
records that name its id. Each record carries the `Head` after it, so the last line has the offset
of the oldest unsettled message and the facts that decide whether the target may be started.
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
    """The kinds of inbox record.

    `ids` of all but MESSAGE name the messages that the record is about.
    """

    MESSAGE = "message"
    ATTEMPT = "attempt"  # a rule held or refused it
    CLAIM = "claim"  # a tick is about to show it
    HANDED = "handed"  # a watch gave it to the host; the prompt event that names it is awaited
    DELIVERED = "delivered"
    CONSUMED = "consumed"
    RETURNED = "returned"  # it is pending again, marked
    EXPIRED = "expired"
    FAILED = "failed"
    RELEASED = "released"  # the handshake has ended


class HandshakeStage(StrEnum):
    """The stages of a handshake."""

    WAIT_START = "wait_start"
    WAIT_DONE = "wait_done"


class Handshake(NamedTuple):
    """A start in progress, one at a time: opened by a start, closed by any terminal of its turn."""

    id: str
    session: str
    stage: HandshakeStage
    boot_ms: int


class Carried(NamedTuple):
    """A takeover that was read and whose turn still runs: older work waits behind it."""

    id: str
    turn: str
    """vyane's turn id, not the host's: a turn that vyane continues at a Stop is another turn."""


class Head(NamedTuple):
    """The state of a whole inbox, as its last line has it."""

    open: int = 0
    """Byte offset of the oldest unsettled message's record; the file's end when all are settled."""
    handshake: Handshake | None = None
    normal_ms: int | None = None
    """Boot clock, in ms, of the last turn that vyane started with normal mail."""
    starts_ms: tuple[int, ...] = ()
    """Boot clock, in ms, of the starts of the last hour: the rate guard."""
    takeover: Carried | None = None


class DeliveryClaim(NamedTuple):
    """A claim: the process and session that are showing a message at this moment."""

    by: Process
    guard: int
    transport: str
    session: str
    at: float


class MailEntry(NamedTuple):
    """A message and its state."""

    message: Message
    offset: int
    boot: str = ""
    boot_ms: int = 0
    status: MessageStatus = MessageStatus.PENDING
    marks: int = 0
    """Number of times the message came back after it may have been shown."""
    claim: DeliveryClaim | None = None
    handed: bool = False
    started: bool = False
    """True when the delivery started a turn."""
    session: str = ""
    turn: str = ""
    """The host's id of the carrying turn; empty for a SessionStart."""
    host: tuple[int, int] | None = None
    """(pid, start) of the host's process that the message was given to."""
    moved_ms: int = 0
    """Boot clock, in ms, of the message's last record."""
    offered_ms: int | None = None
    """Boot clock, in ms, of the first start with the message that its session left unanswered."""
    rule: str = ""
    """The rule of the last claim, hand-over or attempt, such as the one that held the message."""
    delivered_at: float | None = None
    consumed_at: float | None = None
    failure_reason: str | None = None

    @property
    def settled(self) -> bool:
        """Return whether the message is settled, so that it can no longer change."""
        return self.status in FINAL

    @property
    def waiting(self) -> bool:
        """Return whether the message may be claimed."""
        return self.status is MessageStatus.PENDING and self.claim is None and not self.handed


NO_START = "no-start"
"""Reason for giving up a start: the person is called, and starts are counted from zero again."""

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
    """Return the entry after one more record.

    The entry is unchanged when the table has no row for the record (a late repeat).
    """
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
    """Return since when the session leaves the message unanswered, on the boot clock in ms.

    Another session, or another boot, starts the count again.
    """
    now_ms = _whole(record.get("boot_ms"))
    same = entry.session == str(record.get("session") or "")
    first = entry.offered_ms if same else None
    return first if first is not None and first <= now_ms else now_ms


class Mailbox(NamedTuple):
    """The head of an inbox and its messages in file order."""

    head: Head
    entries: tuple[MailEntry, ...] = ()

    def find(self, message_id: str) -> MailEntry | None:
        """Return the entry of one message; None when the fold did not reach back to it."""
        return next((e for e in self.entries if e.message.id == message_id), None)

    @property
    def unsettled(self) -> tuple[MailEntry, ...]:
        """Return the messages that may still change, oldest first."""
        return tuple(entry for entry in self.entries if not entry.settled)

    @property
    def pending(self) -> tuple[MailEntry, ...]:
        """Return the waiting messages, oldest first: unclaimed, or so far only handed by a wake."""
        return tuple(entry for entry in self.unsettled if entry.waiting or entry.handed)


def takeover_of(boxes: Iterable[Mailbox]) -> str:
    """Return the id of the latest open takeover: one not read yet, or whose turn still runs.

    Empty when no takeover is open, or when the person has decided it (`takeover --resolve`).
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
    """Return the message in a record, in its stored form; empty when the record has none."""
    message = record.get("message")
    return message if isinstance(message, Mapping) else {}


def ids_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids of the messages that a record changes."""
    ids = record.get("ids")
    return tuple(one for one in ids if isinstance(one, str)) if isinstance(ids, list) else ()


def fold(records: Iterable[tuple[int, Mapping[str, Any]]]) -> Mailbox:
    """Fold (byte offset, record) pairs in file order. Total: unknown records are skipped.

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
    """Return a message from its stored form; None for any other data.

    A message whose kind belongs to a later version gives None, too.
    """
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
            return None  # outside any calendar
        message = Message(**known)
    except (KeyError, TypeError, ValueError):
        return None
    texts = (message.id, message.from_id, message.from_name, message.to_id, message.summary)
    if not all(isinstance(text, str) for text in texts):
        return None
    whole = isinstance(known.get("payload", {}), Mapping)
    return message if whole else None


def render_message(message: Message) -> dict[str, Any]:
    """Return the stored form of a message."""
    return {**message._asdict(), "payload": dict(message.payload)}


def render_entry(entry: MailEntry) -> dict[str, Any]:
    """Return a message with its state, as `inbox --json` and `show --json` print it."""
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
    """Return a number of a record as an integer; 0 for any other value.

    A checksum does not vouch for a type.
    """
    return int(value) if isinstance(value, int | float) and abs(value) < _LARGE else 0


def _moment(value: object) -> float:
    """Return a time in Unix seconds; 0 for any other value."""
    return float(value) if isinstance(value, int | float) and abs(value) < _LARGE else 0.0


_LARGE, _LARGEST_S = 2.0**62, 1e11


def parse_head(data: object) -> Head:
    """Return the head of an inbox line from its stored form; an empty head for any other value."""
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
    """Return the stored form of a head, without empty fields."""
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
    """Return (pid, start) from its stored form, a list of the two; None for any other value."""
    if isinstance(data, list) and len(data) == 2 and all(isinstance(one, int) for one in data):
        return data[0], data[1]
    return None


def parse_claim(data: Mapping[str, Any]) -> DeliveryClaim:
    """Return a claim from its record. An unreadable holder becomes a process that never existed."""
    return DeliveryClaim(
        by=parse_process(data.get("by")) or Process("", "", 0, 0),
        guard=_whole(data.get("guard")),
        transport=str(data.get("transport") or ""),
        session=str(data.get("session") or ""),
        at=_moment(data.get("at")),
    )


class InboxChange(NamedTuple):
    """One record for one inbox, with the head after it. `Inbox` fills in the head's `open`."""

    box: int
    op: Op
    ids: tuple[str, ...]
    fields: Mapping[str, Any]
    head: Head
