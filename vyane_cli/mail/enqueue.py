"""Storing a message: the append to an inbox, the markers around it, and the ring after it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from vyane_cli.delivery.ring import publish, reach
from vyane_cli.errors import DurabilityUnknownError, VyaneError
from vyane_cli.kernel.clock import Clock
from vyane_cli.mail import inbox
from vyane_cli.mail.mailbox import render_message
from vyane_cli.mail.message import Kind, Message, Relation, ToKind
from vyane_cli.sessions import markers
from vyane_cli.sessions.facts import append_fact
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import files, journal
from vyane_cli.storage.locks import Kind as LockKind
from vyane_cli.timeline.events import EventKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


class Target(NamedTuple):
    """Where a message goes: an inbox, and the worker that reads it."""

    kind: ToKind
    id: str
    path: str
    worker: str = ""
    logical_session: str = ""
    relation: Relation = Relation.PEER
    lock: str = ""
    name: str = ""


def target_of(runtime: Runtime, worker: Worker) -> Target:
    """The inbox of a worker."""
    path = runtime.layout.inbox(worker.id)
    logical = worker.logical_session_id
    return Target(
        ToKind.WORKER, worker.id, path, worker.id, logical, lock=worker.id, name=worker.name
    )


def store(
    runtime: Runtime, target: Target, message: Message, clock: Clock, *, noted: bool = False
) -> None:
    """Append one message to its inbox and ring. On disk when this returns.

    Markers are set before the append and the wake file is written after it, all under the inbox
    lock: whoever sees the ring finds the message. An order of the control lane is a fact of the
    target's timeline first: a crash in between leaves a fact that names a message which was not
    sent; `noted`: it is there already. DurabilityUnknownError carries the id.
    """
    locks = [(LockKind.INBOX, target.lock)]
    known = target.worker and target.logical_session and not noted
    fact = fact_of(message) if known else None
    if fact is not None:
        locks.append((LockKind.TIMELINE, target.logical_session))
    try:
        with runtime.held(*locks):
            if fact is not None:
                with files.before_commit():
                    append_fact(runtime, target.worker, target.logical_session, *fact, clock)
            store_held(runtime, target, message, clock)
    except DurabilityUnknownError as error:
        error.message_id = message.id
        raise


def store_held(runtime: Runtime, target: Target, message: Message, clock: Clock) -> None:
    """The same for a caller that holds the inbox's lock, of a message that is no order."""
    layout = runtime.layout
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
    except DurabilityUnknownError:  # it is there, and will be delivered
        _ring(runtime, target, message, session, clock)
        raise
    _ring(runtime, target, message, session, clock)


def store_each(
    runtime: Runtime,
    wanted: Sequence[tuple[Target, Message]],
    clock: Clock,
    *,
    keyed: bool = False,
) -> None:
    """Store each message for its target. One that fails holds up no other.

    The error says who has it all the same, so that nobody is sent it twice.
    """
    unsure: DurabilityUnknownError | None = None
    failed: VyaneError | None = None
    stored, missed = [], []
    for target, message in wanted:
        try:
            store(runtime, target, message, clock)
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
    """What an order of the control lane is in the timeline of the one that gets it."""
    match message.kind:
        case Kind.TAKEOVER:
            soft = message.payload.get("interrupt_first") is False
            return EventKind.TAKEOVER_INITIATED, {
                "message_id": message.id,
                "by": message.from_name,
                "interrupt": "none" if soft else "hook",
            }
        case Kind.CANCEL:
            return EventKind.CANCEL_REQUESTED, {
                "operation": str(message.correlation_id or message.id),
                "message_id": message.id,
                "by": message.from_name,
                "reason": str(message.payload.get("reason") or ""),
                "force": bool(message.payload.get("force")),
            }
        case _:
            return None


def _ring(runtime: Runtime, target: Target, message: Message, session: str, clock: Clock) -> None:
    """The message is stored: a ring that fails is made up for by any other session's tick."""
    if not (message.startable and target.worker):
        return
    try:
        publish(runtime, session, clock)
    except VyaneError:
        return


def reach_targets(
    runtime: Runtime, targets: Sequence[Target], messages: Sequence[Message], clock: Clock
) -> None:
    """The ways to a session that are no ring, once the messages are stored and no lock is held.

    They take their time. A failure is made up for by the next round.
    """
    for target, message in zip(targets, messages, strict=True):
        if message.startable and target.worker:
            try:
                reach(runtime, target.worker, clock)
            except VyaneError:
                continue


def keep_copy(runtime: Runtime, speaker: Speaker, messages: Sequence[Message]) -> None:
    """The outbox is for people who look: it is not flushed, and its failure is no failure."""
    if speaker.kind is not FromKind.WORKER:
        return
    path = runtime.layout.outbox(speaker.id)
    try:
        with runtime.held((LockKind.OUTBOX, speaker.id)):
            writer = journal.open_writer(path, runtime.layout.root)
            try:
                records = [{"op": "sent", "message": render_message(one)} for one in messages]
                writer.append(records, durable=False)
            finally:
                writer.close()
    except VyaneError:
        return


def is_stored(runtime: Runtime, target: Target, message: Message) -> bool:
    """Whether the message is in its inbox or archived; in the inbox it is flushed once more."""
    needle = b'"id":"%s"' % message.id.encode()
    with runtime.held((LockKind.INBOX, target.lock)):
        if journal.has_record(target.path, needle):
            fd = files.open_for_writing(target.path)
            try:
                files.sync(fd, target.path)
                files.sync_directories(target.path, runtime.layout.root)
            except OSError as error:
                failed = DurabilityUnknownError(target.path, error)
                failed.message_id = message.id
                raise failed from error
            finally:
                os.close(fd)
            return True
    folder = runtime.layout("messages", "archive")
    return any(
        journal.has_record(runtime.layout.archive(month), needle) for month in files.listdir(folder)
    )
