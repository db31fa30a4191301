"""Need entries: each opens once, is notified once, and is then resolved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from vyane_cli.errors import NotFoundError
from vyane_cli.kernel.text import nearest_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TRIES = 3
"""Attempts after which a failed notification is given up; the entry stays on the page."""


def fold(records: Iterable[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Fold the journal's records.

    Return the open entries, oldest first, and the highest number so far.

    An entry has id, key, text (the reason), who (who waits), ask (what the person should say or
    do), project, at, notified, tries.
    """
    entries: dict[str, dict[str, Any]] = {}
    highest = 0
    for record in records:
        key = record.get("key")
        if not isinstance(key, str):
            continue
        match record.get("op"):
            case "open":
                number = record.get("number")
                highest = max(highest + 1, number if isinstance(number, int) else 0)
                entries.setdefault(key, _entry(key, highest, record))
            case "notify" if key in entries:
                entries[key].update(notified=True, tries=entries[key]["tries"] + 1)
            case "notify-failed" if key in entries:
                entries[key].update(notified=False)
            case "resolve":
                entries.pop(key, None)
            case _:
                pass  # of a later version, or of an entry that is already resolved
    return list(entries.values()), highest


def _entry(key: str, number: int, record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": f"N{number}",
        "key": key,
        "text": str(record.get("text") or ""),
        "who": str(record.get("who") or ""),
        "ask": str(record.get("ask") or ""),
        "project": str(record.get("project") or ""),
        "at": record.get("at"),
        "notified": False,
        "tries": 0,
    }


def find(entries: Sequence[dict[str, Any]], names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the entries with these ids or keys; NotFoundError for the first unknown name."""
    by_name = {one[key].casefold(): one for one in entries for key in ("key", "id")}
    found = []
    for name in names:
        wanted = name.strip().casefold()
        one = by_name.get(wanted)
        if one is None:
            near = nearest_names(name, [entry["id"] for entry in entries])
            hint = "" if near else "`vyane need-user list` shows what is open"
            raise NotFoundError("open entry", name, near, hint)
        found.append(one)
    return found


def to_tell(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries that were not notified yet and have attempts left."""
    return [one for one in entries if not one["notified"] and one["tries"] < TRIES]


def sentence(entry: Mapping[str, Any]) -> str:
    """Return an entry in one line: project, who waits, the reason, and what is asked."""
    who = f"{entry['who']} waits: " if entry["who"] else ""
    where = f"[{entry['project']}] " if entry["project"] else ""
    ask = f" — {entry['ask']}" if entry["ask"] else ""
    return " ".join(f"{where}{who}{entry['text']}{ask}".split())
