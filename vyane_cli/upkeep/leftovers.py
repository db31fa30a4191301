"""Leftovers: what a `spawn`, a retirement or a result left behind when it was killed half-way.

Nothing names these files: the registry is the commit point. They go when they are an hour old,
under the registry's lock, which whoever is about to name one holds.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator

from vyane_cli.errors import CorruptStateError
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.mail import inbox
from vyane_cli.mail.mailbox import Mailbox
from vyane_cli.mail.message import LAUNCHED
from vyane_cli.sessions import markers, registry
from vyane_cli.storage import files
from vyane_cli.storage.locks import Kind
from vyane_cli.upkeep.sweep import Sweep

AGE_S = 3_600.0
NAMED = re.compile(rb'"sha256"\s*:\s*"([0-9a-f]{64})"')
"""How a message names the blob with its whole text."""


def remove_leftovers(sweep: Sweep) -> int:
    """Files of workers that are on no record. Mail that somebody sent stays where it is."""
    known = registry.Registry(sweep.layout).workers
    found = [
        (path, worker)
        for path, worker in _files_of_workers(sweep)
        if worker not in known and _is_old(sweep, path)
    ]
    return sum(sweep.guarded(path, _remove, path, worker) for path, worker in found)


def _files_of_workers(sweep: Sweep) -> Iterator[tuple[str, str]]:
    """Files that belong to one worker, with its id; inboxes last, their documents before them."""
    layout = sweep.layout
    for folder in ("logs", "launches", "current", "due"):
        for name in files.listdir(layout(folder)):
            yield layout(folder, name), name.partition(".")[0]
    for name in files.listdir(layout("logical-sessions")):
        session, _, end = name.rpartition(".")
        if end == "json" and is_safe_id(session) and not os.path.exists(layout.timeline(session)):
            try:
                known = registry.load_logical_session(layout, session)
            except CorruptStateError:
                continue  # `doctor` names it
            if known is not None and known.worker:
                yield layout.logical_session(session), known.worker
    for folder in ("outbox", "inbox"):
        for name in files.listdir(layout("messages", folder)):
            kind, _, rest = name.partition("-")
            worker = rest.removesuffix(".jsonl")
            if kind == "worker" and worker != rest and is_safe_id(worker):
                yield layout("messages", folder, name), worker


def _remove(sweep: Sweep, path: str, worker: str) -> int:
    box = path == sweep.layout.inbox(worker) if is_safe_id(worker) else False
    if box and not _is_nobodys(inbox.read(path).mailbox):
        return 0
    if sweep.dry_run:
        return 1
    with sweep.runtime.held((Kind.REGISTRY, ""), (Kind.INBOX, worker)):
        if worker in registry.Registry(sweep.layout).workers or not _is_old(sweep, path):
            return 0
        if box and not _is_nobodys(inbox.read(path).mailbox):
            return 0
        return sweep.remove(path)


def _is_nobodys(mailbox: Mailbox) -> bool:
    """Whether an inbox holds nothing but the dispatch of a child that did not come to be."""
    return all(entry.message.payload.get(LAUNCHED) is True for entry in mailbox.entries)


def _is_old(sweep: Sweep, path: str) -> bool:
    return sweep.is_past(markers.modified(path) or sweep.now_s, AGE_S)


def remove_blobs(sweep: Sweep) -> int:
    """Long texts that no message names any more: never sent, or deleted with its session."""
    digests = [
        name.removesuffix(".txt")
        for name in files.listdir(sweep.layout("messages", "blobs"))
        if name.endswith(".txt") and not name.startswith(".")
    ]
    old = {digest for digest in digests if _is_old(sweep, sweep.layout.blob(digest))}
    free = old - _named_blobs(sweep) if old else old
    paths = [sweep.layout.blob(digest) for digest in sorted(free)]
    return sum(sweep.guarded(path, _remove_blob, path) for path in paths)


def _remove_blob(sweep: Sweep, path: str) -> int:
    if sweep.dry_run:
        return 1
    with sweep.runtime.held((Kind.REGISTRY, "")):  # a result is sent under it, its blob kept anew
        return sweep.remove(path) if _is_old(sweep, path) else 0


def _named_blobs(sweep: Sweep) -> set[str]:
    """The digests in every inbox and archive, damaged lines included. One pass, no parsing."""
    found: set[str] = set()
    for top in (sweep.layout("messages", "inbox"), sweep.layout("messages", "archive"),
                sweep.layout.quarantine):  # fmt: skip
        for folder, _, names in os.walk(top):
            for name in names:
                found |= _named_in(os.path.join(folder, name))
    return found


def _named_in(path: str) -> set[str]:
    try:
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return set()
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return {match[1].decode() for match in NAMED.finditer(data)}
    except OSError:
        return set()
