"""Purge: a timeline goes, and with it the text of what was said to its session.

Two commit points, each whole: the timeline's rename, then one rewrite of each file of messages. A
crash in between leaves text; the same command goes on where it stopped, also when the timeline is
gone by then.
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
    """What a delete has removed, and from how many messages the text was taken."""

    timeline: DeletedTimeline = field(metadata={InJson: InJson(spread=True)})
    purged: int


def delete_and_purge(home: Home, who: str, *, yes: bool) -> PurgedTimeline:
    """Delete a timeline, and take the text out of every settled message to its session.

    Ids, times and steps of the messages stay. What still waits for the session keeps its text, and
    so does a broadcast: it was said to all.
    """
    found = find_timeline(home, who)
    done = delete_timeline(home, who, yes=yes, missing_ok=True)
    worker = found.worker.id if found.worker is not None else ""
    purged = purge_messages(home, worker, found.session)
    return PurgedTimeline(timeline=done, purged=purged)


def purge_messages(home: Home, worker: str, logical: str) -> int:
    """Empty the archived messages to this worker and session, and their copies; how many."""
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
    """Where text of settled messages lies: the archives, and the copies that senders have."""
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
