"""Send: append a message to an inbox, and ring. The state of a message is never advanced here.

Commit point: the line in the inbox, on disk with every directory on its way before this returns.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vyane_cli.core import ids
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
from vyane_cli.core.workers import Worker, find_worker
from vyane_cli.errors import (
    ConflictError,
    DurabilityUnknownError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    VyaneError,
)
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
    workers = registry.Registry(runtime.layout)
    address = parse_address(draft.to)
    targets = resolve(runtime, workers, address, speaker)
    for target in targets:
        check_direction(kind, target.relation, target.kind)
    if kind is Kind.TAKEOVER:
        require_person(runtime, speaker, "take over a session")
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
                _correlation(draft, parent.message if parent else None, targets, runtime, clock),
            )
        )
    if address.kind is ToKind.BROADCAST:
        return _broadcast(runtime, targets, messages, draft, clock)
    if draft.idempotency_key is None:
        for target, message in zip(targets, messages, strict=True):
            store(runtime, target, message, clock)
        _keep_copy(runtime, speaker, messages)
        return Sent(tuple(messages))
    return _once(runtime, speaker, targets, messages, draft.idempotency_key, clock)


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
    draft: Draft,
    parent: Message | None,
    targets: Sequence[Target],
    runtime: "Runtime",
    clock: Clock,
) -> str | None:
    if draft.correlation_id:
        return _limited("correlation-id", draft.correlation_id, TASK_ID_MAX)
    if parent is not None and parent.correlation_id:
        return parent.correlation_id
    if len(targets) > 1 or draft.kind == Kind.TASK_DISPATCH:
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


def store(runtime: "Runtime", target: Target, message: Message, clock: Clock) -> None:
    """Append one message to its inbox and ring. On disk when this returns.

    Markers are set before the append and the wake file is written after it, all under the inbox
    lock: whoever sees the ring finds the message. DurabilityUnknownError carries the id.
    """
    layout = runtime.layout
    try:
        with runtime.held((LockKind.INBOX, target.lock)):
            session = ""
            if target.worker:
                session = markers.announce(
                    layout,
                    target.worker,
                    control=message.lane is Lane.CONTROL,
                    startable=message.startable,
                )
            box = inbox.Inbox(target.path, layout.root)
            try:
                box.add(message, clock)
            finally:
                box.close()
            if message.startable and target.worker:
                publish(runtime, target.worker, session, clock)
    except DurabilityUnknownError as error:
        error.message_id = message.id
        raise


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


def _content(message: Message) -> str:
    """What makes two messages under one key the same: everything but id and time."""
    plain = message._replace(id="", ts=0.0, correlation_id=None)
    return _digest(codec.dumps(render_message(plain)).decode("utf-8", "surrogatepass"))


def _once(
    runtime: "Runtime",
    speaker: Speaker,
    targets: Sequence[Target],
    messages: list[Message],
    key: str,
    clock: Clock,
) -> Sent:
    """The same key and content is the same message. The key is kept before the message is.

    A crash in between leaves a key whose message is in no inbox: the retry stores it under the
    same id.
    """
    if not 0 < len(key) <= 256:
        raise InvalidInputError("idempotency-key", key, "1 to 256 characters")
    layout = runtime.layout
    digest = _digest(speaker.kind, speaker.id, key)
    content = _digest(*(_content(message) for message in messages))
    with runtime.held((LockKind.KEY, digest)):
        known = document.load(layout.key(digest))
        if known is None:
            record = {
                "key": key,
                "content": content,
                "ids": [message.id for message in messages],
                "ts": clock.at,
                "expires": clock.at + max(DAY_S, *(m.ttl_seconds for m in messages)),
            }
            document.save(layout.key(digest), record, layout.root)
        elif known.get("content") != content:
            raise ConflictError(
                f"the idempotency key {key!r} was used for another message ({known['ids'][0]})"
            )
        else:
            messages = [
                message._replace(id=known_id, ts=float(known["ts"]))
                for message, known_id in zip(messages, known["ids"], strict=True)
            ]
        repeated = known is not None
        for target, message in zip(targets, messages, strict=True):
            if repeated and _is_stored(runtime, target, message):
                continue
            repeated = False
            store(runtime, target, message, clock)
    if not repeated:
        _keep_copy(runtime, speaker, messages)
    return Sent(tuple(messages), repeated)


def _is_stored(runtime: "Runtime", target: Target, message: Message) -> bool:
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
                import os

                os.close(fd)
            return True
    folder = runtime.layout("messages", "archive")
    return any(
        journal.contains(runtime.layout.archive(month), needle)
        for month in registry.listdir(folder)
    )


def _broadcast(
    runtime: "Runtime", targets: list[Target], messages: list[Message], draft: Draft, clock: Clock
) -> Sent:
    """One copy for each active worker, recipients first: a keyed retry completes what it began."""
    layout = runtime.layout
    key = draft.idempotency_key or ""
    with runtime.held((LockKind.BROADCAST, "")):
        last = document.load(layout.broadcast()) or {}
        if key and last.get("key") == key:
            return _complete(runtime, last, messages[0], clock)
        age = clock.at - float(last.get("at") or 0)
        if last and 0 <= age < BROADCAST_EVERY_S:
            raise RefusedError(
                f"one broadcast a minute: the last was {age:.0f} s ago",
                slug="broadcast-limit",
                hint=f"again in {BROADCAST_EVERY_S - age:.0f} s",
            )
        shared = messages[0].correlation_id or messages[0].id
        messages = [message._replace(correlation_id=shared) for message in messages]
        record = {
            "key": key,
            "at": clock.at,
            "copies": [
                {"worker": target.worker, "id": message.id}
                for target, message in zip(targets, messages, strict=True)
            ],
        }
        document.save(layout.broadcast(), record, layout.root)
        for target, message in zip(targets, messages, strict=True):
            store(runtime, target, message, clock)
    return Sent(tuple(messages))


def _complete(runtime: "Runtime", last: Mapping[str, Any], template: Message, clock: Clock) -> Sent:
    done = True
    messages = []
    for copy in last.get("copies") or ():
        worker = str(copy["worker"])
        message = template._replace(id=str(copy["id"]), ts=float(last["at"]))
        path = runtime.layout.inbox(worker)
        target = Target(ToKind.BROADCAST, "*", path, worker, lock=worker)
        if not _is_stored(runtime, target, message):
            store(runtime, target, message, clock)
            done = False
        messages.append(message)
    return Sent(tuple(messages), done)


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
    return send(runtime, draft._replace(to=to, reply_to=message.id))


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
