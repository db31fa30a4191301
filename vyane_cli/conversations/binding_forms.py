"""A binding as JSON: the stored form, and what may be put into it from outside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from vyane_cli.channels.port import Conversation, Placement
from vyane_cli.channels.references import binding_id, parse_conversation, render_conversation
from vyane_cli.conversations.binding import Binding, BindingStatus, TargetKind
from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.schemas import clean

METADATA_MAX = 50


def parse_target_kind(text: str) -> TargetKind:
    """The kind by its name; what other systems have besides is refused by its own slug."""
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
"""Tokens by their form: not every secret has one."""


def check_metadata(data: object) -> dict[str, Any]:
    """What an adapter keeps with a binding; a secret is refused (`secret_in_metadata`).

    A key that ends in `_ref`, `_env`, `_file` or `_id` names where a secret is, and holds none.
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
    """As `bindings.json` and `--json` have it."""
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
    """A record from its stored form; None for one without session or conversation.

    A record of one absolute expiry and no windows becomes one with a greatest age and no idle
    time. Missing activity is the time of binding, a missing author is the system.
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
        binding_id(conversation),
        session,
        TargetKind(data.get("target_kind") or TargetKind.SESSION),
        conversation,
        BindingStatus(data.get("status") or BindingStatus.ACTIVE),
        Placement(data.get("placement") or Placement.CURRENT),
        bound_at,
        float(data.get("last_activity_at") or bound_at),
        max(float(idle or 0.0), 0.0),
        max(float(age or 0.0), 0.0),
        None if deadline is None else float(deadline),
        str(data.get("generation") or ""),
        float(data.get("open_since") or bound_at),
        tuple(str(key) for key in data.get("earlier_session_keys") or ()),
        str(data.get("bound_by") or "system"),
        dict(data.get("metadata") or {}),
        bool(data.get("locked")),
        None if ended is None else float(ended),
        str(data.get("end_reason") or ""),
        {key: value for key, value in data.items() if key not in _KNOWN},
    )
