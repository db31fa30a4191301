"""Bindings: which conversation belongs to which session, for how long, and how changes affect it.

No channel is named here. A binding is found by its conversation: the id of a binding is made from
channel, account and conversation, so that one conversation never belongs to two sessions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from vyane_cli.channels.port import (
    Conversation,
    Placement,
    binding_id,
    normalise,
    parse_conversation,
    render_conversation,
)
from vyane_cli.errors import ConflictError, InvalidInputError
from vyane_cli.kernel.json import clean

TOUCH_EVERY_S = 15.0
"""Least seconds between two stored touches by activity; a touch by a person is always stored."""
REASON_MAX = 500
LATEST = 253_402_300_799.0
"""The last second of the year 9999, in Unix seconds: no deadline is later."""
EARLIER_MAX = 200


class TargetKind(StrEnum):
    """The kind of session that a binding belongs to."""

    SESSION = "session"
    SUBAGENT = "subagent"


class BindingStatus(StrEnum):
    """The status of a binding. Results go only to active bindings."""

    ACTIVE = "active"
    ENDING = "ending"  # its last words have yet to be shown
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
    """The reasons for which vyane itself ends a binding. A person's reason is free text."""

    IDLE = "idle-expired"
    AGE = "max-age-expired"
    GONE = "gone"
    NO_SESSION = "no-session"
    COMPLETED = "completed"


class Windows(NamedTuple):
    """How long a binding may be idle, and how old it may become, in seconds; 0 means no limit."""

    idle_s: float = 0.0
    max_age_s: float = 0.0


NO_END = Windows()


class Binding(NamedTuple):
    """One conversation and its session. Times are Unix seconds."""

    id: str
    target_session: str
    """The whole key of the logical session."""
    target_kind: TargetKind
    conversation: Conversation
    status: BindingStatus = BindingStatus.ACTIVE
    placement: Placement = Placement.CURRENT
    bound_at: float = 0.0
    last_activity_at: float = 0.0
    idle_timeout_s: float = 0.0
    """Seconds without activity after which the binding expires; 0 means off."""
    max_age_s: float = 0.0
    """Age in seconds at which the binding expires; 0 means off."""
    deadline_at: float | None = None
    """An absolute end, which no touch changes."""
    generation: str = ""
    """A value that is never reused: it tells this binding from the conversation's earlier ones."""
    open_since: float = 0.0
    """The time since which the conversation has belonged to this session without a break. Messages
    written before it are not for the session. Binding it again while it is open is no break."""
    earlier_sessions: tuple[str, ...] = ()
    """Sessions that lost this conversation to another one: the mirror makes no new one for them."""
    bound_by: str = "system"
    metadata: Mapping[str, Any] = {}
    locked: bool = False
    """People closed the conversation to vyane: nothing is sent until somebody tries it again."""
    ended_at: float | None = None
    end_reason: str = ""
    unknown: Mapping[str, Any] = {}

    @property
    def expires_at(self) -> float | None:
        """Return the earliest end of the binding; None if it never expires."""
        idle = [self.last_activity_at + self.idle_timeout_s] if self.idle_timeout_s else []
        last = [self.latest_at] if self.latest_at is not None else []
        return min(idle + last, default=None)

    @property
    def latest_at(self) -> float | None:
        """Return the earliest end that activity does not move; None if no such end exists."""
        age = [self.bound_at + self.max_age_s] if self.max_age_s else []
        deadline = [self.deadline_at] if self.deadline_at is not None else []
        return min(age + deadline, default=None)

    def is_expired(self, now_s: float) -> bool:
        """Return whether one of the binding's ends has come."""
        return self.expires_at is not None and self.expires_at <= now_s

    def is_open(self, now_s: float) -> bool:
        """Return whether results and replies go to this binding now."""
        return self.status is BindingStatus.ACTIVE and not self.is_expired(now_s)

    def expiry_reason(self, now_s: float) -> EndReason | None:
        """Return which end came first; None while the binding has not expired."""
        if not self.is_expired(now_s):
            return None
        idle = self.last_activity_at + self.idle_timeout_s if self.idle_timeout_s else None
        return EndReason.IDLE if idle == self.expires_at else EndReason.AGE


# ------------------------------------------------------------------ changes


def rebind(before: Binding | None, fresh: Binding) -> Binding:
    """Return the binding after a bind, given the earlier binding of the conversation.

    The same session keeps its earlier metadata; another session does not. The windows are those of
    `fresh`.
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
    """Return whether the conversation was open for the same session right before the bind."""
    return (
        before is not None
        and before.target_session == fresh.target_session
        and before.is_open(fresh.bound_at)
    )


def touch(binding: Binding, at: float) -> Binding:
    """Return the binding with activity at this time. The activity never moves back."""
    return binding._replace(last_activity_at=max(binding.last_activity_at, at))


def set_windows(
    binding: Binding, now_s: float, *, idle_s: float | None = None, max_age_s: float | None = None
) -> Binding:
    """Return the binding with other windows: a new idle time or a new age starts now."""
    if idle_s is not None:
        binding = binding._replace(idle_timeout_s=idle_s, last_activity_at=now_s)
    if max_age_s is not None:
        binding = binding._replace(max_age_s=max_age_s, bound_at=now_s, last_activity_at=now_s)
    return binding


def end(binding: Binding, status: BindingStatus, reason: str, now_s: float) -> Binding:
    """Return the binding as ending or ended, with time and reason; the first reason stays.

    Raises ConflictError if the binding's status does not allow it.
    """
    if status not in TRANSITIONS[binding.status]:
        raise ConflictError(f"a binding that is {binding.status} does not become {status}")
    first = binding.ended_at is None
    return binding._replace(
        status=status,
        ended_at=now_s if first else binding.ended_at,
        end_reason=reason if first else binding.end_reason,
    )


def revive(ended: Binding, generation: str, now_s: float) -> Binding:
    """Return an ended binding as active in its conversation, with the same windows from now on."""
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
    """Return whether a bind would take an open conversation away from another session."""
    return (
        before is not None
        and before.target_session != fresh.target_session
        and before.is_open(fresh.bound_at)
    )


# ------------------------------------------------------------------ look-ups


def of_session(bindings: Iterable[Binding], key: str) -> list[Binding]:
    """Return the bindings of exactly this session."""
    return [one for one in bindings if one.target_session == key]


def on_channel(bindings: Iterable[Binding], key: str, channel: str, account: str) -> list[Binding]:
    """Return the bindings of this session on one account of a channel, in every status."""
    return [
        one
        for one in of_session(bindings, key)
        if one.conversation.account_key == (channel, account)
    ]


def place_of(bindings: Iterable[Binding], key: str) -> Binding | None:
    """Return where this session is shown: its first binding that has not ended."""
    return next((one for one in of_session(bindings, key) if one.ended_at is None), None)


def has_moved(bindings: Iterable[Binding], ended: Binding) -> bool:
    """Return whether the session of an ended binding has another one in the same account now."""
    found = on_channel(bindings, ended.target_session, *ended.conversation.account_key)
    return any(one.ended_at is None for one in found)


def of_conversation(bindings: Mapping[str, Binding], conversation: Conversation) -> Binding | None:
    """Return the binding of a conversation, in any status."""
    return bindings.get(binding_id(normalise(conversation)))


# ------------------------------------------------------------------ words


def duration_label(seconds: float) -> str:
    """Return a window in words: disabled, under a minute, whole hours, else minutes."""
    if seconds <= 0:
        return "disabled"
    minutes = int(seconds // 60)
    if minutes < 1:
        return "<1m"
    return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"


def farewell(binding: Binding) -> str:
    """Return the last words for the conversation, by the reason; empty if it is gone."""
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
    """Return a title of at most 100 characters: a mark, then the label, agent or `agent`."""
    words = " ".join((label.strip() or agent.strip() or "agent").split())
    return f"{mark} {words}".strip()[:100]


def summary_of(bindings: Sequence[Binding], now_s: float) -> dict[str, int]:
    """Return how many bindings are active, ending, ended, and active past their end."""
    found = {str(status): 0 for status in BindingStatus} | {"expired": 0}
    for one in bindings:
        found[str(one.status)] += 1
        found["expired"] += one.status is BindingStatus.ACTIVE and one.is_expired(now_s)
    return found


METADATA_MAX = 50


def parse_target_kind(text: str) -> TargetKind:
    """Parse the kind of a target. `acp`, which other systems have, is an error of its own slug."""
    if text == "acp":
        raise InvalidInputError(
            "kind",
            text,
            "a kind that can be bound yet",
            hint="one of " + ", ".join(TargetKind),
            slug="target_kind_deferred",
        )
    if text not in tuple(TargetKind):
        raise InvalidInputError("kind", text, "one of " + ", ".join(TargetKind))
    return TargetKind(text)


_SECRET_KEY = re.compile(r"token|secret|password|passwd|api_?key|authorization|webhook_?url", re.I)
SECRET_TEXT = re.compile(
    r"(?i)\bbearer\s+\S{8,}|/webhooks/\d+/[\w-]{20,}|\b(?:gh[pousr]_|xox[abprs]-|sk-)[\w-]{16,}"
    r"|\bAKIA[0-9A-Z]{16}\b|[\w-]{23,28}\.[\w-]{6}\.[\w-]{27,}"
)
"""Tokens by their form. Some secrets have no such form."""


def check_metadata(data: object) -> dict[str, Any]:
    """Check the metadata that an adapter keeps with a binding; return a clean copy.

    Raises InvalidInputError (`secret_in_metadata`) for a secret. A key that ends in `_ref`, `_env`,
    `_file` or `_id` names where a secret is, and holds none.
    """
    checked = clean(data, "metadata")
    if not isinstance(checked, dict):
        raise InvalidInputError("metadata", data, "a JSON object")
    if len(checked) > METADATA_MAX:
        raise InvalidInputError("metadata", "…", f"at most {METADATA_MAX} keys")
    _refuse_secrets("metadata", checked)
    return checked


def _refuse_secrets(where: str, value: Any) -> None:
    hint = "store the name of a variable or file that holds it, under a key that ends in _ref"
    expected = "free of secrets: bindings are read by people and programs"
    if isinstance(value, dict):
        for key, item in value.items():
            named = key.lower().endswith(("_ref", "_env", "_file", "_id"))
            if _SECRET_KEY.search(key) and not named and item not in (None, "", False):
                raise InvalidInputError(
                    f"{where}.{key}", "…", expected, hint=hint, slug="secret_in_metadata"
                )
            _refuse_secrets(f"{where}.{key}", item)
    elif isinstance(value, list):
        for item in value:
            _refuse_secrets(where, item)
    elif isinstance(value, str) and SECRET_TEXT.search(value):
        raise InvalidInputError(where, "…", expected, hint=hint, slug="secret_in_metadata")


def render_binding(binding: Binding) -> dict[str, Any]:
    """Return the binding as `bindings.json` and `--json` have it."""
    return {
        **binding.unknown,
        "binding_id": binding.id,
        "target_session_key": binding.target_session,
        "target_kind": str(binding.target_kind),
        "conversation": render_conversation(binding.conversation),
        "placement": str(binding.placement),
        "status": str(binding.status),
        "bound_at": binding.bound_at,
        "earlier_session_keys": list(binding.earlier_sessions),
        "bound_by": binding.bound_by,
        "last_activity_at": binding.last_activity_at,
        "idle_timeout_s": binding.idle_timeout_s,
        "max_age_s": binding.max_age_s,
        "deadline_at": binding.deadline_at,
        "expires_at": binding.expires_at,
        "generation": binding.generation,
        "open_since": binding.open_since,
        "locked": binding.locked,
        "ended_at": binding.ended_at,
        "end_reason": binding.end_reason,
        "metadata": dict(binding.metadata),
    }


_KNOWN = frozenset(render_binding(Binding("", "", TargetKind.SESSION, Conversation("", ""))))


def parse_binding(data: object) -> Binding | None:
    """Parse a binding from its stored form; return None without a session or conversation.

    A record with one absolute expiry and no windows becomes one with a greatest age and no idle
    time. Missing activity becomes the time of binding, a missing author the system.
    """
    if not isinstance(data, Mapping):
        return None
    try:
        conversation = parse_conversation(data.get("conversation"))
    except InvalidInputError:
        return None
    session = str(data.get("target_session_key") or "")
    if not session or not conversation.id:
        return None
    bound_at = float(data.get("bound_at") or 0.0)
    idle, age = data.get("idle_timeout_s"), data.get("max_age_s")
    if idle is None and age is None:
        expiry = float(data.get("expires_at") or 0.0)
        idle, age = 0.0, max(expiry - bound_at, 0.0) if expiry else 0.0
    ended, deadline = data.get("ended_at"), data.get("deadline_at")
    return Binding(
        id=binding_id(conversation),
        target_session=session,
        target_kind=TargetKind(data.get("target_kind") or TargetKind.SESSION),
        conversation=conversation,
        status=BindingStatus(data.get("status") or BindingStatus.ACTIVE),
        placement=Placement(data.get("placement") or Placement.CURRENT),
        bound_at=bound_at,
        last_activity_at=float(data.get("last_activity_at") or bound_at),
        idle_timeout_s=max(float(idle or 0.0), 0.0),
        max_age_s=max(float(age or 0.0), 0.0),
        deadline_at=None if deadline is None else float(deadline),
        generation=str(data.get("generation") or ""),
        open_since=float(data.get("open_since") or bound_at),
        earlier_sessions=tuple(str(key) for key in data.get("earlier_session_keys") or ()),
        bound_by=str(data.get("bound_by") or "system"),
        metadata=dict(data.get("metadata") or {}),
        locked=bool(data.get("locked")),
        ended_at=None if ended is None else float(ended),
        end_reason=str(data.get("end_reason") or ""),
        unknown={key: value for key, value in data.items() if key not in _KNOWN},
    )
