"""Sending: a draft is checked, its message is appended to an inbox, and the target is rung.

Sending never changes the status of a message. Commit point: the line in the inbox, on disk with
every directory of its path before `send` returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from vyane_cli.errors import InvalidInputError, RefusedError, VyaneError
from vyane_cli.kernel.clock import Clock
from vyane_cli.mail.address import find_address, resolve
from vyane_cli.mail.enqueue import (
    Sent,
    Target,
    append_copy,
    reach_targets,
    send_once,
    store_each,
    take_broadcast_turn,
)
from vyane_cli.mail.lookup import find_message
from vyane_cli.mail.message import (
    DAY_S,
    PAYLOAD_MAX_BYTES,
    TASK_ID_MAX,
    Lane,
    Message,
    MessageKind,
    ToKind,
    check_direction,
    check_payload,
    check_summary,
    decide_lane,
    default_ttl_s,
    first_line,
    parse_kind,
    told_by,
)
from vyane_cli.sessions import registry
from vyane_cli.sessions.authority import claim_kind, require_person
from vyane_cli.sessions.facts import diagnose
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import document
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


TTL_MAX_S = 365 * DAY_S
NOTHING = "given: there is nothing to send"
HOW = "vyane send NAME TEXT; `-` reads the text from standard input"


class MessageDraft(NamedTuple):
    """A message as its sender gives it, before any check."""

    to: str
    text: str = ""
    kind: str = MessageKind.CONTEXT_INJECT
    payload: Mapping[str, Any] | None = None
    summary: str | None = None
    ttl_s: float | None = None
    from_kind: str | None = None
    reply_to: str | None = None
    task_id: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    await_reply: bool = False
    """True if the sender is blocked until the message is answered."""


class CheckedDraft(NamedTuple):
    """A draft that may be sent, with its speaker, its payload and its targets."""

    draft: MessageDraft
    speaker: Speaker
    kind: MessageKind
    payload: dict[str, Any]
    summary: str
    family: str
    """The relative address of the draft, such as `children`; empty for any other address."""
    broadcast: bool
    targets: Sequence[Target]
    workers: registry.Registry


def check_draft(home: Home, draft: MessageDraft, speaker: Speaker | None = None) -> CheckedDraft:
    """Check everything of a draft that can be checked before the first write.

    NotFoundError for an unknown target, InvalidInputError for a bad field, RefusedError for a
    direction that is not allowed.
    """
    speaker = claim_kind(home, draft.from_kind, speaker or whoami(home))
    kind = parse_kind(draft.kind)
    payload = check_payload(kind, _payload(kind, draft))
    if len(document.dumps(payload)) > PAYLOAD_MAX_BYTES:
        raise InvalidInputError("payload", "…", f"at most {PAYLOAD_MAX_BYTES // 1024} KiB")
    summary = _summary(draft, kind, payload)
    if kind is MessageKind.TAKEOVER:
        require_person(home, speaker, "take over a session")
    workers = registry.Registry(home.layout)
    address = find_address(draft.to, workers)
    targets = resolve(home, workers, address, speaker)
    for target in targets:
        _check_direction(home, speaker, kind, target)
    if draft.await_reply:
        check_awaitable(speaker, kind, draft.to, targets)
    return CheckedDraft(
        draft=draft,
        speaker=speaker,
        kind=kind,
        payload=payload,
        summary=summary,
        family=str(address.relative or ""),
        broadcast=address.kind is ToKind.BROADCAST,
        targets=targets,
        workers=workers,
    )


def send(home: Home, draft: MessageDraft, speaker: Speaker | None = None) -> Sent:
    """Check a draft, store its message and ring the targets. All checks precede the first write.

    Raises the errors of `check_draft`, and ConflictError for an idempotency key that was used for
    another message. Task results are sent by `children/report`, because a result ends a child.
    """
    return send_checked(home, check_draft(home, draft, speaker))


def send_checked(home: Home, checked: CheckedDraft) -> Sent:
    """Store the message of a checked draft, and ring its targets."""
    draft, speaker, kind = checked.draft, checked.speaker, checked.kind
    targets, workers = checked.targets, checked.workers
    payload, summary = checked.payload, checked.summary
    if kind is MessageKind.TASK_RESULT:
        raise ValueError("a task result is sent by children/report")
    parent = find_message(home, draft.reply_to) if draft.reply_to else None
    clock = home.clock()
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
                home.new_id(clock.now_ms),
                clock.at,
                _ttl(draft.ttl_s, kind),
                speaker.kind,
                speaker.id,
                speaker.name,
                target.kind,
                target.id,
                kind,
                decide_lane(kind, speaker.kind, target.kind, awaited=awaited),
                summary,
                payload,
                _shared_session(sender, receiver),
                _limited("task-id", draft.task_id, TASK_ID_MAX),
                sender.trace_id if sender else None,
                parent.message.id if parent else None,
                _correlation(draft, parent.message if parent else None, home, clock),
            )
        )
    if len(messages) > 1:
        shared = messages[0].correlation_id or messages[0].id
        messages = [message._replace(correlation_id=shared) for message in messages]
    if draft.idempotency_key is None:
        if checked.broadcast:
            take_broadcast_turn(home, clock)
        if draft.await_reply:
            block(home, speaker.id, messages[0].id)
        store_each(home, list(zip(targets, messages, strict=True)), clock)
        append_copy(home, speaker, messages)
        reach_targets(home, targets, messages, clock)
        sent = Sent(tuple(messages), names=tuple(target.name for target in targets))
    else:
        family, key = checked.family, draft.idempotency_key
        sent = send_once(home, speaker, targets, messages, key, clock, family)
        if draft.await_reply and not sent.repeated:
            block(home, speaker.id, sent.message.id)
    # a child's question about its dispatch leaves it unanswered: the result is the answer
    if parent is not None and parent.message.kind is MessageKind.CONTEXT_INJECT:
        for target in targets if messages[0].lane is Lane.DIRECT else ():
            with suppress(VyaneError):  # the answer is stored; upkeep ends a wait that stays
                block(home, target.worker, None, on=parent.message.id)
    return sent


def _check_direction(home: Home, speaker: Speaker, kind: MessageKind, target: Target) -> None:
    """Check the direction of a message. Record a refusal in the timeline of the agent's session.

    Somebody else may have put the agent up to the refused message.
    """
    try:
        check_direction(kind, target.relation, target.kind)
    except RefusedError as error:
        if speaker.session is not None:
            diagnose(home, speaker.session, error.slug, error.message)
        raise


def _payload(kind: MessageKind, draft: MessageDraft) -> dict[str, Any]:
    payload = dict(draft.payload or {})
    if draft.text:
        field = {
            MessageKind.CONTEXT_INJECT: "text",
            MessageKind.TAKEOVER: "instruction",
            MessageKind.TASK_DISPATCH: "prompt",
            MessageKind.TASK_RESULT: "summary",
            MessageKind.CANCEL: "reason",
            MessageKind.STATUS_UPDATE: "progress",
            MessageKind.INFO: "text",
        }[kind]
        if field in payload:
            raise InvalidInputError("text", draft.text, f"needed: the payload has {field!r}")
        payload[field] = draft.text
    if kind is MessageKind.CONTEXT_INJECT and not str(payload.get("text", "")).strip():
        raise InvalidInputError("text", "", NOTHING, missing=True, hint=HOW)
    return payload


def _ttl(given: float | None, kind: MessageKind) -> float:
    if given is None:
        return default_ttl_s(kind)
    if not 0 < given <= TTL_MAX_S:
        raise InvalidInputError("ttl", given, "between a second and a year")
    return float(given)


def _summary(draft: MessageDraft, kind: MessageKind, payload: Mapping[str, Any]) -> str:
    if draft.summary is not None:
        check_summary(draft.summary)
    told = told_by(kind, payload, draft.summary or "")
    if kind in (MessageKind.INFO, MessageKind.STATUS_UPDATE) and not told.strip():
        raise InvalidInputError("text", "", NOTHING, missing=True, hint=HOW)
    return first_line(told) if draft.summary is None else draft.summary


def _limited(field: str, text: str | None, limit: int) -> str | None:
    if text is not None and len(text) > limit:
        raise InvalidInputError(field, text, f"at most {limit} characters")
    return text


def _correlation(
    draft: MessageDraft, parent: Message | None, home: Home, clock: Clock
) -> str | None:
    if draft.correlation_id:
        return _limited("correlation-id", draft.correlation_id, TASK_ID_MAX)
    if parent is not None and parent.correlation_id:
        return parent.correlation_id
    if draft.kind == MessageKind.TASK_DISPATCH:
        return home.new_id(clock.now_ms)
    return None


def _shared_session(sender: Worker | None, receiver: Worker | None) -> str | None:
    if sender is None or receiver is None:
        return None
    same = sender.logical_session_id == receiver.logical_session_id
    return sender.logical_session_id if same else None


def check_awaitable(
    speaker: Speaker, kind: MessageKind, to: str, targets: Sequence[Target]
) -> None:
    """Check that the sender can wait for an answer, and that the target would give one.

    InvalidInputError otherwise.
    """
    if speaker.kind is not FromKind.WORKER:
        raise InvalidInputError("await-reply", speaker.name, "a worker: only a worker is woken")
    if kind is not MessageKind.CONTEXT_INJECT:
        raise InvalidInputError("await-reply", kind, f"answered: {MessageKind.CONTEXT_INJECT} is")
    one = len(targets) == 1 and targets[0].worker not in ("", speaker.id)
    if not one or targets[0].kind is ToKind.BROADCAST:
        raise InvalidInputError("await-reply", to, "one other worker")


def block(home: Home, worker_id: str, message_id: str | None, *, on: str = "") -> None:
    """Record the message whose answer the worker waits for; None ends the wait.

    On disk when this returns. `on`: change it only if the worker waits for that message.
    """
    with home.held((LockKind.REGISTRY, "")):
        workers = registry.Registry(home.layout)
        worker = workers.workers.get(worker_id)
        if worker is None or (on and worker.blocked_on_message_id != on):
            return
        workers.put(worker._replace(blocked_on_message_id=message_id))
        workers.save()
