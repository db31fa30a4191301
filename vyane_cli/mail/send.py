"""Send: append a message to an inbox, and ring. The state of a message is never advanced here.

Commit point: the line in the inbox, on disk with every directory on its way before this returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from vyane_cli.children.result import check_reportable, settle_child
from vyane_cli.children.result_rules import Ending, Report, result_id
from vyane_cli.errors import ConflictError, InvalidInputError, RefusedError, VyaneError
from vyane_cli.kernel.clock import Clock
from vyane_cli.mail.address import find_address, resolve
from vyane_cli.mail.awaiting import block, check_awaitable
from vyane_cli.mail.enqueue import Target, keep_copy, reach_targets, store_each
from vyane_cli.mail.lookup import find_message
from vyane_cli.mail.message import (
    DAY_S,
    PAYLOAD_MAX_BYTES,
    TASK_ID_MAX,
    Kind,
    Lane,
    Message,
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
from vyane_cli.mail.once import Sent, send_once, take_broadcast_turn
from vyane_cli.sessions import registry
from vyane_cli.sessions.facts import diagnose
from vyane_cli.sessions.identity import claim_kind, require_person, whoami
from vyane_cli.sessions.speaker import Speaker
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import codec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime

TTL_MAX_S = 365 * DAY_S
NOTHING = "given: there is nothing to send"
HOW = "vyane send NAME TEXT; `-` reads the text from standard input"


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
    """The sender can do nothing until it is answered."""


def send(runtime: Runtime, draft: Draft, speaker: Speaker | None = None) -> Sent:
    """Store a message. Everything is checked before anything is written.

    NotFoundError for an unknown target, InvalidInputError for a bad field, RefusedError for a
    direction, ConflictError for a key that was used for something else.
    """
    speaker = claim_kind(runtime, draft.from_kind, speaker or whoami(runtime))
    kind = parse_kind(draft.kind)
    payload = check_payload(kind, _payload(kind, draft))
    if len(codec.dumps(payload)) > PAYLOAD_MAX_BYTES:
        raise InvalidInputError("payload", "…", f"at most {PAYLOAD_MAX_BYTES // 1024} KiB")
    summary = _summary(draft, kind, payload)
    if kind is Kind.TAKEOVER:
        require_person(runtime, speaker, "take over a session")
    workers = registry.Registry(runtime.layout)
    address = find_address(draft.to, workers)
    targets = resolve(runtime, workers, address, speaker)
    for target in targets:
        _check_direction(runtime, speaker, kind, target)
    if draft.await_reply:
        check_awaitable(speaker, kind, draft.to, targets)
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
                summary,
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
            take_broadcast_turn(runtime, clock)
        if draft.await_reply:
            block(runtime, speaker.id, messages[0].id)
        store_each(runtime, list(zip(targets, messages, strict=True)), clock)
        keep_copy(runtime, speaker, messages)
        reach_targets(runtime, targets, messages, clock)
        sent = Sent(tuple(messages), names=tuple(target.name for target in targets))
    else:
        family, key = str(address.relative or ""), draft.idempotency_key
        sent = send_once(runtime, speaker, targets, messages, key, clock, family)
        if draft.await_reply and not sent.repeated:
            block(runtime, speaker.id, sent.message.id)
    # a child that asks back about its dispatch has not answered it: its result does
    if parent is not None and parent.message.kind is Kind.CONTEXT_INJECT:
        for target in targets if messages[0].lane is Lane.DIRECT else ():
            with suppress(VyaneError):  # the answer is stored; what is left of the wait lapses
                block(runtime, target.worker, None, on=parent.message.id)
    return sent


def _send_result(
    runtime: Runtime,
    draft: Draft,
    speaker: Speaker,
    targets: Sequence[Target],
    payload: Mapping[str, Any],
) -> Sent:
    """The result of a dispatch, as `report --result` sends it: once, and the child has ended.

    ConflictError without a dispatch, for another correlation, and for a second one without the key
    of the first.
    """
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


def _check_direction(runtime: Runtime, speaker: Speaker, kind: Kind, target: Target) -> None:
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
        raise InvalidInputError("text", "", NOTHING, missing=True, hint=HOW)
    return payload


def _ttl(given: float | None, kind: Kind) -> float:
    if given is None:
        return default_ttl_s(kind)
    if not 0 < given <= TTL_MAX_S:
        raise InvalidInputError("ttl", given, "between a second and a year")
    return float(given)


def _summary(draft: Draft, kind: Kind, payload: Mapping[str, Any]) -> str:
    if draft.summary is not None:
        check_summary(draft.summary)
    told = told_by(kind, payload, draft.summary or "")
    if kind in (Kind.INFO, Kind.STATUS_UPDATE) and not told.strip():
        raise InvalidInputError("text", "", NOTHING, missing=True, hint=HOW)
    return first_line(told) if draft.summary is None else draft.summary


def _limited(field: str, text: str | None, limit: int) -> str | None:
    if text is not None and len(text) > limit:
        raise InvalidInputError(field, text, f"at most {limit} characters")
    return text


def _correlation(
    draft: Draft, parent: Message | None, runtime: Runtime, clock: Clock
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
