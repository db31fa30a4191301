"""Once: the same idempotency key and content is the same send; one broadcast a minute."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vyane_cli.errors import ConflictError, InvalidInputError, RefusedError
from vyane_cli.kernel.clock import Clock
from vyane_cli.mail.enqueue import Target, is_stored, keep_copy, reach_targets, store_each
from vyane_cli.mail.message import DAY_S, Message, ToKind
from vyane_cli.sessions.speaker import Speaker
from vyane_cli.storage import codec, document, files
from vyane_cli.storage.locks import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime

BROADCAST_EVERY_S = 60.0


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


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _content(messages: Sequence[Message], family: str) -> str:
    """What makes two sends under one key the same: what the sender wrote, and to whom.

    Not what we derive, which may have changed since: lane, links, the recipients of a broadcast,
    or who belongs to a `family` (`children`).
    """
    addressed = sorted({f"{message.to_kind}:{message.to_id}" for message in messages})
    if family:
        addressed = [family]
    first = messages[0]
    written = (first.kind, first.summary, dict(first.payload), first.ttl_seconds, first.task_id,
               first.parent_message_id)  # fmt: skip
    return _digest(*addressed, codec.dumps(written).decode())


def send_once(
    runtime: Runtime,
    speaker: Speaker,
    targets: Sequence[Target],
    messages: Sequence[Message],
    key: str,
    clock: Clock,
    family: str = "",
) -> Sent:
    """The same key and content is the same send. The key, with its recipients, is kept first.

    A crash in between leaves a key whose messages are in no inbox: the retry stores them under
    the same ids, so that it completes what was begun.
    """
    if not 0 < len(key) <= 256:
        raise InvalidInputError("idempotency-key", key, "1 to 256 characters")
    layout = runtime.layout
    digest = _digest(speaker.kind, speaker.id, key)
    content = _content(messages, family)
    with runtime.held((Kind.KEY, digest)):
        known = document.load(layout.key(digest))
        if known is not None and known.get("content") != content:
            raise ConflictError(
                f"the idempotency key {key!r} was used for another message ({known['ids'][0]})"
            )
        if known is None:
            if messages[0].to_kind is ToKind.BROADCAST:
                take_broadcast_turn(runtime, clock, digest)
            with files.before_commit():
                document.save(layout.key(digest), _key_record(key, content, targets, messages),
                              layout.root)  # fmt: skip
        else:
            targets, messages = _as_first_sent(runtime, known, targets, messages[0])
        missing = [
            (target, message)
            for target, message in zip(targets, messages, strict=True)
            if known is None or not is_stored(runtime, target, message)
        ]
        repeated = known is not None and not missing
        store_each(runtime, missing, clock, keyed=True)
    if not repeated:
        keep_copy(runtime, speaker, messages)
        reach_targets(runtime, targets, messages, clock)
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
    runtime: Runtime, known: Mapping[str, Any], targets: Sequence[Target], template: Message
) -> tuple[list[Target], list[Message]]:
    """The targets and messages of the first send under a key."""
    template = template._replace(
        ts=float(known["ts"]), correlation_id=known.get("correlation_id") or None
    )
    by_worker = {target.worker: target for target in targets}
    to, messages = [], []
    for message_id, worker in zip(known["ids"], known["workers"], strict=True):
        target = by_worker.get(worker) or Target(
            template.to_kind,
            "*" if template.to_kind is ToKind.BROADCAST else worker,
            runtime.layout.inbox(worker),
            worker,
            lock=worker,
            name=worker,
        )
        to.append(target)
        messages.append(template._replace(id=str(message_id), to_id=target.id))
    return to, messages


def take_broadcast_turn(runtime: Runtime, clock: Clock, key: str = "") -> None:
    """One broadcast a minute for the whole state folder: RefusedError, and nothing is stored.

    A retry under the key that has the turn goes on with it.
    """
    layout = runtime.layout
    with runtime.held((Kind.BROADCAST, "")):
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
