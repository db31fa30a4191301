"""The router: where the result of a session goes. One decision, with the reason by name.

The router takes no text: choosing a place and making its content are two steps. A chosen target
stays the target; a place that cannot be reached is retried, and never replaced by another.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from vyane_cli.channels.port import Conversation, normalise
from vyane_cli.conversations.binding import Binding, of_session
from vyane_cli.errors import InvalidInputError

TASK_COMPLETION = "task_completion"


class RouteMode(StrEnum):
    """The kind of destination: the session's own binding, or the fallback."""

    BOUND = "bound"
    FALLBACK = "fallback"


class Reason(StrEnum):
    """The row that decided."""

    REQUESTER_MATCH = "requester-match"
    SINGLE = "single-active-binding"
    SINGLE_FALLBACK = "single-active-binding-fallback"
    MISSING_TARGET = "missing-target-session"
    NO_BINDING = "no-active-binding"
    MISSING_REQUESTER = "missing-requester"
    INVALID_REQUESTER = "invalid-requester"
    NO_MATCH = "no-requester-match"
    AMBIGUOUS = "ambiguous-without-requester"


class Destination(NamedTuple):
    """Where a result goes: a binding, or explicitly none."""

    mode: RouteMode
    reason: Reason
    binding: Binding | None = None


def check_event(kind: str) -> str:
    """Return the kind of an event that is routed; raise InvalidInputError for any other.

    Only the end of a task is routed; all other events keep their own way.
    """
    if kind != TASK_COMPLETION:
        raise InvalidInputError(
            "event", kind, "an event that is routed",
            hint=f"only {TASK_COMPLETION}; other events keep their own way",
            slug="event_kind_unsupported",
        )  # fmt: skip
    return kind


def route(
    bindings: Iterable[Binding],
    target_session: str,
    requester: Conversation | None,
    now_s: float,
    *,
    fail_closed: bool = True,
) -> Destination:
    """Decide where a result goes. Total: every input has a row, so this never raises."""
    if not target_session.strip():
        return _fallback(Reason.MISSING_TARGET)
    open_ones = [one for one in of_session(bindings, target_session) if one.is_open(now_s)]
    if not open_ones:
        return _fallback(Reason.NO_BINDING)
    single = open_ones[0] if len(open_ones) == 1 else None
    if requester is None:
        if fail_closed:
            return _fallback(Reason.MISSING_REQUESTER)
        return _bound(Reason.SINGLE, single) if single else _fallback(Reason.AMBIGUOUS)
    try:
        requester = normalise(requester)
    except InvalidInputError:
        return _fallback(Reason.INVALID_REQUESTER)
    if not requester.id:
        return _fallback(Reason.INVALID_REQUESTER)
    near = [one for one in open_ones if one.conversation.account_key == requester.account_key]
    exact = [one for one in near if one.conversation.id == requester.id]
    chosen = exact or (near if len(near) == 1 else [])
    if chosen:
        return _bound(Reason.REQUESTER_MATCH, chosen[0])
    if not fail_closed and single:
        return _bound(Reason.SINGLE_FALLBACK, single)
    return _fallback(Reason.NO_MATCH)


def _bound(reason: Reason, binding: Binding) -> Destination:
    return Destination(RouteMode.BOUND, reason, binding)


def _fallback(reason: Reason) -> Destination:
    return Destination(RouteMode.FALLBACK, reason)
