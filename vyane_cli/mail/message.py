"""A message: its fields, the payload and permitted senders of each kind, and its lane."""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.errors import InvalidInputError, RefusedError
from vyane_cli.kernel.json import Schema, check, clean
from vyane_cli.kernel.text import cut
from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.sessions.speaker import FromKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


DAY_S = 86_400.0
INFO_TTL_S = 3_600.0
MONTH_S = 30 * DAY_S
"""Time to live of messages that are sent only once, in seconds.

They also reach a reader that is closed for days.
"""
SUMMARY_MAX = 512
TASK_ID_MAX = 256
PAYLOAD_MAX_BYTES = 64 * 1024
LAUNCHED = "launched"
"""Payload key of a dispatch whose reader got the prompt at its launch. No sender can set it."""


class MessageKind(StrEnum):
    """Kinds of messages. The set is closed."""

    TASK_DISPATCH = "task-dispatch"
    TASK_RESULT = "task-result"
    TAKEOVER = "takeover"
    CANCEL = "cancel"
    CONTEXT_INJECT = "context-inject"
    STATUS_UPDATE = "status-update"
    INFO = "info"


class ToKind(StrEnum):
    """Kinds of addressees."""

    WORKER = "worker"
    LOGICAL_SESSION = "logical_session"
    CHANNEL = "channel"
    BROADCAST = "broadcast"


class Lane(StrEnum):
    """Lanes: each has its own gates. A message's lane is derived, never chosen by the sender."""

    CONTROL = "control"
    DIRECT = "direct"
    NORMAL = "normal"
    QUIET = "quiet"


class MessageStatus(StrEnum):
    """Statuses of a message. The last three are final."""

    PENDING = "pending"
    DELIVERED = "delivered"
    CONSUMED = "consumed"
    EXPIRED = "expired"
    FAILED = "failed"


class Position(StrEnum):
    """The earliest moment at which a message may be handed over."""

    AFTER_CURRENT_TOOL_CALL = "after_current_tool_call"
    BEFORE_NEXT_TURN = "before_next_turn"


class Message(NamedTuple):
    """An addressed, immutable message. Times are in Unix seconds, as in the file."""

    id: str
    ts: float
    ttl_seconds: float
    from_kind: FromKind
    from_id: str
    from_name: str
    to_kind: ToKind
    to_id: str
    kind: MessageKind
    lane: Lane
    summary: str = ""
    payload: Mapping[str, Any] = {}
    logical_session_id: str | None = None
    task_id: str | None = None
    trace_id: str | None = None
    parent_message_id: str | None = None
    correlation_id: str | None = None
    note: str = ""
    """Why this reader has a message that was first addressed to another (a name's new owner)."""

    @property
    def position(self) -> Position:
        """Return the earliest moment at which the message may be handed over."""
        if self.kind is MessageKind.TAKEOVER and self.payload.get("interrupt_first") is False:
            return Position.BEFORE_NEXT_TURN
        given = self.payload.get("position", Position.AFTER_CURRENT_TOOL_CALL)
        return Position(given) if given in tuple(Position) else Position.AFTER_CURRENT_TOOL_CALL

    @property
    def decides(self) -> str:
        """Return the id of the takeover that the person decides with this message; else empty."""
        mine = self.from_kind is FromKind.HUMAN and self.kind is MessageKind.CONTEXT_INJECT
        return str(self.payload.get("takeover") or "") if mine else ""

    @property
    def interrupts(self) -> bool:
        """Return whether the message must stop the next tool call of a busy session."""
        return self.lane is Lane.CONTROL and self.position is not Position.BEFORE_NEXT_TURN

    @property
    def launched(self) -> bool:
        """Return whether the reader got the message at its launch.

        Such a message is settled without being shown.
        """
        return self.kind is MessageKind.TASK_DISPATCH and self.payload.get(LAUNCHED) is True

    @property
    def startable(self) -> bool:
        """Return whether the message may start a turn."""
        return self.lane is not Lane.QUIET


_QUIET_KINDS = (MessageKind.INFO, MessageKind.STATUS_UPDATE)
_CONTROL_KINDS = (MessageKind.TAKEOVER, MessageKind.CANCEL)
_DIRECT_KINDS = (MessageKind.TASK_DISPATCH, MessageKind.TASK_RESULT)


def decide_lane(
    kind: MessageKind, from_kind: FromKind, to_kind: ToKind, *, awaited: bool = False
) -> Lane:
    """Return the lane of a message. The first match of control, quiet, direct, normal decides.

    `awaited`: the receiver is blocked on this reply.
    """
    if kind in _CONTROL_KINDS:
        return Lane.CONTROL
    if kind in _QUIET_KINDS or to_kind is ToKind.BROADCAST:
        return Lane.QUIET
    if from_kind is FromKind.HUMAN or kind in _DIRECT_KINDS or awaited:
        return Lane.DIRECT
    return Lane.NORMAL


def default_ttl_s(kind: MessageKind) -> float:
    """Return the default time to live of a message of this kind, in seconds."""
    return INFO_TTL_S if kind is MessageKind.INFO else DAY_S


class Relation(StrEnum):
    """Relations of the sender to the target, as far as the registry knows."""

    HUMAN = "human"
    PARENT = "parent"
    CHILD = "child"
    PEER = "peer"
    OUTSIDE = "outside"


# fmt: off
DIRECTIONS: Mapping[MessageKind, tuple[Relation, ...]] = {
    MessageKind.TASK_DISPATCH:  (Relation.PARENT, Relation.HUMAN),
    MessageKind.TASK_RESULT:    (Relation.CHILD,),
    MessageKind.TAKEOVER:       (Relation.HUMAN,),
    MessageKind.CANCEL:         (Relation.PARENT, Relation.HUMAN),
    MessageKind.CONTEXT_INJECT: tuple(Relation),
    MessageKind.STATUS_UPDATE:  (Relation.CHILD,),  # to a channel: any sender
    MessageKind.INFO:           tuple(Relation),
}

PAYLOADS: Mapping[MessageKind, Schema] = {
    MessageKind.TASK_DISPATCH:  {"prompt*": (str,), "inherited_context": (str,),
                          "expected_artifacts": (list,), "task": (str,)},
    MessageKind.TASK_RESULT:    {"summary": (str,), "artifacts": (list,), "success*": (bool,),
                          "error": (str,), "events_replay_token": (str,), "summary_ref": (dict,),
                          "head": (str,)},
    MessageKind.TAKEOVER:       {"instruction*": (str,), "interrupt_first": (bool,)},
    MessageKind.CANCEL:         {"reason": (str,), "force": (bool,)},
    MessageKind.CONTEXT_INJECT: {"text*": (str,), "position": (str,), "takeover": (str,)},
    MessageKind.STATUS_UPDATE:  {"progress": (str, int, float), "phase": (str,),
                                 "metrics": (dict,)},
    MessageKind.INFO:           {},  # free form
}
# fmt: on


def check_direction(kind: MessageKind, relation: Relation, to_kind: ToKind) -> None:
    """Refuse (exit 5, `direction`) a kind that this sender may not send to this target."""
    if kind is MessageKind.STATUS_UPDATE and to_kind is ToKind.CHANNEL:
        return
    if relation not in DIRECTIONS[kind]:
        allowed = ", ".join(DIRECTIONS[kind])
        own_script = relation is Relation.OUTSIDE and Relation.HUMAN in DIRECTIONS[kind]
        raise RefusedError(
            f"a {kind} may be sent by {allowed}; to this target you are {relation}",
            slug="direction",
            hint="a person's own script says --from-kind human"
            if own_script
            else "send a context-inject (the default kind) instead",
        )


def check_payload(kind: MessageKind, payload: object) -> dict[str, Any]:
    """Check the payload of a kind. InvalidInputError names the wrong key. Returns the payload."""
    checked = check(PAYLOADS[kind], clean(payload, "payload"), "payload", of=kind)
    if kind is MessageKind.TASK_RESULT and not checked["success"] and not checked.get("error"):
        raise InvalidInputError(
            "payload.error", "", "given: a result without success needs it", missing=True
        )
    if checked.get("position") not in (None, *Position):
        raise InvalidInputError("payload.position", checked["position"], "one of " + _of(Position))
    progress = checked.get("progress") if kind is MessageKind.STATUS_UPDATE else None
    if isinstance(progress, int | float) and not 0 <= progress <= 1:
        raise InvalidInputError("payload.progress", progress, "a text, or a number from 0 to 1")
    return checked


def parse_kind(text: str) -> MessageKind:
    """Parse the name of a kind. InvalidInputError lists the kinds."""
    if text not in tuple(MessageKind):
        raise InvalidInputError("kind", text, "one of " + _of(MessageKind))
    return MessageKind(text)


def check_summary(text: str) -> str:
    """Check that a summary is one line of at most 512 characters. Returns the summary.

    InvalidInputError otherwise.
    """
    if "\n" in text or "\r" in text:
        raise InvalidInputError("summary", text, "a single line")
    if len(text) > SUMMARY_MAX:
        raise InvalidInputError("summary", text, f"at most {SUMMARY_MAX} characters")
    return text


_TEXTS = ("text", "instruction", "prompt", "head", "summary", "reason", "progress")
"""Payload keys for the text of a message: the first that holds a non-empty string is used."""

_BESIDE: Mapping[MessageKind, tuple[str, ...]] = {
    MessageKind.TASK_DISPATCH: ("inherited_context", "expected_artifacts", "task"),
    MessageKind.TASK_RESULT: ("artifacts",),
    MessageKind.STATUS_UPDATE: ("progress", "phase", "metrics"),
}
"""Payload keys that the reader sees beside the text. An `info` is free form: all its keys."""

BOUNCED = "bounced"
"""Payload key of an `info` about an undelivered message: the id of that message.

The text of such an `info` already says what the other keys say.
"""


def body_of(message: Message) -> str:
    """Return the whole text of a message for its reader."""
    return told_by(message.kind, message.payload, message.summary)


def told_by(kind: MessageKind, payload: Mapping[str, Any], summary: str = "") -> str:
    """Return the text of a payload of any kind, then one line for each other key shown.

    If the payload has no text, the summary is used, unless it repeats the first of these lines.
    """
    own = next((key for key in _TEXTS if isinstance(payload.get(key), str) and payload[key]), "")
    beside = _BESIDE.get(kind, ())
    if kind is MessageKind.INFO and BOUNCED not in payload:
        beside = tuple(payload)
    rest = "\n".join(
        f"{key}: {_worded(payload[key])}"
        for key in beside
        if key != own and payload.get(key) not in (None, "", [], {})
    )
    text = payload[own] if own else summary if summary != first_line(rest) else ""
    return "\n".join(filter(None, (text, rest)))


def _worded(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    from vyane_cli.kernel import json

    return json.dumps(value)


def first_line(text: str) -> str:
    """Return the first line that is not blank, cut to the length of a summary."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return cut(line, SUMMARY_MAX)


def _of(choices: type[StrEnum]) -> str:
    return ", ".join(choices)


VYANE = "vyane"
"""Sender id and name of messages that vyane itself sends."""


def from_vyane(
    message_id: str, at: float, worker: str, kind: MessageKind, text: str, **more: Any
) -> Message:
    """Return a message from vyane itself to a worker.

    `at` is in Unix seconds; `more` goes into the payload beside the text.
    """
    return Message(
        message_id,
        at,
        default_ttl_s(kind),
        FromKind.EXTERNAL,
        VYANE,
        VYANE,
        ToKind.WORKER,
        worker,
        kind,
        decide_lane(kind, FromKind.EXTERNAL, ToKind.WORKER),
        first_line(text),
        {"text": text, **more},
    )
