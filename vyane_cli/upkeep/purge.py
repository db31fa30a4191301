"""Purge: delete a timeline, and the text of the messages to its session.

There are two kinds of commit point, each atomic: the rename of the timeline, then one rewrite of
each file of messages. A crash in between leaves text; the same command continues from there, even
if the timeline no longer exists.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vyane_cli.history.delete import DeletedTimeline, delete_timeline
from vyane_cli.history.queries import find_timeline
from vyane_cli.kernel.values import InJson
from vyane_cli.mail import archive, inbox
from vyane_cli.mail.inbox import boxes_of
from vyane_cli.mail.lookup import message_files
from vyane_cli.mail.message import ToKind
from vyane_cli.storage import files, journal
from vyane_cli.storage.locks import LockKind
from vyane_cli.upkeep.expire import all_boxes
from vyane_cli.upkeep.gc import archive_settled
from vyane_cli.upkeep.sweep import Sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgedTimeline:
    """The result of a delete: the removed timeline, and the number of purged messages."""

    timeline: DeletedTimeline = field(metadata={InJson: InJson(spread=True)})
    purged: int


def delete_and_purge(home: Home, who: str, *, yes: bool) -> PurgedTimeline:
    """Delete a timeline, and remove the text of every settled message to its session.

    Ids, times and steps of the messages stay. Messages that still wait for the session keep their
    text, and so do broadcasts, which were addressed to all sessions.
    """
    found = find_timeline(home, who)
    done = delete_timeline(home, who, yes=yes, missing_ok=True)
    worker = found.worker.id if found.worker is not None else ""
    purged = purge_messages(home, worker, found.session)
    return PurgedTimeline(timeline=done, purged=purged)


def purge_messages(home: Home, worker: str, logical: str) -> int:
    """Remove the text of archived messages to this worker and session, and of their copies.

    Settled messages are archived first. Returns how many messages.
    """
    layout = home.layout
    own = boxes_of(home, worker, logical) if worker else [layout.session_inbox(logical)]
    sweep = Sweep(home, grace_s=0.0, dry_run=False)
    for box in all_boxes(home):
        if box.path in own:
            archive_settled(sweep, box)
    waiting = {entry.message.id for path in own for entry in inbox.read(path).mailbox.unsettled}
    targets = {(str(ToKind.WORKER), worker), (str(ToKind.LOGICAL_SESSION), logical)}

    def chosen(message: Mapping[str, Any]) -> bool:
        to = (str(message.get("to_kind")), message.get("to_id"))
        return to in targets and message.get("id") not in waiting

    ids: set[str] = set()
    blobs: set[str] = set()
    for kind, key, path in _files(home):
        with home.held((kind, key)):
            gone = archive.purge(path, layout.root, chosen)
        ids.update(gone.ids)
        blobs.update(gone.blobs)
    for digest in blobs:  # the same text may be the rest of another session's result
        if not any(journal.contains(path, digest.encode()) for path in message_files(home)):
            files.remove(layout.blob(digest))
    return len(ids)


def _files(home: Home) -> list[tuple[LockKind, str, str]]:
    """Return the files with text of settled messages: the archives and the outboxes of senders.

    Each entry has the kind and the key of the file's lock, and its path.
    """
    layout = home.layout
    found = [
        (LockKind.ARCHIVE, "", layout.archive(month))
        for month in files.listdir(layout("messages", "archive"))
    ]
    folder = layout("messages", "outbox")
    for name in files.listdir(folder):
        stem, _, end = name.rpartition(".")
        if end == "jsonl" and stem.startswith("worker-"):
            sender = stem.removeprefix("worker-")
            found.append((LockKind.OUTBOX, sender, os.path.join(folder, name)))
    return found
