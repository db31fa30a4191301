"""Topology: the workers as a tree, with what each does and its last progress. No change."""

import os
from collections.abc import Mapping
from typing import Any

from vyane_cli.core.bindings import place_of
from vyane_cli.core.cancels import children_of
from vyane_cli.core.mailbox import Entry, render_entry
from vyane_cli.core.sessions import LogicalSession, parse_logical_session, render_logical_session
from vyane_cli.core.workers import Worker, find_worker
from vyane_cli.errors import CorruptStateError, NotFoundError
from vyane_cli.operations.boxes import boxes_of
from vyane_cli.operations.identity import own_worker
from vyane_cli.operations.liveness import describe_worker
from vyane_cli.store import bindings as bindings_file
from vyane_cli.store import document, files, inbox, mirrors, registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.runtime import Runtime


def topology(runtime: "Runtime", who: str = "", *, messages: bool = False) -> dict[str, Any]:
    """The tree below a worker or a logical session; else below one's own; else all trees.

    `logical`: the session's document; `workers`: its workers, each with its `children`;
    `children`: logical sessions that were spawned from it; `discord_routing`: where it is shown.
    """
    book = registry.Registry(runtime.layout)
    roots, logical_id = _roots(runtime, book, who)
    below = children_of(book.listing())
    shown = [_tree(runtime, worker, book.workers, below) for worker in roots]
    logical = registry.load_logical_session(runtime.layout, logical_id) if logical_id else None
    found: dict[str, Any] = {
        "logical": render_logical_session(logical) if logical is not None else None,
        "workers": shown,
        "children": [
            render_logical_session(one)
            for one in _logical_sessions(runtime)
            if one.parent_logical_id == (logical_id or None)
        ],
        "discord_routing": routing_of(runtime, logical, roots) if logical else {},
    }
    if messages:
        found["messages"] = _messages(runtime, shown)
    return found


def _roots(runtime: "Runtime", book: registry.Registry, who: str) -> tuple[list[Worker], str]:
    """The workers at the top, and the logical session that is meant; empty for all trees."""
    if who.startswith("vs-"):
        if registry.load_logical_session(runtime.layout, who) is None:
            raise NotFoundError("logical session", who)
        inside = [worker for worker in book.listing() if worker.logical_session_id == who]
        ids = {worker.id for worker in inside}
        return [worker for worker in inside if worker.parent_worker_id not in ids], who
    worker = find_worker(who, book.listing()) if who else own_worker(runtime, book)
    if worker is not None:
        return [worker], worker.logical_session_id
    tops = [one for one in book.listing() if one.parent_worker_id not in book.workers]
    with_children = {link for one in book.listing() if (link := one.parent_worker_id)}
    return [one for one in tops if not one.final or one.id in with_children], ""


def _tree(
    runtime: "Runtime",
    top: Worker,
    workers: Mapping[str, Worker],
    below: Mapping[str, list[str]],
) -> dict[str, Any]:
    """A worker with all that is below it. A cycle is walked once."""
    root = _node(runtime, top)
    seen, queue = {top.id}, [(top, root)]
    for worker, node in queue:
        links = dict.fromkeys((*worker.children_worker_ids, *below.get(worker.id, ())))
        for link in links:
            if link in workers and link not in seen:
                seen.add(link)
                child = _node(runtime, workers[link])
                node["children"].append(child)
                queue.append((workers[link], child))
    return root


def _node(runtime: "Runtime", worker: Worker) -> dict[str, Any]:
    return {**describe_worker(runtime, worker), "children": []}


def routing_of(runtime: "Runtime", logical: LogicalSession, roots: list[Worker]) -> dict[str, Any]:
    """Where a session is shown, derived from the bindings; empty when nowhere."""
    bindings = bindings_file.load(runtime.layout).values()
    own = place_of(bindings, logical.id)
    if own is None:
        return {}
    state = mirrors.load_thread(runtime.layout, own)
    overview = state.slots.get("overview") if state is not None else None
    ids = {worker.id for worker in roots}
    children = {
        worker.logical_session_id: worker.id
        for worker in registry.Registry(runtime.layout).listing()
        if worker.parent_worker_id in ids
    }
    return {
        "primary_channel_id": own.conversation.channel,
        "primary_thread_id": own.conversation.id,
        "forum_channel_id": own.conversation.parent or None,
        "child_thread_ids": {
            children[one.target_session]: one.conversation.id
            for one in bindings
            if one.target_session in children
            and one.ended_at is None
            and one.conversation.account_key == own.conversation.account_key
        },
        "summary_message_id": overview.message if overview is not None else None,
    }


def _logical_sessions(runtime: "Runtime") -> list[LogicalSession]:
    found = []
    folder = runtime.layout("logical-sessions")
    for name in files.json_names(folder):
        try:
            data = document.load(os.path.join(folder, name + ".json"))
            found.append(parse_logical_session(data or {}))
        except (CorruptStateError, KeyError, TypeError, ValueError):
            continue  # `doctor` names it
    return found


def _messages(runtime: "Runtime", trees: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What waits or was last settled in the inboxes of these workers, by time."""
    entries: list[Entry] = []
    queue = list(trees)
    for node in queue:
        queue += node["children"]
        for path in boxes_of(runtime, node["id"], node["logical_session_id"]):
            entries += inbox.read(path).mailbox.entries
    entries.sort(key=lambda entry: (entry.message.ts, entry.message.id))
    return [render_entry(entry) for entry in entries]
