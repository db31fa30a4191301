"""`bindings.json`: every binding, under one lock.

Owner: bind, unbind, touch, sweep and the mirror. Commit point: the rename. A crash leaves the old
or the new file. Each change is applied to what was read under the lock, so that no change undoes
another. Rows without session or conversation are dropped; a damaged file raises an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from vyane_cli.channels.port import Conversation
from vyane_cli.conversations import binding
from vyane_cli.conversations.binding import Binding, BindingStatus, parse_binding, render_binding
from vyane_cli.conversations.channels import is_set_up
from vyane_cli.errors import InvalidInputError, NotFoundError, StorageError, VyaneError
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.ids import is_logical_session_id
from vyane_cli.kernel.text import nearest_names
from vyane_cli.sessions import registry
from vyane_cli.sessions.facts import append_fact
from vyane_cli.sessions.session import LogicalSession
from vyane_cli.sessions.worker import Worker, find_worker
from vyane_cli.storage import document
from vyane_cli.storage.layout import Layout
from vyane_cli.storage.locks import LockKind
from vyane_cli.timeline.events import EventKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


T = TypeVar("T")
Bindings = dict[str, Binding]


_LAST_READ: dict[str, tuple[tuple[int, int, int], Bindings]] = {}
"""Content of each file when this process last read it. The values are never changed in place."""


def load(layout: Layout) -> Bindings:
    """Return every binding by its id, in the order of binding. Takes no lock."""
    try:
        found = os.stat(layout.bindings)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StorageError(layout.bindings, error) from error
    stamp = (found.st_ino, found.st_mtime_ns, found.st_size)  # a new file has another inode
    known = _LAST_READ.get(layout.bindings)
    if known is None or known[0] != stamp:
        read = document.load_as(layout.bindings, _parse, "list of bindings") or {}
        known = _LAST_READ[layout.bindings] = (stamp, read)
    return dict(known[1])


def change(layout: Layout, edit: Callable[[Bindings], T]) -> T:
    """Let `edit` change the bindings, and save them if it did. The caller holds the bindings' lock.

    The changes are on disk when this returns the result of `edit`. If `edit` raises, nothing
    changes.
    """
    data = document.load(layout.bindings) or {}
    before = document.load_as(layout.bindings, _parse, "list of bindings") or {}
    after = dict(before)
    result = edit(after)
    if after != before:
        rendered = {key: render_binding(one) for key, one in after.items()}
        revision = int(data.get("revision") or 0) + 1
        document.save(
            layout.bindings, {**data, "revision": revision, "bindings": rendered}, layout.root
        )
    return result


def _parse(data: Mapping[str, Any]) -> Bindings:
    rows = data.get("bindings") or {}
    if not isinstance(rows, Mapping):
        raise ValueError("`bindings` is no object")
    found = [one for one in map(parse_binding, rows.values()) if one is not None]
    return {one.id: one for one in sorted(found, key=lambda one: (one.bound_at, one.id))}


def find_session(home: Home, who: str) -> tuple[LogicalSession, Worker | None]:
    """Return the logical session of a vs-id or of a worker, with its present worker."""
    workers = registry.Registry(home.layout)
    key = who if who.startswith("vs-") else find_worker(who, workers.listing()).logical_session_id
    session = registry.load_logical_session(home.layout, key) if key else None
    if session is None:
        raise NotFoundError("logical session", who)
    return session, workers.workers.get(session.worker)


def note(home: Home, binding: Binding, worker: Worker | None = None) -> None:
    """Append the change to the session's timeline as a fact. A VyaneError is ignored."""
    clock: Clock = home.clock()
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
            session = registry.load_logical_session(home.layout, binding.target_session)
            known = registry.Registry(home.layout).workers
            worker = known.get(session.worker) if session is not None else None
        if worker is None:
            return
        with home.held((LockKind.TIMELINE, binding.target_session)):
            append_fact(
                home, worker.id, binding.target_session, EventKind.BINDING_CHANGED, fact, clock
            )
    except VyaneError:
        return


# ------------------------------------------------------------------ look-ups


def list_bindings(home: Home, *, session: str = "", everything: bool = False) -> list[Binding]:
    """Return the bindings that have not ended, or all; of one session if its key is given."""
    found = list(load(home.layout).values())
    if session:
        found = binding.of_session(found, exact_key(home, session))
    return [one for one in found if everything or one.status is not BindingStatus.ENDED]


def exact_key(home: Home, text: str) -> str:
    """Return the session key for a whole vs-id, worker id or worker name.

    The session may be missing. The NotFoundError names the nearest workers.
    """
    workers = registry.Registry(home.layout).listing()
    for worker in workers:
        if text in (worker.id, worker.name):
            return worker.logical_session_id
    if not is_logical_session_id(text):
        raise NotFoundError("session", text, nearest_names(text, [one.name for one in workers]))
    return text


def resolve_conversation(home: Home, conversation: Conversation) -> Binding | None:
    """Return the active binding of a conversation, if any. An expired binding is ended by this."""
    now_s = home.clock().at
    found = binding.of_conversation(load(home.layout), conversation)
    if found is None or found.status is not BindingStatus.ACTIVE:
        return None
    if not found.is_expired(now_s):
        return found
    end_one(home, found, str(found.expiry_reason(now_s)))
    return None


# ------------------------------------------------------------------ changes


def touch(
    home: Home,
    binding_id: str,
    *,
    at: float | None = None,
    idle_s: float | None = None,
    max_age_s: float | None = None,
    forced: bool = True,
) -> Binding:
    """Note activity, or set other windows. Store unforced activity at most every 15 s."""
    now_s = home.clock().at
    at = now_s if at is None else at
    if not 0 <= at <= binding.LATEST:
        raise InvalidInputError("at", at, "a time in Unix seconds")

    def edit(bindings: Bindings) -> Binding:
        before = _one(bindings, binding_id)
        if not forced and at - before.last_activity_at < binding.TOUCH_EVERY_S:
            return before
        after = binding.set_windows(
            binding.touch(before, at), now_s, idle_s=idle_s, max_age_s=max_age_s
        )
        bindings[before.id] = after
        return after

    with home.held((LockKind.BINDINGS, "")):
        return change(home.layout, edit)


def unbind(home: Home, *, binding_id: str = "", session: str = "", reason: str) -> list[Binding]:
    """End the bindings of an id or of a session; return the bindings that this call ended."""
    if not (binding_id or session):
        raise InvalidInputError(
            "id", "", "given", missing=True, hint="--id BINDING or --session SESSION"
        )
    if not reason.strip():
        raise InvalidInputError("reason", reason, "given: why is it unbound?", missing=True)
    if len(reason) > binding.REASON_MAX:
        raise InvalidInputError("reason", reason, f"at most {binding.REASON_MAX} characters")
    found = list(load(home.layout).values())
    if binding_id:
        chosen = [_one({one.id: one for one in found}, binding_id)]
    else:
        chosen = binding.of_session(found, exact_key(home, session))
    ended = [end_one(home, one, reason.strip()) for one in chosen if one.ended_at is None]
    return [one for one in ended if one is not None]


def end_one(
    home: Home,
    seen: Binding,
    reason: str,
    *,
    status: BindingStatus | None = None,
    still: Any = None,
) -> Binding | None:
    """End one binding if it is still the one that was seen, and `still` accepts its present form.

    It becomes `ending` while its last words are still to be shown, else `ended`. Returns None if
    the binding ended, was bound again, or is rejected by `still` meanwhile.
    """
    channel, account = seen.conversation.account_key
    if status is None:
        ready = is_set_up(home, channel, account) and binding.farewell(
            seen._replace(end_reason=reason)
        )
        status = BindingStatus.ENDING if ready else BindingStatus.ENDED
    now_s = home.clock().at

    def edit(bindings: Bindings) -> Binding | None:
        now = bindings.get(seen.id)
        if now is None or now.generation != seen.generation:
            return None
        if status not in binding.TRANSITIONS[now.status] or (still is not None and not still(now)):
            return None
        bindings[now.id] = binding.end(now, status, reason, now_s)
        return bindings[now.id]

    with home.held((LockKind.BINDINGS, "")):
        ended = change(home.layout, edit)
    if ended is not None:
        note(home, ended)
    return ended


def set_locked(home: Home, seen: Binding, locked: bool) -> None:
    """Note that people closed the conversation to vyane, or opened it again."""

    def edit(bindings: Bindings) -> None:
        now = bindings.get(seen.id)
        if now is not None and now.generation == seen.generation:
            bindings[now.id] = now._replace(locked=locked)

    with home.held((LockKind.BINDINGS, "")):
        change(home.layout, edit)


def _one(bindings: Mapping[str, Binding], text: str) -> Binding:
    exact = bindings.get(text)
    found = [exact] if exact else [one for key, one in bindings.items() if key.startswith(text)]
    if len(text) < 4 or len(found) != 1 or found[0] is None:
        raise NotFoundError("binding", text, hint="`vyane bindings list --all` shows their ids")
    return found[0]
