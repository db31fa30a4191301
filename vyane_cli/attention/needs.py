"""Need-user entries on disk: the journal `queue/need-user.jsonl`, and a page for people to read.

The journal is the truth; `queue/NEED-USER.md` is a projection of the journal. A crash between the
two writes leaves an old page; the next entry, or `doctor --fix`, recreates the page. A notification
is claimed in the journal before it is sent: a crash in between leaves a notification unsent, but
never sends one twice.
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
    """Add an entry unless one with this key is open. Return whether the entry is new."""
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
    """Resolve entries by id or key, all or none. Returns the resolved entries.

    NotFoundError if one of them is not open.
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
    """Claim the entries to notify the person of, and return them.

    From then on they count as notified, even if this process dies before it sends them.
    """
    with locks.held(layout.root, [(locks.LockKind.QUEUE, "")], deadline):
        found = to_tell(_read(layout)[0])
        if found:
            _append(layout, [{"op": "notify", "key": o["key"], "at": clock.at} for o in found])
    return found


def give_back(
    layout: Layout, entries: Sequence[Mapping[str, Any]], clock: Clock, deadline: locks.Deadline
) -> None:
    """Give back claimed entries whose notification failed: the next call retries them.

    An entry has `TRIES` attempts in all.
    """
    with locks.held(layout.root, [(locks.LockKind.QUEUE, "")], deadline):
        _append(layout, [{"op": "notify-failed", "key": o["key"], "at": clock.at} for o in entries])


def list_entries(layout: Layout) -> list[dict[str, Any]]:
    """List the open entries, oldest first, in the form of `need.fold`."""
    return _read(layout)[0]


def was_resolved(layout: Layout, key: str) -> bool:
    """Return whether an entry with this key was open and is resolved by now."""
    seen = False
    for line in journal.read(layout.need_user):
        if line.record is not None and line.record.get("key") == key:
            seen = {"open": False, "resolve": True}.get(str(line.record.get("op")), seen)
    return seen


def _show(layout: Layout) -> None:
    """Write the page after a change of the journal. Errors are ignored: the journal is saved."""
    try:
        project_page(layout)
    except StorageError:
        return  # `doctor` reports it; the next entry or `doctor --fix` writes the page


def project_page(layout: Layout) -> None:
    """Recreate the page for people from the journal. Not flushed."""
    text = page(list_entries(layout)).encode("utf-8", "replace")
    files.replace(layout("queue", "NEED-USER.md"), text, durable=False)


def page(entries: Sequence[Mapping[str, Any]]) -> str:
    """Render the page: one line for each entry, with its id and the time of its opening."""
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
