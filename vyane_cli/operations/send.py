"""Send: append a message to an inbox, and ring. The state of a message is never advanced here.

Commit point: the line in the inbox, on disk with every directory on its way before this returns.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from vyane_cli.core import ids
from vyane_cli.core.events import EventKind
from vyane_cli.core.mailbox import render_message
from vyane_cli.core.messages import (
    DAY_S,
    PAYLOAD_MAX_BYTES,
    TASK_ID_MAX,
    FromKind,
    Kind,
    Lane,
    Message,
    Relation,
    Status,
    ToKind,
    body_of,
    check_direction,
    check_payload,
    check_summary,
    decide_lane,
    default_ttl_s,
    first_line,
    parse_kind,
)
from vyane_cli.core.routing import Address, Relative, parse_address
from vyane_cli.core.turns import Clock
from vyane_cli.core.workers import Worker, find_worker, nearest_names
from vyane_cli.errors import (
    ConflictError,
    DurabilityUnknownError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    StorageError,
    VyaneError,
)
from vyane_cli.operations.diagnose import append_fact, diagnose
from vyane_cli.operations.identity import Speaker, claim_kind, require_person, whoami
from vyane_cli.operations.lookup import find_message
from vyane_cli.operations.nudge import publish
from vyane_cli.store import codec, document, files, inbox, journal, markers, processes, registry
from vyane_cli.store.locks import Kind as LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.runtime import Runtime

BROADCAST_EVERY_S = 60.0
TTL_MAX_S = 365 * DAY_S


class Draft(NamedTuple):
    """What a sender asks for."""

    to: str
    text: str = ""
    kind: str = Kind.CONTEXT_INJECT
    payload: Mapping[str, Any] | None = None
    summary: str | None = None
    ttl_s: float | None = None
    from_kind: str | None = None
    reply_to: str | None = None
    task_id: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    await_reply: bool = False


class Sent(NamedTuple):
    """What was stored: one message, or the copies of a broadcast."""

    messages: tuple[Message, ...]
    repeated: bool = False
    """The idempotency key was known: nothing new was stored."""
    names: tuple[str, ...] = ()
    """The recipients, as people know them, one for each message."""

    @property
    def message(self) -> Message:
        """The first, and mostly only, message."""
        return self.messages[0]


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


def send(runtime: "Runtime", draft: Draft, speaker: Speaker | None = None) -> Sent:
    """Store a message. Everything is checked before anything is written.

    NotFoundError for an unknown target, InvalidInputError for a bad field, RefusedError for a
    direction, ConflictError for a key that was used for something else.
    """
    speaker = claim_kind(runtime, draft.from_kind, speaker or whoami(runtime))
    kind = parse_kind(draft.kind)
    payload = check_payload(kind, _payload(kind, draft))
    if len(codec.dumps(payload)) > PAYLOAD_MAX_BYTES:
        raise InvalidInputError("payload", "…", f"at most {PAYLOAD_MAX_BYTES // 1024} KiB")
    if kind is Kind.TAKEOVER:
        require_person(runtime, speaker, "take over a session")
    workers = registry.Registry(runtime.layout)
    address = _address(draft.to, workers)
    targets = resolve(runtime, workers, address, speaker)
    for target in targets:
        _check_direction(runtime, speaker, kind, target)
    if kind is Kind.TASK_RESULT:
        return _send_result(runtime, draft, speaker, targets, payload)
    parent = find_message(runtime, draft.reply_to) if draft.reply_to else None
    clock = runtime.clock()
    sender = workers.workers.get(speaker.id)
    messages = []
    for target in targets:
        receiver = workers.workers.get(target.worker)
        awaited = (
            receiver is not None
            and parent is not None
            and receiver.blocked_on_message_id == parent.message.id
        )
        messages.append(
            Message(
                runtime.new_id(clock.now_ms),
                clock.at,
                _ttl(draft.ttl_s, kind),
                speaker.kind,
                speaker.id,
                speaker.name,
                target.kind,
                target.id,
                kind,
                decide_lane(kind, speaker.kind, target.kind, awaited=awaited),
                _summary(draft, payload),
                payload,
                _shared_session(sender, receiver),
                _limited("task-id", draft.task_id, TASK_ID_MAX),
                sender.trace_id if sender else None,
                parent.message.id if parent else None,
                _correlation(draft, parent.message if parent else None, runtime, clock),
            )
        )
    if len(messages) > 1:
        shared = messages[0].correlation_id or messages[0].id
        messages = [message._replace(correlation_id=shared) for message in messages]
    if draft.idempotency_key is None:
        if address.kind is ToKind.BROADCAST:
            _take_broadcast_turn(runtime, clock)
        for target, message in zip(targets, messages, strict=True):
            store(runtime, target, message, clock)
        _keep_copy(runtime, speaker, messages)
        return Sent(tuple(messages), names=tuple(target.name for target in targets))
    return _once(runtime, speaker, targets, messages, draft.idempotency_key, clock)


def _send_result(
    runtime: "Runtime",
    draft: Draft,
    speaker: Speaker,
    targets: Sequence[Target],
    payload: Mapping[str, Any],
) -> Sent:
    """The result of a dispatch, as `report --result` sends it: once, and the child has ended.

    ConflictError without a dispatch, for another correlation, and for a second one without the key
    of the first.
    """
    from vyane_cli.core.results import Ending, Report, result_id
    from vyane_cli.operations.results import check_reportable, settle_child

    child = registry.Registry(runtime.layout).workers[speaker.id]
    dispatch = child.dispatch_id or ""
    names = tuple(target.name for target in targets)
    if dispatch and draft.correlation_id not in (None, dispatch):
        raise ConflictError(
            f"{child.name} was dispatched by {dispatch}, not by {draft.correlation_id}",
            hint="a result has the correlation of its dispatch by itself",
        )
    if dispatch and child.final and draft.idempotency_key is not None:
        return Sent((find_message(runtime, result_id(dispatch)).message,), True, names)
    check_reportable(child)
    ending = Ending.SUCCESS if payload["success"] else Ending.ERROR
    text, error = str(payload.get("summary") or ""), str(payload.get("error") or "")
    report = Report(ending, text, error, tuple(payload.get("artifacts") or ()))
    message = settle_child(runtime, child.id, report).message
    assert message is not None  # its parent is the target
    return Sent((message,), names=names)


def _address(text: str, workers: registry.Registry) -> Address:
    """The address; one that is none names the nearest workers."""
    try:
        return parse_address(text)
    except InvalidInputError as error:
        names = [worker.name for worker in workers.listing() if not worker.final]
        near = nearest_names(text, names) or tuple(names[:3])
        if near:
            error.hint = "did you mean " + " or ".join(near) + "?"
        raise


def _check_direction(runtime: "Runtime", speaker: Speaker, kind: Kind, target: Target) -> None:
    """A refused order of an agent is in its timeline: somebody may have put it up to it."""
    try:
        check_direction(kind, target.relation, target.kind)
    except RefusedError as error:
        if speaker.session is not None:
            diagnose(runtime, speaker.session, error.slug, error.message)
        raise


def _payload(kind: Kind, draft: Draft) -> dict[str, Any]:
    payload = dict(draft.payload or {})
    if draft.text:
        field = {
            Kind.CONTEXT_INJECT: "text",
            Kind.TAKEOVER: "instruction",
            Kind.TASK_DISPATCH: "prompt",
            Kind.TASK_RESULT: "summary",
            Kind.CANCEL: "reason",
            Kind.STATUS_UPDATE: "progress",
            Kind.INFO: "text",
        }[kind]
        if field in payload:
            raise InvalidInputError("text", draft.text, f"needed: the payload has {field!r}")
        payload[field] = draft.text
    if kind is Kind.CONTEXT_INJECT and not str(payload.get("text", "")).strip():
        raise InvalidInputError("text", payload.get("text", ""), "a text: there is nothing to send")
    return payload


def _ttl(given: float | None, kind: Kind) -> float:
    if given is None:
        return default_ttl_s(kind)
    if not 0 < given <= TTL_MAX_S:
        raise InvalidInputError("ttl", given, "between a second and a year")
    return float(given)


def _summary(draft: Draft, payload: Mapping[str, Any]) -> str:
    if draft.summary is not None:
        return check_summary(draft.summary)
    texts = (payload.get(k) for k in ("text", "instruction", "prompt", "summary", "reason"))
    return first_line(next((text for text in texts if isinstance(text, str)), ""))


def _limited(field: str, text: str | None, limit: int) -> str | None:
    if text is not None and len(text) > limit:
        raise InvalidInputError(field, text, f"at most {limit} characters")
    return text


def _correlation(
    draft: Draft, parent: Message | None, runtime: "Runtime", clock: Clock
) -> str | None:
    if draft.correlation_id:
        return _limited("correlation-id", draft.correlation_id, TASK_ID_MAX)
    if parent is not None and parent.correlation_id:
        return parent.correlation_id
    if draft.kind == Kind.TASK_DISPATCH:
        return runtime.new_id(clock.now_ms)
    return None


def _shared_session(sender: Worker | None, receiver: Worker | None) -> str | None:
    if sender is None or receiver is None:
        return None
    same = sender.logical_session_id == receiver.logical_session_id
    return sender.logical_session_id if same else None


# ------------------------------------------------------------------ where it goes


def resolve(
    runtime: "Runtime", workers: registry.Registry, address: Address, speaker: Speaker
) -> list[Target]:
    """The targets of an address; NotFoundError with the nearest names when there is none."""
    layout = runtime.layout
    own = workers.workers.get(speaker.id) if speaker.kind is FromKind.WORKER else None
    match address.kind:
        case ToKind.CHANNEL:
            path = layout.channel_inbox(address.text)
            return [
                Target(
                    ToKind.CHANNEL,
                    address.text,
                    path,
                    relation=_relation(speaker, None),
                    lock="channel:" + address.text,
                    name=address.text,
                )
            ]
        case ToKind.LOGICAL_SESSION:
            logical = registry.load_logical_session(layout, address.text)
            if logical is None:
                raise NotFoundError("logical session", address.text)
            worker = workers.workers.get(logical.worker)
            return [
                Target(
                    ToKind.LOGICAL_SESSION,
                    logical.id,
                    layout.session_inbox(logical.id),
                    logical.worker,
                    logical.id,
                    _relation(speaker, worker, own),
                    logical.id,
                    logical.display_name,
                )
            ]
        case ToKind.BROADCAST:
            active = [w for w in workers.listing() if w is not own and _is_active(runtime, w)]
            if not active:
                raise NotFoundError("active worker", "all", hint="`vyane workers` lists them")
            return [
                _to_worker(runtime, w, speaker, own)._replace(kind=ToKind.BROADCAST, id="*")
                for w in active
            ]
        case _:
            found = _workers_of(workers, address, own)
            return [_to_worker(runtime, worker, speaker, own) for worker in found]


def _workers_of(workers: registry.Registry, address: Address, own: Worker | None) -> list[Worker]:
    if address.relative is None:
        return [find_worker(address.text, workers.listing())]
    if own is None:
        raise InvalidInputError(
            "to", address.text, "known here: this command does not run in a worker's session"
        )
    links = (
        [own.parent_worker_id] if address.relative is Relative.PARENT else own.children_worker_ids
    )
    found = [workers.workers[link] for link in links if link in workers.workers]
    if not found:
        raise NotFoundError("worker", address.text, hint=f"{own.name} has none")
    return found


def _to_worker(runtime: "Runtime", worker: Worker, speaker: Speaker, own: Worker | None) -> Target:
    return Target(
        ToKind.WORKER,
        worker.id,
        runtime.layout.inbox(worker.id),
        worker.id,
        worker.logical_session_id,
        _relation(speaker, worker, own),
        worker.id,
        worker.name,
    )


def _relation(speaker: Speaker, target: Worker | None, own: Worker | None = None) -> Relation:
    if speaker.kind is FromKind.HUMAN:
        return Relation.HUMAN
    if own is None or target is None:
        return Relation.OUTSIDE
    if target.parent_worker_id == own.id:
        return Relation.PARENT
    return Relation.CHILD if own.parent_worker_id == target.id else Relation.PEER


def _is_active(runtime: "Runtime", worker: Worker) -> bool:
    if worker.final:
        return False
    session_id = registry.read_current(runtime.layout, worker.id)
    session = registry.load_session(runtime.layout, session_id) if session_id else None
    return (
        session is not None
        and not session.ended
        and (processes.is_present(session.process) is not False)
    )


# ------------------------------------------------------------------ storing


def store(
    runtime: "Runtime", target: Target, message: Message, clock: Clock, *, noted: bool = False
) -> None:
    """Append one message to its inbox and ring. On disk when this returns.

    Markers are set before the append and the wake file is written after it, all under the inbox
    lock: whoever sees the ring finds the message. An order of the control lane is a fact of the
    target's timeline first: a crash in between leaves a fact that names a message which was not
    sent; `noted`: it is there already. DurabilityUnknownError carries the id.
    """
    layout = runtime.layout
    locks = [(LockKind.INBOX, target.lock)]
    known = target.worker and target.logical_session and not noted
    fact = fact_of(message) if known else None
    if fact is not None:
        locks.append((LockKind.TIMELINE, target.logical_session))
    try:
        with runtime.held(*locks):
            session = ""
            if fact is not None:
                append_fact(runtime, target.worker, target.logical_session, *fact, clock)
            if target.worker:
                session = markers.announce(
                    layout,
                    target.worker,
                    control=message.interrupts,
                    startable=message.startable,
                )
            inbox.append(target.path, layout.root, message, clock)
            if message.startable and target.worker:
                _ring(runtime, target.worker, session, clock)
    except DurabilityUnknownError as error:
        error.message_id = message.id
        raise


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


@contextmanager
def _nothing_stored_yet() -> Iterator[None]:
    """What fails before the message's own append has stored nothing, whatever else is unsure."""
    try:
        yield
    except DurabilityUnknownError as error:
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else OSError(5, "I/O error")
        raise StorageError(error.path, cause) from error


def _ring(runtime: "Runtime", worker: str, session: str, clock: Clock) -> None:
    """The message is stored: a ring that fails is made up for by any other session's tick."""
    try:
        publish(runtime, worker, session, clock)
    except VyaneError:
        return


def _keep_copy(runtime: "Runtime", speaker: Speaker, messages: Sequence[Message]) -> None:
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


# ------------------------------------------------------------------ idempotency


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _content(messages: Sequence[Message]) -> str:
    """What makes two sends under one key the same: what the sender wrote, and to whom.

    Not what we derive, which may have changed since: lane, links, the recipients of a broadcast.
    """
    addressed = sorted({f"{message.to_kind}:{message.to_id}" for message in messages})
    first = messages[0]
    written = (first.kind, first.summary, dict(first.payload), first.ttl_seconds, first.task_id,
               first.parent_message_id)  # fmt: skip
    return _digest(*addressed, codec.dumps(written).decode())


def _once(
    runtime: "Runtime",
    speaker: Speaker,
    targets: Sequence[Target],
    messages: Sequence[Message],
    key: str,
    clock: Clock,
) -> Sent:
    """The same key and content is the same send. The key, with its recipients, is kept first.

    A crash in between leaves a key whose messages are in no inbox: the retry stores them under
    the same ids, so that it completes what was begun.
    """
    if not 0 < len(key) <= 256:
        raise InvalidInputError("idempotency-key", key, "1 to 256 characters")
    layout = runtime.layout
    digest = _digest(speaker.kind, speaker.id, key)
    content = _content(messages)
    with runtime.held((LockKind.KEY, digest)):
        known = document.load(layout.key(digest))
        if known is not None and known.get("content") != content:
            raise ConflictError(
                f"the idempotency key {key!r} was used for another message ({known['ids'][0]})"
            )
        if known is None:
            if messages[0].to_kind is ToKind.BROADCAST:
                _take_broadcast_turn(runtime, clock, digest)
            with _nothing_stored_yet():
                document.save(layout.key(digest), _key_record(key, content, targets, messages),
                              layout.root)  # fmt: skip
        else:
            targets, messages = _as_first_sent(runtime, known, targets, messages[0])
        repeated = known is not None
        for target, message in zip(targets, messages, strict=True):
            if repeated and is_stored(runtime, target, message):
                continue
            repeated = False
            store(runtime, target, message, clock)
    if not repeated:
        _keep_copy(runtime, speaker, messages)
    return Sent(tuple(messages), repeated, tuple(target.name for target in targets))


def _key_record(
    key: str, content: str, targets: Sequence[Target], messages: Sequence[Message]
) -> dict[str, Any]:
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
    runtime: "Runtime", known: Mapping[str, Any], targets: Sequence[Target], template: Message
) -> tuple[list[Target], list[Message]]:
    """The targets and messages of the first send under a key."""
    template = template._replace(
        ts=float(known["ts"]), correlation_id=known.get("correlation_id") or None
    )
    by_worker = {target.worker: target for target in targets}
    to, messages = [], []
    for message_id, worker in zip(known["ids"], known["workers"], strict=True):
        target = by_worker.get(worker) or Target(
            ToKind.BROADCAST, "*", runtime.layout.inbox(worker), worker, lock=worker, name=worker
        )
        to.append(target)
        messages.append(template._replace(id=str(message_id), to_id=target.id))
    return to, messages


def is_stored(runtime: "Runtime", target: Target, message: Message) -> bool:
    """Whether the message is in its inbox or archived; in the inbox it is flushed once more."""
    needle = b'"id":"%s"' % message.id.encode()
    with runtime.held((LockKind.INBOX, target.lock)):
        if journal.contains(target.path, needle):
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
        journal.contains(runtime.layout.archive(month), needle)
        for month in registry.listdir(folder)
    )


def _take_broadcast_turn(runtime: "Runtime", clock: Clock, key: str = "") -> None:
    """One broadcast a minute for the whole state folder: RefusedError, and nothing is stored.

    A retry under the key that has the turn goes on with it.
    """
    layout = runtime.layout
    with runtime.held((LockKind.BROADCAST, "")):
        last = document.load(layout.broadcast()) or {}
        if key and last.get("key") == key:
            return
        age = clock.at - float(last.get("at") or 0)
        if last and 0 <= age < BROADCAST_EVERY_S:
            raise RefusedError(
                f"one broadcast a minute: the last was {age:.0f} s ago",
                slug="broadcast-limit",
                hint=f"again in {BROADCAST_EVERY_S - age:.0f} s",
            )
        with _nothing_stored_yet():
            document.save(layout.broadcast(), {"at": clock.at, "key": key}, layout.root)


# ------------------------------------------------------------------ replies, notes of our own


def reply(runtime: "Runtime", message_id: str, draft: Draft) -> Sent:
    """Answer a message: to its sender, in its chain."""
    found = find_message(runtime, message_id)
    message = found.message
    if message.from_kind is FromKind.WORKER:
        to = message.from_id
    else:
        raise InvalidInputError(
            "message",
            message_id,
            f"from a worker: {message.from_kind} {message.from_name} reads "
            "your answer in your own session",
        )
    sent = send(runtime, draft._replace(to=to, reply_to=message.id))
    session = whoami(runtime).session
    if session is not None and session.host == "generic":
        from vyane_cli.operations.generic import prove

        prove(runtime, session)
    return sent


def relay(runtime: "Runtime", draft: Draft) -> Sent:
    """Pass a text on to a child. From a worker to one that is not its child: refused."""
    speaker = whoami(runtime)
    if speaker.kind is FromKind.WORKER:
        workers = registry.Registry(runtime.layout)
        child = find_worker(draft.to, workers.listing())
        if child.parent_worker_id != speaker.id:
            raise RefusedError(
                f"{child.name} is no child of {speaker.name}",
                slug="direction",
                hint="`vyane send` writes to any worker",
            )
        draft = draft._replace(to=child.id)
    return send(runtime, draft, speaker)


def bounce(runtime: "Runtime", message: Message, target: str, reason: str) -> None:
    """Tell the sender of a message that it was not delivered. A sender outside has no inbox."""
    if message.from_kind is not FromKind.WORKER or not ids.is_safe_id(message.from_id):
        return
    clock = runtime.clock()
    text = runtime.templates.fill(
        "bounce", id=message.id, target=target, reason=reason, excerpt=first_line(body_of(message))
    )
    note = Message(
        ids.next_ulid(message.id, clock.now_ms, runtime.entropy(10)),
        clock.at,
        default_ttl_s(Kind.INFO),
        FromKind.EXTERNAL,
        "vyane",
        "vyane",
        ToKind.WORKER,
        message.from_id,
        Kind.INFO,
        Lane.QUIET,
        first_line(text),
        {"text": text, "bounced": message.id, "status": str(Status.EXPIRED), "reason": reason},
        parent_message_id=message.id,
    )
    path = runtime.layout.inbox(message.from_id)
    target_box = Target(ToKind.WORKER, message.from_id, path, message.from_id, lock=message.from_id)
    try:
        store(runtime, target_box, note, clock)
    except VyaneError:
        return  # the expiry itself is on record; `why` tells it
