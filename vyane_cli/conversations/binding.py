"""Bindings: which conversation speaks to which session, for how long, and what a change leaves.

No channel is named here. A record is found by its conversation: the id of a binding is made from
channel, account and conversation, so that one place never speaks to two sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from vyane_cli.channels.port import Conversation, Placement
from vyane_cli.channels.references import binding_id, normalise
from vyane_cli.errors import ConflictError

TOUCH_EVERY_S = 15.0
"""A touch by activity is kept at most so often; one that a person asks for always."""
REASON_MAX = 500
LATEST = 253_402_300_799.0
"""The last second of the year 9999: no deadline is later."""
EARLIER_MAX = 200


class TargetKind(StrEnum):
    """What a binding speaks to."""

    SESSION = "session"
    SUBAGENT = "subagent"


class BindingStatus(StrEnum):
    """Only an active binding is a place for results."""

    ACTIVE = "active"
    ENDING = "ending"  # its last words are on their way
    ENDED = "ended"  # kept, with time and reason


_S = BindingStatus
# fmt: off
TRANSITIONS: Mapping[BindingStatus, frozenset[BindingStatus]] = {
    _S.ACTIVE: frozenset({_S.ENDING, _S.ENDED}),
    _S.ENDING: frozenset({_S.ENDED}),
    _S.ENDED:  frozenset(),
}
# fmt: on


class EndReason(StrEnum):
    """Why vyane itself ended a binding; a person's reason is their own words."""

    IDLE = "idle-expired"
    AGE = "max-age-expired"
    GONE = "gone"
    NO_SESSION = "no-session"
    COMPLETED = "completed"


class Windows(NamedTuple):
    """How long a binding may be silent, and how old it may become, in seconds; 0: for ever."""

    idle_s: float = 0.0
    max_age_s: float = 0.0


NO_END = Windows()


class Binding(NamedTuple):
    """One conversation and its session. Times are Unix seconds."""

    id: str
    target_session: str
    """The key of the logical session, whole."""
    target_kind: TargetKind
    conversation: Conversation
    status: BindingStatus = BindingStatus.ACTIVE
    placement: Placement = Placement.CURRENT
    bound_at: float = 0.0
    last_activity_at: float = 0.0
    idle_timeout_s: float = 0.0
    """0: off."""
    max_age_s: float = 0.0
    """0: off."""
    deadline_at: float | None = None
    """An absolute end, kept over every touch."""
    generation: str = ""
    """Never used twice: tells this binding from an earlier one of the same conversation."""
    open_since: float = 0.0
    """Since when the conversation is this session's without a break: what was written there before
    is not for it. To bind it again while it is open breaks nothing."""
    earlier_sessions: tuple[str, ...] = ()
    """Whose place this was before it was given to another: the mirror makes them no other."""
    bound_by: str = "system"
    metadata: Mapping[str, Any] = {}
    locked: bool = False
    """People closed the conversation to us: nothing is sent until it is tried again."""
    ended_at: float | None = None
    end_reason: str = ""
    unknown: Mapping[str, Any] = {}

    @property
    def expires_at(self) -> float | None:
        """The earliest of its ends; None: never."""
        idle = [self.last_activity_at + self.idle_timeout_s] if self.idle_timeout_s else []
        last = [self.latest_at] if self.latest_at is not None else []
        return min(idle + last, default=None)

    @property
    def latest_at(self) -> float | None:
        """The earliest of the ends that no activity moves; None: it has none."""
        age = [self.bound_at + self.max_age_s] if self.max_age_s else []
        deadline = [self.deadline_at] if self.deadline_at is not None else []
        return min(age + deadline, default=None)

    def is_expired(self, now_s: float) -> bool:
        """Whether one of its ends has come."""
        return self.expires_at is not None and self.expires_at <= now_s

    def is_open(self, now_s: float) -> bool:
        """Whether results and replies go here now."""
        return self.status is BindingStatus.ACTIVE and not self.is_expired(now_s)

    def expiry_reason(self, now_s: float) -> EndReason | None:
        """Which end has come first; None while none has."""
        if not self.is_expired(now_s):
            return None
        idle = self.last_activity_at + self.idle_timeout_s if self.idle_timeout_s else None
        return EndReason.IDLE if idle == self.expires_at else EndReason.AGE


# ------------------------------------------------------------------ changes


def rebind(before: Binding | None, fresh: Binding) -> Binding:
    """The record after a bind, whatever was bound there before.

    The same target keeps its earlier metadata and windows that a person set; another one does not.
    """
    if before is None:
        return fresh._replace(open_since=fresh.bound_at)
    was = dict.fromkeys((*before.earlier_sessions, before.target_session))
    earlier = tuple(one for one in was if one != fresh.target_session)[-EARLIER_MAX:]
    fresh = fresh._replace(earlier_sessions=earlier)
    if before.target_session != fresh.target_session:
        return fresh._replace(open_since=fresh.bound_at)
    return fresh._replace(
        metadata={**before.metadata, **fresh.metadata},
        open_since=before.open_since if goes_on(before, fresh) else fresh.bound_at,
        unknown=before.unknown,
    )


def goes_on(before: Binding | None, fresh: Binding) -> bool:
    """Whether the conversation was open for the same session right before it was bound."""
    return (
        before is not None
        and before.target_session == fresh.target_session
        and before.is_open(fresh.bound_at)
    )


def touch(binding: Binding, at: float) -> Binding:
    """Activity at this time. It never goes back."""
    return binding._replace(last_activity_at=max(binding.last_activity_at, at))


def set_windows(
    binding: Binding, now_s: float, *, idle_s: float | None = None, max_age_s: float | None = None
) -> Binding:
    """Other windows: a new idle time begins now, and a new age begins the binding anew."""
    if idle_s is not None:
        binding = binding._replace(idle_timeout_s=idle_s, last_activity_at=now_s)
    if max_age_s is not None:
        binding = binding._replace(max_age_s=max_age_s, bound_at=now_s, last_activity_at=now_s)
    return binding


def end(binding: Binding, status: BindingStatus, reason: str, now_s: float) -> Binding:
    """Ending or ended, with time and reason; the first reason stays. ConflictError if it was."""
    if status not in TRANSITIONS[binding.status]:
        raise ConflictError(f"a binding that is {binding.status} does not become {status}")
    first = binding.ended_at is None
    return binding._replace(
        status=status,
        ended_at=now_s if first else binding.ended_at,
        end_reason=reason if first else binding.end_reason,
    )


def revive(ended: Binding, generation: str, now_s: float) -> Binding:
    """One that ended goes on in its conversation, with the same windows from now on."""
    return ended._replace(
        status=BindingStatus.ACTIVE,
        bound_at=now_s,
        last_activity_at=now_s,
        generation=generation,
        locked=False,
        ended_at=None,
        end_reason="",
    )


def is_of_another(before: Binding | None, fresh: Binding) -> bool:
    """Whether a bind would take an open conversation away from another session."""
    return (
        before is not None
        and before.target_session != fresh.target_session
        and before.is_open(fresh.bound_at)
    )


# ------------------------------------------------------------------ look-ups


def of_session(bindings: Iterable[Binding], key: str) -> list[Binding]:
    """Those of exactly this session."""
    return [one for one in bindings if one.target_session == key]


def on_channel(bindings: Iterable[Binding], key: str, channel: str, account: str) -> list[Binding]:
    """Those of this session on one account of a channel, whatever their status."""
    return [
        one
        for one in of_session(bindings, key)
        if one.conversation.account_key == (channel, account)
    ]


def place_of(bindings: Iterable[Binding], key: str) -> Binding | None:
    """Where this session is shown: its first binding that has not ended."""
    return next((one for one in of_session(bindings, key) if one.ended_at is None), None)


def has_moved(bindings: Iterable[Binding], ended: Binding) -> bool:
    """Whether the session of one that ended has another place in the same account by now."""
    found = on_channel(bindings, ended.target_session, *ended.conversation.account_key)
    return any(one.ended_at is None for one in found)


def of_conversation(bindings: Mapping[str, Binding], conversation: Conversation) -> Binding | None:
    """The record of a conversation, whatever its status."""
    return bindings.get(binding_id(normalise(conversation)))


# ------------------------------------------------------------------ words


def duration_label(seconds: float) -> str:
    """A window in words: disabled, under a minute, whole hours, else minutes."""
    if seconds <= 0:
        return "disabled"
    minutes = int(seconds // 60)
    if minutes < 1:
        return "<1m"
    return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"


def farewell(binding: Binding) -> str:
    """The last words in the conversation, by the reason; empty where nobody could read them."""
    custom = binding.metadata.get("farewell")
    if binding.end_reason == EndReason.GONE:
        return ""
    if isinstance(custom, str) and custom.strip():
        return custom.strip()
    match binding.end_reason:
        case EndReason.IDLE:
            label = duration_label(binding.idle_timeout_s)
            return f"Nothing happened here for {label}: this is no longer the session's place."
        case EndReason.AGE:
            label = duration_label(binding.max_age_s)
            return f"This was the session's place for {label}, its greatest age, and is no longer."
        case _:
            return "This is no longer the session's place: what is written here reaches nobody."


def thread_name(label: str, agent: str = "", mark: str = "") -> str:
    """A title: one mark, then the label, else the agent, else `agent`; at most 100 characters."""
    words = " ".join((label.strip() or agent.strip() or "agent").split())
    return f"{mark} {words}".strip()[:100]


def summary_of(bindings: Sequence[Binding], now_s: float) -> dict[str, int]:
    """How many bindings are active, ending, ended, and active past their end."""
    found = {str(status): 0 for status in BindingStatus} | {"expired": 0}
    for one in bindings:
        found[str(one.status)] += 1
        found["expired"] += one.status is BindingStatus.ACTIVE and one.is_expired(now_s)
    return found
