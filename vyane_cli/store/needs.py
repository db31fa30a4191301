"""What a person is needed for: `queue/need-user.jsonl`, once per entry, and a page to read.

The journal is the truth, `queue/NEED-USER.md` a projection of it. A crash between the two leaves
an old page; the next entry, or `doctor --fix`, makes it anew.
"""

from __future__ import annotations

from vyane_cli.core.turns import Clock
from vyane_cli.store import files, journal, locks
from vyane_cli.store.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def add(layout: Layout, key: str, text: str, clock: Clock, deadline: locks.Deadline) -> bool:
    """Add an entry unless one with this key is open; True when it is new."""
    with locks.held(layout.root, [(locks.Kind.QUEUE, "")], deadline):
        if any(entry["key"] == key for entry in listing(layout)):
            return False
        writer = journal.open_writer(layout.need_user, layout.root)
        try:
            writer.append([{"op": "open", "key": key, "text": text, "at": clock.at}])
        finally:
            writer.close()
        project(layout)
    return True


def listing(layout: Layout) -> list[dict[str, Any]]:
    """The open entries, oldest first."""
    entries: dict[str, dict[str, Any]] = {}
    for line in journal.read(layout.need_user):
        record = line.record
        if record is None or not isinstance(record.get("key"), str):
            continue
        if record.get("op") == "open":
            entries.setdefault(record["key"], dict(record))
        else:
            entries.pop(record["key"], None)
    return list(entries.values())


def project(layout: Layout) -> None:
    """Make the page that people read anew."""
    lines = [f"- {entry['text']}" for entry in listing(layout)]
    text = "# You are needed\n\n" + ("\n".join(lines) or "Nothing at the moment.") + "\n"
    files.replace(layout("queue", "NEED-USER.md"), text.encode("utf-8", "replace"), durable=False)
