"""Bindings: look up, touch, end. Commit point: the rename of `bindings.json`.

The fact in the session's timeline follows it: a crash in between leaves a binding without its
fact, never a fact of a binding that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vyane_cli.channels.port import Conversation
from vyane_cli.conversations import binding, bindings
from vyane_cli.conversations.binding import Binding, BindingStatus
from vyane_cli.conversations.channels import is_set_up
from vyane_cli.errors import InvalidInputError, NotFoundError, VyaneError
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.ids import is_logical_session_id
from vyane_cli.kernel.text import nearest_names
from vyane_cli.sessions import registry
from vyane_cli.sessions.facts import append_fact
from vyane_cli.sessions.session import LogicalSession
from vyane_cli.sessions.worker import Worker, find_worker
from vyane_cli.storage.locks import Kind
from vyane_cli.timeline.events import EventKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


def find_session(runtime: Runtime, who: str) -> tuple[LogicalSession, Worker | None]:
    """The logical session of a vs-id or of a worker, with the worker that it has now."""
    workers = registry.Registry(runtime.layout)
    key = who if who.startswith("vs-") else find_worker(who, workers.listing()).logical_session_id
    session = registry.load_logical_session(runtime.layout, key) if key else None
    if session is None:
        raise NotFoundError("logical session", who)
    return session, workers.workers.get(session.worker)


def note(runtime: Runtime, binding: Binding, worker: Worker | None = None) -> None:
    """The change as a fact in the session's timeline; what is damaged there holds up nothing."""
    clock: Clock = runtime.clock()
    conversation = binding.conversation
    fact = {
        "binding": binding.id,
        "status": str(binding.status),
        "conversation": ":".join((conversation.channel, conversation.account, conversation.id)),
    }
    if binding.end_reason:
        fact["reason"] = binding.end_reason
    try:
        if worker is None:
            session = registry.load_logical_session(runtime.layout, binding.target_session)
            known = registry.Registry(runtime.layout).workers
            worker = known.get(session.worker) if session is not None else None
        if worker is None:
            return
        with runtime.held((Kind.TIMELINE, binding.target_session)):
            append_fact(
                runtime, worker.id, binding.target_session, EventKind.BINDING_CHANGED, fact, clock
            )
    except VyaneError:
        return


# ------------------------------------------------------------------ look-ups


def list_bindings(
    runtime: Runtime, *, session: str = "", everything: bool = False
) -> list[Binding]:
    """The bindings that have not ended, or all; of exactly one session if its key is given."""
    found = list(bindings.load(runtime.layout).values())
    if session:
        found = binding.of_session(found, exact_key(runtime, session))
    return [one for one in found if everything or one.status is not BindingStatus.ENDED]


def exact_key(runtime: Runtime, text: str) -> str:
    """The key that a whole vs-id, worker id or worker name stands for. A session may be gone.

    NotFoundError names the nearest workers.
    """
    workers = registry.Registry(runtime.layout).listing()
    for worker in workers:
        if text in (worker.id, worker.name):
            return worker.logical_session_id
    if not is_logical_session_id(text):
        raise NotFoundError("session", text, nearest_names(text, [one.name for one in workers]))
    return text


def resolve_conversation(runtime: Runtime, conversation: Conversation) -> Binding | None:
    """The binding that a conversation has now; one whose end has come is taken away by this."""
    now_s = runtime.clock().at
    found = binding.of_conversation(bindings.load(runtime.layout), conversation)
    if found is None or found.status is not BindingStatus.ACTIVE:
        return None
    if not found.is_expired(now_s):
        return found
    end_one(runtime, found, str(found.expiry_reason(now_s)))
    return None


# ------------------------------------------------------------------ changes


def touch(
    runtime: Runtime,
    binding_id: str,
    *,
    at: float | None = None,
    idle_s: float | None = None,
    max_age_s: float | None = None,
    forced: bool = True,
) -> Binding:
    """Note activity, or set other windows. Activity that is not forced is kept every 15 s."""
    now_s = runtime.clock().at
    at = now_s if at is None else at
    if not 0 <= at <= binding.LATEST:
        raise InvalidInputError("at", at, "a time in Unix seconds")

    def edit(bindings: bindings.Bindings) -> Binding:
        before = _one(bindings, binding_id)
        if not forced and at - before.last_activity_at < binding.TOUCH_EVERY_S:
            return before
        after = binding.set_windows(
            binding.touch(before, at), now_s, idle_s=idle_s, max_age_s=max_age_s
        )
        bindings[before.id] = after
        return after

    with runtime.held((Kind.BINDINGS, "")):
        return bindings.change(runtime.layout, edit)


def unbind(
    runtime: Runtime, *, binding_id: str = "", session: str = "", reason: str
) -> list[Binding]:
    """End the bindings of an id or of a session; the records that it ended."""
    if not (binding_id or session):
        raise InvalidInputError(
            "id", "", "given", missing=True, hint="--id BINDING or --session SESSION"
        )
    if not reason.strip():
        raise InvalidInputError("reason", reason, "given: why is it unbound?", missing=True)
    if len(reason) > binding.REASON_MAX:
        raise InvalidInputError("reason", reason, f"at most {binding.REASON_MAX} characters")
    found = list(bindings.load(runtime.layout).values())
    if binding_id:
        chosen = [_one({one.id: one for one in found}, binding_id)]
    else:
        chosen = binding.of_session(found, exact_key(runtime, session))
    ended = [end_one(runtime, one, reason.strip()) for one in chosen if one.ended_at is None]
    return [one for one in ended if one is not None]


def end_one(
    runtime: Runtime,
    seen: Binding,
    reason: str,
    *,
    status: BindingStatus | None = None,
    still: Any = None,
) -> Binding | None:
    """End one binding if it is the one that was seen, and `still` says so of it as it is now.

    It is `ending` while its last words are to be shown, `ended` where they cannot be. None: it was
    touched, ended or bound anew meanwhile.
    """
    channel, account = seen.conversation.account_key
    if status is None:
        ready = is_set_up(runtime, channel, account) and binding.farewell(
            seen._replace(end_reason=reason)
        )
        status = BindingStatus.ENDING if ready else BindingStatus.ENDED
    now_s = runtime.clock().at

    def edit(bindings: bindings.Bindings) -> Binding | None:
        now = bindings.get(seen.id)
        if now is None or now.generation != seen.generation:
            return None
        if status not in binding.TRANSITIONS[now.status] or (still is not None and not still(now)):
            return None
        bindings[now.id] = binding.end(now, status, reason, now_s)
        return bindings[now.id]

    with runtime.held((Kind.BINDINGS, "")):
        ended = bindings.change(runtime.layout, edit)
    if ended is not None:
        note(runtime, ended)
    return ended


def set_locked(runtime: Runtime, seen: Binding, locked: bool) -> None:
    """Note that people closed the conversation to us, or opened it again."""

    def edit(bindings: bindings.Bindings) -> None:
        now = bindings.get(seen.id)
        if now is not None and now.generation == seen.generation:
            bindings[now.id] = now._replace(locked=locked)

    with runtime.held((Kind.BINDINGS, "")):
        bindings.change(runtime.layout, edit)


def _one(bindings: Mapping[str, Binding], text: str) -> Binding:
    exact = bindings.get(text)
    found = [exact] if exact else [one for key, one in bindings.items() if key.startswith(text)]
    if len(text) < 4 or len(found) != 1 or found[0] is None:
        raise NotFoundError("binding", text, hint="`vyane bindings list --all` shows their ids")
    return found[0]
