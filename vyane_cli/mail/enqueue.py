"""Storage of messages: the append to an inbox, the markers around it, and the ring after it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vyane_cli.errors import (
    ConflictError,
    DurabilityUnknownError,
    InvalidInputError,
    RefusedError,
    VyaneError,
)
from vyane_cli.kernel.clock import Clock
from vyane_cli.mail import inbox
from vyane_cli.mail.mailbox import render_message
from vyane_cli.mail.message import DAY_S, Message, MessageKind, Relation, ToKind
from vyane_cli.sessions import markers
from vyane_cli.sessions.facts import append_fact
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import document, files, journal
from vyane_cli.storage.locks import LockKind
from vyane_cli.timeline.events import EventKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


class Target(NamedTuple):
    """The target of a message: an inbox, and the worker that reads it."""

    kind: ToKind
    id: str
    path: str
    worker: str = ""
    logical_session: str = ""
    relation: Relation = Relation.PEER
    lock: str = ""
    name: str = ""


def target_of(home: Home, worker: Worker) -> Target:
    """Return the target of a message to a worker."""
    path = home.layout.inbox(worker.id)
    logical = worker.logical_session_id
    return Target(
        kind=ToKind.WORKER,
        id=worker.id,
        path=path,
        worker=worker.id,
        logical_session=logical,
        lock=worker.id,
        name=worker.name,
    )


def store(
    home: Home, target: Target, message: Message, clock: Clock, *, noted: bool = False
) -> None:
    """Append one message to its inbox and ring. On disk when this returns.

    Markers are set before the append and the wake file is written after it, all under the inbox
    lock: a session that sees the ring finds the message. An order of the control lane is first
    recorded as a fact in the target's timeline; a crash in between leaves a fact that names an
    unsent message. `noted`: that fact is already recorded. DurabilityUnknownError carries the
    message id.
    """
    locks = [(LockKind.INBOX, target.lock)]
    known = target.worker and target.logical_session and not noted
    fact = fact_of(message) if known else None
    if fact is not None:
        locks.append((LockKind.TIMELINE, target.logical_session))
    try:
        with home.held(*locks):
            if fact is not None:
                with files.before_commit():
                    append_fact(home, target.worker, target.logical_session, *fact, clock)
            store_held(home, target, message, clock)
    except DurabilityUnknownError as error:
        error.message_id = message.id
        raise


def store_held(home: Home, target: Target, message: Message, clock: Clock) -> None:
    """Store a message like `store`, for a caller that already holds the inbox lock.

    No fact is recorded in the timeline, so the message must not be a takeover or a cancel unless
    its fact is already there.
    """
    layout = home.layout
    session = ""
    if target.worker:
        session = markers.announce(
            layout,
            target.worker,
            control=message.interrupts,
            startable=message.startable,
        )
    try:
        inbox.append(target.path, layout.root, message, clock)
    except DurabilityUnknownError:  # it is in the inbox, and will be delivered
        _ring(home, target, message, session, clock)
        raise
    _ring(home, target, message, session, clock)


def store_each(
    home: Home,
    wanted: Sequence[tuple[Target, Message]],
    clock: Clock,
    *,
    keyed: bool = False,
) -> None:
    """Store each message for its target. A failure does not stop the other targets.

    The error names the targets that got the message, so that it is not sent to them twice.
    """
    unsure: DurabilityUnknownError | None = None
    failed: VyaneError | None = None
    stored, missed = [], []
    for target, message in wanted:
        try:
            store(home, target, message, clock)
            stored.append(target.name)
        except DurabilityUnknownError as error:
            unsure = unsure or error
            stored.append(target.name)
        except VyaneError as error:
            failed = failed or error
            missed.append(target.name)
    if failed is not None:
        if stored:
            rest = "the same command again completes it" if keyed else "send it to them alone"
            failed.hint = f"{', '.join(stored)} got it, not {', '.join(missed)}: {rest}"
        raise failed
    if unsure is not None:
        raise unsure


def fact_of(message: Message) -> tuple[EventKind, dict[str, Any]] | None:
    """Return the timeline fact of an order of the control lane; None for any other message."""
    match message.kind:
        case MessageKind.TAKEOVER:
            soft = message.payload.get("interrupt_first") is False
            return EventKind.TAKEOVER_INITIATED, {
                "message_id": message.id,
                "by": message.from_name,
                "interrupt": "none" if soft else "hook",
            }
        case MessageKind.CANCEL:
            return EventKind.CANCEL_REQUESTED, {
                "operation": str(message.correlation_id or message.id),
                "message_id": message.id,
                "by": message.from_name,
                "reason": str(message.payload.get("reason") or ""),
                "force": bool(message.payload.get("force")),
            }
        case _:
            return None


def _ring(home: Home, target: Target, message: Message, session: str, clock: Clock) -> None:
    """Ring the target.

    Errors are ignored: the message is stored, and any session's tick rings again.
    """
    if not (message.startable and target.worker):
        return
    try:
        markers.wake(home.layout, session, clock.at)
    except VyaneError:
        return


def reach_targets(
    home: Home, targets: Sequence[Target], messages: Sequence[Message], clock: Clock
) -> None:
    """Reach the targets' sessions by slower ways than a ring, such as keystrokes or a resume.

    Call it once the messages are stored and no lock is held. Errors are ignored: the next round
    retries.
    """
    for target, message in zip(targets, messages, strict=True):
        if message.startable and target.worker:
            try:
                home.reach(target.worker, clock)
            except VyaneError:
                continue


def keep_copy(home: Home, speaker: Speaker, messages: Sequence[Message]) -> None:
    """Copy the messages to the sender's outbox, for reading only: not flushed, errors ignored."""
    if speaker.kind is not FromKind.WORKER:
        return
    path = home.layout.outbox(speaker.id)
    try:
        with home.held((LockKind.OUTBOX, speaker.id)):
            writer = journal.open_writer(path, home.layout.root)
            try:
                records = [{"op": "sent", "message": render_message(one)} for one in messages]
                writer.append(records, durable=False)
            finally:
                writer.close()
    except VyaneError:
        return


def is_stored(home: Home, target: Target, message: Message) -> bool:
    """Return whether the message is in its inbox or archived.

    In the inbox it is flushed once more.
    """
    needle = b'"id":"%s"' % message.id.encode()
    with home.held((LockKind.INBOX, target.lock)):
        if journal.has_record(target.path, needle):
            fd = files.open_for_writing(target.path)
            try:
                files.sync(fd, target.path)
                files.sync_directories(target.path, home.layout.root)
            except OSError as error:
                failed = DurabilityUnknownError(target.path, error)
                failed.message_id = message.id
                raise failed from error
            finally:
                os.close(fd)
            return True
    folder = home.layout("messages", "archive")
    return any(
        journal.has_record(home.layout.archive(month), needle) for month in files.listdir(folder)
    )


BROADCAST_EVERY_S = 60.0


class Sent(NamedTuple):
    """The result of a send: one message, or the copies of a broadcast."""

    messages: tuple[Message, ...]
    repeated: bool = False
    """True when the idempotency key was known and nothing new was stored."""
    names: tuple[str, ...] = ()
    """Names of the recipients, one for each message."""

    @property
    def message(self) -> Message:
        """Return the first message, which is usually the only one."""
        return self.messages[0]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _content(messages: Sequence[Message], family: str) -> str:
    """Return a digest that two sends under one key share: the text as written, and the addressee.

    Derived values are left out, because they may have changed since: lane, links, the recipients of
    a broadcast, or the members of a `family` (`children`).
    """
    addressed = sorted({f"{message.to_kind}:{message.to_id}" for message in messages})
    if family:
        addressed = [family]
    first = messages[0]
    written = (first.kind, first.summary, dict(first.payload), first.ttl_seconds, first.task_id,
               first.parent_message_id)  # fmt: skip
    return _digest(*addressed, document.dumps(written).decode())


def send_once(
    home: Home,
    speaker: Speaker,
    targets: Sequence[Target],
    messages: Sequence[Message],
    key: str,
    clock: Clock,
    family: str = "",
) -> Sent:
    """Send messages under an idempotency key: the same key and content is the same send.

    The key and its recipients are saved first. A crash in between leaves a key whose messages are
    in no inbox: the retry stores them under the same ids and so completes the send. ConflictError
    when the key was used for another message.
    """
    if not 0 < len(key) <= 256:
        raise InvalidInputError("idempotency-key", key, "1 to 256 characters")
    layout = home.layout
    digest = _digest(speaker.kind, speaker.id, key)
    content = _content(messages, family)
    with home.held((LockKind.KEY, digest)):
        known = document.load(layout.key(digest))
        if known is not None and known.get("content") != content:
            raise ConflictError(
                f"the idempotency key {key!r} was used for another message ({known['ids'][0]})"
            )
        if known is None:
            if messages[0].to_kind is ToKind.BROADCAST:
                take_broadcast_turn(home, clock, digest)
            with files.before_commit():
                document.save(layout.key(digest), _key_record(key, content, targets, messages),
                              layout.root)  # fmt: skip
        else:
            targets, messages = _as_first_sent(home, known, targets, messages[0])
        missing = [
            (target, message)
            for target, message in zip(targets, messages, strict=True)
            if known is None or not is_stored(home, target, message)
        ]
        repeated = known is not None and not missing
        store_each(home, missing, clock, keyed=True)
    if not repeated:
        keep_copy(home, speaker, messages)
        reach_targets(home, targets, messages, clock)
    return Sent(tuple(messages), repeated, tuple(target.name for target in targets))


def _key_record(
    key: str, content: str, targets: Sequence[Target], messages: Sequence[Message]
) -> dict[str, Any]:
    """Return the stored form of a key, as its file has it."""
    longest = max(message.ttl_seconds for message in messages)
    return {
        "key": key,
        "content": content,
        "ids": [message.id for message in messages],
        "workers": [target.worker for target in targets],
        "ts": messages[0].ts,
        "correlation_id": messages[0].correlation_id,
        "expires": messages[0].ts + max(DAY_S, longest),
    }


def _as_first_sent(
    home: Home, known: Mapping[str, Any], targets: Sequence[Target], template: Message
) -> tuple[list[Target], list[Message]]:
    """Return the targets and messages of the first send under a key."""
    template = template._replace(
        ts=float(known["ts"]), correlation_id=known.get("correlation_id") or None
    )
    by_worker = {target.worker: target for target in targets}
    to, messages = [], []
    for message_id, worker in zip(known["ids"], known["workers"], strict=True):
        target = by_worker.get(worker) or Target(
            template.to_kind,
            "*" if template.to_kind is ToKind.BROADCAST else worker,
            home.layout.inbox(worker),
            worker,
            lock=worker,
            name=worker,
        )
        to.append(target)
        messages.append(template._replace(id=str(message_id), to_id=target.id))
    return to, messages


def take_broadcast_turn(home: Home, clock: Clock, key: str = "") -> None:
    """Take the turn for a broadcast: one a minute for the whole state folder, else RefusedError.

    A refused broadcast stores nothing. A retry under the key that has the turn may continue.
    """
    layout = home.layout
    with home.held((LockKind.BROADCAST, "")):
        last = document.load(layout.broadcast()) or {}
        if key and last.get("key") == key:
            return
        age = clock.at - float(last.get("at") or 0)
        if last and 0 <= age < BROADCAST_EVERY_S:
            raise RefusedError(
                f"one broadcast a minute: the last was {age:.0f} s ago",
                slug="broadcast_limit",
                hint=f"again in {BROADCAST_EVERY_S - age:.0f} s",
            )
        with files.before_commit():
            document.save(layout.broadcast(), {"at": clock.at, "key": key}, layout.root)
