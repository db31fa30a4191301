"""Bind: give a session a conversation, one that is there or a new one.

Commit point: the rename of `bindings.json`; the fact in the session's timeline follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from vyane_cli.channels.port import Conversation, Placement
from vyane_cli.channels.references import binding_id, normalise
from vyane_cli.conversations import binding, bindings
from vyane_cli.conversations.binding import Binding, TargetKind, Windows
from vyane_cli.conversations.binding_forms import check_metadata, parse_target_kind
from vyane_cli.conversations.bindings_2 import find_session, note
from vyane_cli.conversations.channels import find_adapter, is_set_up
from vyane_cli.errors import ConflictError, InvalidInputError, RefusedError
from vyane_cli.sessions.identity import login_name
from vyane_cli.sessions.session import LogicalSession
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import files
from vyane_cli.storage.locks import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


class Wanted(NamedTuple):
    """What somebody asks to be bound. Windows are in seconds; None: what the settings say."""

    session: str
    conversation: Conversation
    kind: str = ""
    placement: str = ""
    ttl_s: float | None = None
    idle_s: float | None = None
    max_age_s: float | None = None
    expires_at: float | None = None
    metadata: Mapping[str, Any] = {}
    by: str = ""


def bind(runtime: Runtime, wanted: Wanted) -> Binding:
    """Bind a session to a conversation. On disk when this returns.

    NotFoundError for an unknown session; RefusedError when the channel has no adapter, cannot do
    it, or made no conversation.
    """
    from vyane_cli.conversations.open import begin, check_conversation, make_conversation

    session, worker = find_session(runtime, wanted.session)
    conversation = normalise(wanted.conversation)
    placement = _placement(wanted.placement, conversation)
    kind = parse_target_kind(
        wanted.kind or (TargetKind.SUBAGENT if _is_child(worker) else TargetKind.SESSION)
    )
    metadata = check_metadata(dict(wanted.metadata))
    _check_windows(wanted, runtime.clock().at)
    find_adapter(runtime, conversation.channel)
    ready = is_set_up(runtime, conversation.channel, conversation.account)
    place = None
    if placement is Placement.CHILD:
        place = make_conversation(
            runtime, conversation, session, worker, placement, _windows(runtime, wanted, None)
        )
        conversation = place.conversation
    elif not conversation.id:
        raise InvalidInputError(
            "conversation",
            "",
            "given",
            missing=True,
            hint="its id; or --placement child for a new one",
        )
    fresh = _record(runtime, wanted, session, kind, placement, conversation, metadata)
    before = bindings.load(runtime.layout).get(fresh.id)
    fresh = binding.rebind(before, fresh)
    if place is None and ready and not binding.goes_on(before, fresh):
        taken = before if binding.is_of_another(before, fresh) else None
        with files.before_commit():
            place = check_conversation(runtime, fresh, taken)
    if place is not None and place.made:
        with files.before_commit():
            begin(runtime, fresh, place)
    bound = keep(runtime, fresh, worker)
    if place is not None and not place.made:
        begin(runtime, bound, place)
    return bound


def keep(runtime: Runtime, fresh: Binding, worker: Worker | None, *, free: bool = False) -> Binding:
    """Store a new record over whatever was bound at its conversation, and note it.

    With `free` only where no other session has its place: else ConflictError.
    """

    def edit(bindings: bindings.Bindings) -> Binding:
        before = bindings.get(fresh.id)
        if free and binding.is_of_another(before, fresh):
            raise ConflictError(f"{fresh.conversation.id} is the place of another session")
        bindings.pop(fresh.id, None)
        bindings[fresh.id] = binding.rebind(before, fresh)
        return bindings[fresh.id]

    with runtime.held((Kind.BINDINGS, "")):
        bound = bindings.change(runtime.layout, edit)
    note(runtime, bound, worker)
    return bound


def _record(
    runtime: Runtime,
    wanted: Wanted,
    session: LogicalSession,
    kind: TargetKind,
    placement: Placement,
    conversation: Conversation,
    metadata: Mapping[str, Any],
) -> Binding:
    at = runtime.clock().at
    before = bindings.load(runtime.layout).get(binding_id(conversation))
    same = before if before is not None and before.target_session == session.id else None
    windows = _windows(runtime, wanted, same)
    return Binding(
        binding_id(conversation),
        session.id,
        kind,
        conversation,
        placement=placement,
        bound_at=at,
        last_activity_at=at,
        idle_timeout_s=windows.idle_s,
        max_age_s=windows.max_age_s,
        deadline_at=_deadline(wanted, same, at),
        generation=runtime.entropy(8).hex(),
        bound_by=wanted.by or login_name(runtime.environ),
        metadata=metadata,
    )


def _deadline(wanted: Wanted, same: Binding | None, at: float) -> float | None:
    """The absolute end; one that the same session has is kept while it lies ahead."""
    if wanted.ttl_s == 0:
        return at
    before = same.deadline_at if same is not None else None
    ahead = before is not None and before > at and wanted.ttl_s is None
    return wanted.expires_at or (before if ahead else None)


def _windows(runtime: Runtime, wanted: Wanted, same: Binding | None) -> Windows:
    """What is asked for, else what a binding of the same session has, else the settings."""
    idle = wanted.idle_s if wanted.idle_s is not None else same.idle_timeout_s if same else None
    age = wanted.ttl_s if wanted.ttl_s else wanted.max_age_s
    age = age if age is not None else same.max_age_s if same else None
    config = runtime.config
    return Windows(
        float(config["bindings.idle_s"] if idle is None else idle),
        float(config["bindings.max_age_s"] if age is None else age),
    )


def _placement(given: str, conversation: Conversation) -> Placement:
    if not given:
        return Placement.CURRENT if conversation.id else Placement.CHILD
    if given not in tuple(Placement):
        raise InvalidInputError("placement", given, "one of " + ", ".join(Placement))
    return Placement(given)


def _check_windows(wanted: Wanted, now_s: float) -> None:
    for field, value in (
        ("ttl", wanted.ttl_s), ("idle", wanted.idle_s), ("max-age", wanted.max_age_s)
    ):  # fmt: skip
        if value is not None and not 0 <= value <= binding.LATEST - now_s:
            raise InvalidInputError(field, value, "0 or more, and no later than the year 9999")
    end = wanted.expires_at
    if end is not None and not now_s < end <= binding.LATEST:
        raise RefusedError(
            f"expires-at: {end:.0f} is not in the future",
            slug="create_failed",
            hint="Unix seconds, later than now and no later than the year 9999",
        )


def _is_child(worker: Worker | None) -> bool:
    return worker is not None and bool(worker.parent_worker_id)
