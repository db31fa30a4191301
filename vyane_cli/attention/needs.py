"""Need entries on disk: the journal `queue/need-user.jsonl`, and a page for people to read.

The journal is authoritative, and `queue/NEED-USER.md` is a projection of it. A crash between the
two writes leaves an old page; the next entry or `doctor --fix` rewrites it. A notification is
claimed in the journal before it is sent: a crash in the middle leaves one unsent, never one sent
twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from vyane_cli.attention.need import find, fold, sentence, to_tell
from vyane_cli.errors import StorageError
from vyane_cli.kernel.clock import Clock
from vyane_cli.storage import files, journal, locks
from vyane_cli.storage.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def add(
    layout: Layout,
    key: str,
    text: str,
    clock: Clock,
    deadline: locks.Deadline,
    *,
    who: str = "",
    ask: str = "",
    project: str = "",
) -> bool:
    """Add an entry unless one with this key is open. Return True when the entry is new."""
    with locks.held(layout.root, [(locks.LockKind.QUEUE, "")], deadline):
        entries, highest = _read(layout)
        if any(entry["key"] == key for entry in entries):
            return False
        about = {"who": who, "ask": ask, "project": project}
        given = {name: value for name, value in about.items() if value}
        _append(
            layout,
            [
                {
                    "op": "open",
                    "key": key,
                    "number": highest + 1,
                    "text": text,
                    **given,
                    "at": clock.at,
                }
            ],
        )
        _show(layout)
    return True


def resolve(
    layout: Layout, names: Iterable[str], by: str, clock: Clock, deadline: locks.Deadline
) -> list[dict[str, Any]]:
    """Close entries by id or key, all or none.

    Return them; NotFoundError for one that is not open.
    """
    with locks.held(layout.root, [(locks.LockKind.QUEUE, "")], deadline):
        found = find(_read(layout)[0], names)
        _append(
            layout,
            [{"op": "resolve", "key": one["key"], "by": by, "at": clock.at} for one in found],
        )
        _show(layout)
    return found


def claim_notices(layout: Layout, clock: Clock, deadline: locks.Deadline) -> list[dict[str, Any]]:
    """Claim the entries to notify, and return them.

    From here on these entries count as notified, even if this process dies before it sends.
    """
    with locks.held(layout.root, [(locks.LockKind.QUEUE, "")], deadline):
        found = to_tell(_read(layout)[0])
        if found:
            _append(layout, [{"op": "notify", "key": o["key"], "at": clock.at} for o in found])
    return found


def give_back(
    layout: Layout, entries: Sequence[Mapping[str, Any]], clock: Clock, deadline: locks.Deadline
) -> None:
    """Release claimed entries whose notification failed, to be retried a few times."""
    with locks.held(layout.root, [(locks.LockKind.QUEUE, "")], deadline):
        _append(layout, [{"op": "notify-failed", "key": o["key"], "at": clock.at} for o in entries])


def listing(layout: Layout) -> list[dict[str, Any]]:
    """Return the open entries, oldest first; `attention.need.fold` documents their fields."""
    return _read(layout)[0]


def was_resolved(layout: Layout, key: str) -> bool:
    """Return whether an entry with this key was open and is now resolved."""
    seen = False
    for line in journal.read(layout.need_user):
        if line.record is not None and line.record.get("key") == key:
            seen = {"open": False, "resolve": True}.get(str(line.record.get("op")), seen)
    return seen


def _show(layout: Layout) -> None:
    """Update the page after a change of the journal.

    Errors are ignored: the entry itself is stored.
    """
    try:
        project_page(layout)
    except StorageError:
        return  # `doctor` reports it, and the next entry or `doctor --fix` rewrites the page


def project_page(layout: Layout) -> None:
    """Rewrite the page that people read."""
    text = page(listing(layout)).encode("utf-8", "replace")
    files.replace(layout("queue", "NEED-USER.md"), text, durable=False)


def page(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the page: a line for each entry, with its id and opening time."""
    lines = [f"- {one['id']} ({_day(one['at'])}) {sentence(one)}" for one in entries]
    body = "\n".join(lines) or "Nothing at the moment."
    foot = "\n\nDone with one? `vyane need-user resolve ID`\n" if lines else "\n"
    return f"# You are needed\n\n{body}{foot}"


def _day(at: object) -> str:
    if not isinstance(at, (int, float)):
        return "?"
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _read(layout: Layout) -> tuple[list[dict[str, Any]], int]:
    return fold(line.record for line in journal.read(layout.need_user) if line.record is not None)


def _append(layout: Layout, records: Sequence[Mapping[str, Any]]) -> None:
    writer = journal.open_writer(layout.need_user, layout.root)
    try:
        writer.append(list(records))
    finally:
        writer.close()
