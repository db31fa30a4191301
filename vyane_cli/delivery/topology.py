"""Topology: the workers as a tree, each with its status and its last progress. Read-only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from vyane_cli.children.cancel_rules import children_of
from vyane_cli.delivery.view import WorkerReport, describe_worker
from vyane_cli.errors import CorruptStateError, NotFoundError
from vyane_cli.kernel.values import OMIT, InJson
from vyane_cli.mail import inbox
from vyane_cli.mail.inbox import boxes_of
from vyane_cli.mail.lookup import ShownMessage
from vyane_cli.mail.mailbox import MailEntry
from vyane_cli.sessions import registry
from vyane_cli.sessions.identity import own_worker
from vyane_cli.sessions.session import LogicalSession, parse_logical_session, render_logical_session
from vyane_cli.sessions.worker import Worker, find_worker
from vyane_cli.storage import document, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """A worker with the trees of its children."""

    shown: WorkerReport = field(metadata={InJson: InJson(spread=True)})
    children: tuple[TreeNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The conversations that show a session and its children, from the bindings."""

    primary_channel_id: str
    primary_thread_id: str
    forum_channel_id: str | None
    child_thread_ids: Mapping[str, str]
    """The id of each child's conversation, by the child's worker id."""
    summary_message_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrouted:
    """The routing of a session that no conversation shows."""


class Places(Protocol):
    """The conversations of sessions, a port that `conversations/routing` implements."""

    def conversation_of(self, session: str) -> str | None:
        """Return the id of the conversation that a logical session is bound to."""
        ...

    def routing(self, logical: LogicalSession, roots: list[Worker]) -> Routing | Unrouted:
        """Return the conversations that show a session and its children."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Workers as trees, and the logical session that they belong to."""

    logical: LogicalSession | None = field(metadata={InJson: InJson(form=render_logical_session)})
    """The logical session of the trees; None: all trees are shown."""
    workers: tuple[TreeNode, ...]
    children: tuple[LogicalSession, ...] = field(
        metadata={InJson: InJson(form=render_logical_session)}
    )
    """The logical sessions that were spawned from this one."""
    discord_routing: Routing | Unrouted
    messages: tuple[ShownMessage, ...] | None = field(default=None, metadata=OMIT)
    """Pending and last settled messages in the inboxes of these workers; None: not requested."""


def topology(
    home: Home, who: str = "", *, messages: bool = False, places: Places | None = None
) -> Topology:
    """Return the tree below the worker or the logical session `who`.

    If `who` is empty, return the tree below the caller's own worker, or all trees if it has none.
    `places` knows the conversations of sessions; without `places`, no conversation is shown.
    """
    book = registry.Registry(home.layout)
    roots, logical_id = _roots(home, book, who)
    below = children_of(book.listing())
    shown = tuple(_tree(home, worker, book.workers, below, places) for worker in roots)
    logical = registry.load_logical_session(home.layout, logical_id) if logical_id else None
    return Topology(
        logical=logical,
        workers=shown,
        children=tuple(
            one for one in _logical_sessions(home) if one.parent_logical_id == (logical_id or None)
        ),
        discord_routing=places.routing(logical, roots) if places and logical else Unrouted(),
        messages=_messages(home, shown) if messages else None,
    )


def _roots(home: Home, book: registry.Registry, who: str) -> tuple[list[Worker], str]:
    """Return the workers at the top, and the id of their logical session (empty for all trees)."""
    if who.startswith("vs-"):
        if registry.load_logical_session(home.layout, who) is None:
            raise NotFoundError("logical session", who)
        inside = [worker for worker in book.listing() if worker.logical_session_id == who]
        ids = {worker.id for worker in inside}
        return [worker for worker in inside if worker.parent_worker_id not in ids], who
    worker = find_worker(who, book.listing()) if who else own_worker(home, book)
    if worker is not None:
        return [worker], worker.logical_session_id
    tops = [one for one in book.listing() if one.parent_worker_id not in book.workers]
    with_children = {link for one in book.listing() if (link := one.parent_worker_id)}
    return [one for one in tops if not one.final or one.id in with_children], ""


def _tree(
    home: Home,
    top: Worker,
    workers: Mapping[str, Worker],
    below: Mapping[str, list[str]],
    places: Places | None,
) -> TreeNode:
    """Build the tree below a worker. A cycle is walked once."""
    links: dict[str, list[str]] = {top.id: []}
    queue = [top]
    for worker in queue:
        for link in dict.fromkeys((*worker.children_worker_ids, *below.get(worker.id, ()))):
            if link in workers and link not in links:
                links[link] = []
                links[worker.id].append(link)
                queue.append(workers[link])
    made: dict[str, TreeNode] = {}
    for worker in reversed(queue):  # children first
        children = tuple(made.pop(link) for link in links[worker.id])
        shown = (
            describe_worker(home, worker, places.conversation_of)
            if places
            else describe_worker(home, worker)
        )
        made[worker.id] = TreeNode(shown=shown, children=children)
    return made[top.id]


def _logical_sessions(home: Home) -> list[LogicalSession]:
    found = []
    folder = home.layout("logical-sessions")
    for name in files.json_names(folder):
        try:
            data = document.load(os.path.join(folder, name + ".json"))
            found.append(parse_logical_session(data or {}))
        except (CorruptStateError, KeyError, TypeError, ValueError):
            continue  # `doctor` reports the file
    return found


def _messages(home: Home, trees: tuple[TreeNode, ...]) -> tuple[ShownMessage, ...]:
    """Return the pending and last settled messages in the inboxes of these workers, by time."""
    entries: list[MailEntry] = []
    queue = list(trees)
    for node in queue:
        queue += node.children
        worker = node.shown.worker
        for path in boxes_of(home, worker.id, worker.logical_session_id):
            entries += inbox.read(path).mailbox.entries
    entries.sort(key=lambda entry: (entry.message.ts, entry.message.id))
    return tuple(ShownMessage(entry=entry) for entry in entries)
