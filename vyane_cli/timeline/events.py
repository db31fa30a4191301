"""Timeline events: the closed list of kinds, their categories and their payloads."""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.json import Schema, check
from vyane_cli.kernel.values import NamedTuple, StrEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION = 1


class EventKind(StrEnum):
    """The kinds of events. A line with another kind is damaged, or of a later version."""

    TURN_STARTED = "TurnStarted"
    RESULT_OBSERVED = "ResultObserved"
    TOOL_OBSERVED = "ToolObserved"
    USAGE_OBSERVED = "UsageObserved"
    PERMISSION_OBSERVED = "PermissionObserved"
    DIAGNOSTIC = "Diagnostic"
    TURN_FINISHED = "TurnFinished"
    TAKEOVER_INITIATED = "TakeoverInitiated"
    TAKEOVER_CONSUMED = "TakeoverConsumed"
    CANCEL_REQUESTED = "CancelRequested"
    CANCEL_SETTLED = "CancelSettled"
    CHILD_SPAWNED = "ChildSpawned"
    CHILD_SETTLED = "ChildSettled"
    DELIVERY_ATTEMPTED = "DeliveryAttempted"
    BINDING_CHANGED = "BindingChanged"


class Category(StrEnum):
    """The category of an event: a group of kinds."""

    LIFECYCLE = "lifecycle"
    MODEL = "model"
    TOOL = "tool"
    APPROVAL = "approval"
    COLLABORATION = "collaboration"
    ERROR = "error"
    SYSTEM = "system"


class TurnOutcome(StrEnum):
    """The outcome of a turn."""

    SUCCESS = "success"
    ERROR = "error"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


# fmt: off
CATEGORIES: Mapping[EventKind, Category] = {
    EventKind.TURN_STARTED:        Category.LIFECYCLE,
    EventKind.RESULT_OBSERVED:     Category.MODEL,
    EventKind.TOOL_OBSERVED:       Category.TOOL,
    EventKind.USAGE_OBSERVED:      Category.MODEL,
    EventKind.PERMISSION_OBSERVED: Category.APPROVAL,
    EventKind.DIAGNOSTIC:          Category.ERROR,
    EventKind.TURN_FINISHED:       Category.LIFECYCLE,
    EventKind.TAKEOVER_INITIATED:  Category.SYSTEM,
    EventKind.TAKEOVER_CONSUMED:   Category.SYSTEM,
    EventKind.CANCEL_REQUESTED:    Category.SYSTEM,
    EventKind.CANCEL_SETTLED:      Category.SYSTEM,
    EventKind.CHILD_SPAWNED:       Category.COLLABORATION,
    EventKind.CHILD_SETTLED:       Category.COLLABORATION,
    EventKind.DELIVERY_ATTEMPTED:  Category.COLLABORATION,
    EventKind.BINDING_CHANGED:     Category.SYSTEM,
}

SCHEMAS: Mapping[EventKind, Schema] = {
    EventKind.TURN_STARTED:        {"trigger*": (str,), "prompt_digest": (str,),
                                    "prompt_chars": (int,), "message_ids": (list,)},
    EventKind.RESULT_OBSERVED:     {"digest*": (str,), "chars*": (int,), "excerpt": (str,)},
    EventKind.TOOL_OBSERVED:       {"tool*": (str,), "tool_use_id": (str,), "outcome": (str,),
                                    "duration_ms": (int,)},
    EventKind.USAGE_OBSERVED:      {"model": (str,), "input_tokens": (int,),
                                    "output_tokens": (int,), "cache_read_tokens": (int,),
                                    "cache_write_tokens": (int,), "requests": (int,)},
    EventKind.PERMISSION_OBSERVED: {"tool*": (str,), "decision": (str,)},
    EventKind.DIAGNOSTIC:          {"code*": (str,), "text": (str,), "origin_turn": (str,)},
    EventKind.TURN_FINISHED:       {"outcome*": (str,), "code": (str,), "text": (str,),
                                    "duration_ms": (int,)},
    EventKind.TAKEOVER_INITIATED:  {"message_id*": (str,), "by": (str,), "interrupt": (str,)},
    EventKind.TAKEOVER_CONSUMED:   {"message_id*": (str,)},
    EventKind.CANCEL_REQUESTED:    {"operation*": (str,), "message_id": (str,), "by": (str,),
                                    "reason": (str,), "force": (bool,)},
    EventKind.CANCEL_SETTLED:      {"operation*": (str,), "outcome*": (str,), "message_id": (str,)},
    EventKind.CHILD_SPAWNED:       {"worker*": (str,), "session": (str,), "dispatch": (str,),
                                    "purpose": (str,), "name": (str,)},
    EventKind.CHILD_SETTLED:       {"worker*": (str,), "outcome*": (str,), "message_id": (str,)},
    EventKind.DELIVERY_ATTEMPTED:  {"message_ids*": (list,), "transport*": (str,),
                                    "outcome*": (str,), "rule": (str,), "redelivered": (int,)},
    EventKind.BINDING_CHANGED:     {"binding*": (str,), "status*": (str,), "reason": (str,),
                                    "conversation": (str,)},
}
# fmt: on

PRODUCED = (
    EventKind.RESULT_OBSERVED,
    EventKind.TOOL_OBSERVED,
    EventKind.USAGE_OBSERVED,
    EventKind.PERMISSION_OBSERVED,
    EventKind.DIAGNOSTIC,
)
"""Kinds that a producer may emit in its turn. Only vyane emits life cycle and control events."""

DURABLE = frozenset(EventKind) - {
    EventKind.TOOL_OBSERVED,
    EventKind.USAGE_OBSERVED,
    EventKind.DELIVERY_ATTEMPTED,
}
"""Kinds that are flushed as they are written: life cycle and control facts, and results.

Tools, usage and deliveries are not flushed on their own.
"""

ERROR_CODES = frozenset(
    "rate_limit authentication_failed billing_error invalid_request server_error "
    "max_output_tokens unknown submit_failed".split()
)
"""Stable codes of turns that ended in an error. A host's other codes become `provider_error`."""


class CommittedEvent(NamedTuple):
    """One event of a timeline. Session, epoch and seq are its identity."""

    seq: int
    kind: EventKind
    payload: Mapping[str, Any]
    turn: str | None = None
    turn_number: int | None = None
    origin: Mapping[str, Any] | None = None
    at: float = 0.0


def check_kind(kind: str) -> EventKind:
    """Return the kind of this name; InvalidInputError (`unknown_kind`) lists all kinds."""
    if kind not in tuple(EventKind):
        raise InvalidInputError(
            "kind", kind, "an event kind", hint=", ".join(EventKind), slug="unknown_kind"
        )
    return EventKind(kind)


def check_outcome(outcome: str) -> TurnOutcome:
    """Return the outcome of this name; InvalidInputError (`wrong_outcome`) lists all outcomes."""
    if outcome not in tuple(TurnOutcome):
        expected = "one of " + ", ".join(TurnOutcome)
        raise InvalidInputError("outcome", outcome, expected, slug="wrong_outcome")
    return TurnOutcome(outcome)


def check_event(kind: str, payload: object) -> dict[str, Any]:
    """Return the payload if it fits its kind, or raise InvalidInputError.

    Extra keys are refused (`extra_key`).
    """
    schema = SCHEMAS[check_kind(kind)]
    if isinstance(payload, dict):
        known = [key.rstrip("*") for key in schema]
        extra = [key for key in payload if key not in known]
        if extra:
            raise InvalidInputError(
                "payload",
                extra[0],
                f"a key of {kind}",
                hint="known: " + ", ".join(known),
                slug="extra_key",
            )
    checked = check(schema, payload, "payload", of=kind)
    if kind == EventKind.TURN_FINISHED:
        check_outcome(checked["outcome"])
    return checked


def normalise_error(reason: str) -> str:
    """Return a stable code for a host's reason: `unknown` if it is empty."""
    return reason if reason in ERROR_CODES else "provider_error" if reason else "unknown"
