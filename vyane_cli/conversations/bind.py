"""Bind and sweep: give a session an existing or a new conversation, and end expired bindings.

Commit point of a bind: the rename of `bindings.json`; the fact in the session's timeline follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vyane_cli.channels.port import ChannelVerdict, Conversation, Placement, binding_id, normalise
from vyane_cli.conversations import binding
from vyane_cli.conversations import bindings as book
from vyane_cli.conversations.binding import (
    Binding,
    BindingStatus,
    EndReason,
    TargetKind,
    Windows,
    check_metadata,
    parse_target_kind,
    render_binding,
)
from vyane_cli.conversations.bindings import end_one, find_session, note, set_locked, touch
from vyane_cli.conversations.channels import find_adapter, is_set_up
from vyane_cli.conversations.run import Run
from vyane_cli.conversations.thread import lose
from vyane_cli.errors import ConflictError, InvalidInputError, RefusedError, VyaneError
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.values import InJson
from vyane_cli.sessions import markers, registry
from vyane_cli.sessions.identity import login_name
from vyane_cli.sessions.session import LogicalSession
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import files
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


class RequestedBinding(NamedTuple):
    """A binding that somebody asks for. Windows are in seconds; None takes the setting."""

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


def bind(home: Home, wanted: RequestedBinding) -> Binding:
    """Bind a session to a conversation. The binding is on disk when this returns.

    Raises NotFoundError for an unknown session; RefusedError when the channel has no adapter, does
    not support the binding, or made no conversation.
    """
    from vyane_cli.conversations.open import begin, check_conversation, make_conversation

    session, worker = find_session(home, wanted.session)
    conversation = normalise(wanted.conversation)
    placement = _placement(wanted.placement, conversation)
    kind = parse_target_kind(
        wanted.kind or (TargetKind.SUBAGENT if _is_child(worker) else TargetKind.SESSION)
    )
    metadata = check_metadata(dict(wanted.metadata))
    _check_windows(wanted, home.clock().at)
    find_adapter(home, conversation.channel)
    ready = is_set_up(home, conversation.channel, conversation.account)
    place = None
    if placement is Placement.CHILD:
        place = make_conversation(
            home, conversation, session, worker, placement, _windows(home, wanted, None)
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
    fresh = _record(home, wanted, session, kind, placement, conversation, metadata)
    before = book.load(home.layout).get(fresh.id)
    fresh = binding.rebind(before, fresh)
    if place is None and ready and not binding.goes_on(before, fresh):
        taken = before if binding.is_of_another(before, fresh) else None
        with files.before_commit():
            place = check_conversation(home, fresh, taken)
    if place is not None and place.made:
        with files.before_commit():
            begin(home, fresh, place)
    bound = keep(home, fresh, worker)
    if place is not None and not place.made:
        begin(home, bound, place)
    return bound


def keep(home: Home, fresh: Binding, worker: Worker | None, *, free: bool = False) -> Binding:
    """Store a new binding in place of any earlier one of its conversation, and note it.

    With `free`, raises ConflictError if the conversation is open for another session.
    """

    def edit(bindings: book.Bindings) -> Binding:
        before = bindings.get(fresh.id)
        if free and binding.is_of_another(before, fresh):
            raise ConflictError(f"{fresh.conversation.id} is the place of another session")
        bindings.pop(fresh.id, None)
        bindings[fresh.id] = binding.rebind(before, fresh)
        return bindings[fresh.id]

    with home.held((LockKind.BINDINGS, "")):
        bound = book.change(home.layout, edit)
    note(home, bound, worker)
    return bound


def _record(
    home: Home,
    wanted: RequestedBinding,
    session: LogicalSession,
    kind: TargetKind,
    placement: Placement,
    conversation: Conversation,
    metadata: Mapping[str, Any],
) -> Binding:
    at = home.clock().at
    before = book.load(home.layout).get(binding_id(conversation))
    same = before if before is not None and before.target_session == session.id else None
    windows = _windows(home, wanted, same)
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
        generation=home.entropy(8).hex(),
        bound_by=wanted.by or login_name(home.environ),
        metadata=metadata,
    )


def _deadline(wanted: RequestedBinding, same: Binding | None, at: float) -> float | None:
    """Return the absolute end of a binding, in Unix seconds; None if it has none.

    A ttl of 0 ends the binding now. Without a new end or ttl, the same session's earlier end is
    kept while it is in the future.
    """
    if wanted.ttl_s == 0:
        return at
    before = same.deadline_at if same is not None else None
    ahead = before is not None and before > at and wanted.ttl_s is None
    return wanted.expires_at or (before if ahead else None)


def _windows(home: Home, wanted: RequestedBinding, same: Binding | None) -> Windows:
    """Return the windows asked for, else those of the session's binding, else the settings'."""
    idle = wanted.idle_s if wanted.idle_s is not None else same.idle_timeout_s if same else None
    age = wanted.ttl_s if wanted.ttl_s else wanted.max_age_s
    age = age if age is not None else same.max_age_s if same else None
    config = home.config
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


def _check_windows(wanted: RequestedBinding, now_s: float) -> None:
    for name, value in (
        ("ttl", wanted.ttl_s), ("idle", wanted.idle_s), ("max-age", wanted.max_age_s)
    ):  # fmt: skip
        if value is not None and not 0 <= value <= binding.LATEST - now_s:
            raise InvalidInputError(name, value, "0 or more, and no later than the year 9999")
    end = wanted.expires_at
    if end is not None and not now_s < end <= binding.LATEST:
        raise RefusedError(
            f"expires-at: {end:.0f} is not in the future",
            slug="create_failed",
            hint="Unix seconds, later than now and no later than the year 9999",
        )


def _is_child(worker: Worker | None) -> bool:
    return worker is not None and bool(worker.parent_worker_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBinding:
    """A binding that could not be checked, and why."""

    binding_id: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """The result of a sweep."""

    looked: int
    ended: tuple[Binding, ...] = field(metadata={InJson: InJson(form=render_binding)})
    kept: tuple[KeptBinding, ...]


def sweep(home: Home, clock: Clock, *, probe: bool = False) -> Swept:
    """End the bindings that have expired or whose session is missing.

    With `probe` the channel is also asked for each conversation; without it nothing is sent. The
    caller of a round passes its own reading of the clock.
    """
    ended: list[Binding] = []
    kept: list[KeptBinding] = []
    left: dict[tuple[str, str], list[Binding]] = {}
    active = [one for one in book.load(home.layout).values() if one.status is BindingStatus.ACTIVE]
    for one in active:
        try:
            reason = _why_over(home, one, clock)
        except VyaneError as error:
            kept.append(_kept(one, error.slug, error.message))
            continue
        if reason is not None:
            timed = reason is not EndReason.NO_SESSION
            still = (lambda now: now.is_expired(clock.at)) if timed else None
            done = end_one(home, one, reason, still=still)
            ended += [done] if done is not None else []
        elif probe and is_set_up(home, *one.conversation.account_key):
            left.setdefault(one.conversation.account_key, []).append(one)
    for where, bindings in left.items():
        try:
            with Run(home, *where) as run:
                for one in bindings:
                    _probe(run, one, ended, kept)
        except VyaneError as error:
            kept += [_kept(one, error.slug, error.message) for one in bindings]
    return Swept(looked=len(active), ended=tuple(ended), kept=tuple(kept))


def _why_over(home: Home, binding: Binding, clock: Clock) -> EndReason | None:
    """Return why a binding must end; None if it stays.

    Activity of the session counts as activity of the binding.
    """
    session = registry.load_logical_session(home.layout, binding.target_session)
    if session is None:
        return EndReason.NO_SESSION
    if not binding.is_expired(clock.at):
        return None
    current = registry.read_current(home.layout, session.worker)
    beat = markers.modified(home.layout.beat(current)) if current else 0.0
    if beat > binding.last_activity_at:
        binding = touch(home, binding.id, at=beat)
    return binding.expiry_reason(clock.at)


def _probe(run: Run, binding: Binding, ended: list[Binding], kept: list[KeptBinding]) -> None:
    """Probe a binding's conversation, and record the outcome.

    GONE ends the binding without last words; LOCKED and DONE record whether the conversation is
    locked. After any other outcome the binding is kept.
    """
    fault = run.blocked
    if fault is not None:
        kept.append(_kept(binding, fault.reason, fault.detail))
        return
    outcome = run.learn(run.channel.probe(binding.conversation))
    run.keep_memory()
    if outcome.verdict is ChannelVerdict.GONE:
        done = lose(run, binding)
        ended += [done] if done is not None else []
    elif outcome.verdict in (ChannelVerdict.DONE, ChannelVerdict.LOCKED):
        if binding.locked != (outcome.verdict is ChannelVerdict.LOCKED):
            set_locked(run.home, binding, outcome.verdict is ChannelVerdict.LOCKED)
    else:
        kept.append(_kept(binding, outcome.reason, outcome.detail))


def _kept(binding: Binding, reason: str, detail: str) -> KeptBinding:
    return KeptBinding(binding_id=binding.id, reason=reason, detail=detail)
