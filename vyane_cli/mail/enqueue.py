"""Storing of messages: the append to an inbox, the markers before it, the ring after it.

Also the outbox copies, the idempotency keys, and the rate limit of broadcasts.
"""

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
    """The destination of a message: an inbox, and the worker that reads it."""

    kind: ToKind
    id: str
    path: str
    worker: str = ""
    logical_session: str = ""
    relation: Relation = Relation.PEER
    lock: str = ""
    name: str = ""


def target_of(home: Home, worker: Worker) -> Target:
    """Return the target for a worker: its own inbox."""
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
    """Append the message to its inbox and ring the target. On disk when this returns.

    Markers are set before the append and the wake file is written after it, all under the inbox
    lock: a session that the ring wakes finds the message. A takeover or cancel is first recorded
    as a fact in the target's timeline: a crash in between leaves a fact that names a message which
    was not sent. `noted`: the timeline already has the fact. DurabilityUnknownError carries the
    message's id.
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
    """Append the message and ring, like `store`, for a caller that holds the inbox's lock.

    Not for takeovers and cancels: no fact is recorded.
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
    except DurabilityUnknownError:  # the message exists, and will be delivered
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
    """Store each message for its target. A failure of one does not stop the others.

    Raises the first failure at the end, else the first DurabilityUnknownError. The hint of a
    failure names the targets that got their message, so that nobody sends it to them twice.
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
    """Return the timeline fact (kind, payload) of a takeover or cancel; None for other kinds."""
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
    """Rewrite the wake file of the target's session.

    Errors are ignored: the message is stored, and the tick of any other session rings again.
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
    """Reach the targets' sessions by the ways other than a ring (`Home.reach`).

    Called once the messages are stored and no lock is held, because these ways are slow. Errors
    are ignored: the next round tries again.
    """
    for target, message in zip(targets, messages, strict=True):
        if message.startable and target.worker:
            try:
                home.reach(target.worker, clock)
            except VyaneError:
                continue


def append_copy(home: Home, speaker: Speaker, messages: Sequence[Message]) -> None:
    """Append copies of the messages to the sender's outbox, if the sender is a worker.

    The outbox is for people to read: it is not flushed, and errors are ignored.
    """
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
    """Return whether the message is in its inbox or in an archive.

    If it is in the inbox, the inbox is flushed again. DurabilityUnknownError if that fails.
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
    """The messages that a send stored: one, or one for each of several recipients."""

    messages: tuple[Message, ...]
    repeated: bool = False
    """True if the idempotency key was known, so that nothing new was stored."""
    names: tuple[str, ...] = ()
    """The names of the recipients, one for each message."""

    @property
    def message(self) -> Message:
        """Return the first message, mostly the only one."""
        return self.messages[0]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _content(messages: Sequence[Message], family: str) -> str:
    """Return the digest by which two sends under one key count as the same.

    It covers what the sender wrote, and to whom. It leaves out derived values, which may have
    changed since: lane, links, the recipients of a broadcast, the members of a `family`
    (`children`).
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
    """Send the messages once under an idempotency key: the same key and content is the same send.

    The key is saved first, with its recipients. A crash after that leaves a key whose messages are
    in no inbox; a retry completes the send, with the same message ids. ConflictError if the key
    was used for another content. Returns the messages of the first send under the key.
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
        append_copy(home, speaker, messages)
        reach_targets(home, targets, messages, clock)
    return Sent(tuple(messages), repeated, tuple(target.name for target in targets))


def _key_record(
    key: str, content: str, targets: Sequence[Target], messages: Sequence[Message]
) -> dict[str, Any]:
    """Return the stored form of an idempotency key, as its file has it."""
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
    """Record a broadcast now. RefusedError if the last one was less than a minute ago.

    The limit is for the whole state folder; the refused broadcast is not stored. A retry under the
    `key` of the last broadcast is allowed. On disk when this returns.
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
