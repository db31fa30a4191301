"""Named consumers of a timeline: how far each has come, in `timelines/{vs}/cursors/{name}.json`.

Owner: the consumer. Commit point: the rename, after the events up to it were printed and flushed.
A crash before it shows them again (at least once); nothing is ever passed over.
"""

from __future__ import annotations

from typing import Any

from vyane_cli.errors import CorruptStateError, InvalidInputError
from vyane_cli.storage import document, files
from vyane_cli.storage.layout import Layout
from vyane_cli.timeline.cursors import Cursor, parse_cursor, render_cursor


def load(layout: Layout, session: str, name: str) -> Cursor | None:
    """The stored cursor; None for a consumer that has none."""
    path = layout.consumer(session, name)
    data = document.load(path)
    if data is None:
        return None
    try:
        return parse_cursor(str(data.get("cursor") or ""))
    except InvalidInputError:
        raise CorruptStateError(
            path, "it holds no cursor", hint="start over with --reset earliest or latest"
        ) from None


def save(layout: Layout, session: str, name: str, cursor: Cursor, at: float) -> None:
    """Store the cursor; on disk when this returns."""
    data: dict[str, Any] = {
        "consumer": name,
        "session": session,
        "seq": cursor.seq,
        "cursor": render_cursor(cursor),
        "at": at,
    }
    document.save(layout.consumer(session, name), data, layout.root)


def names(layout: Layout, session: str) -> list[str]:
    """The consumers that this timeline has."""
    return files.json_names(layout("timelines", session, "cursors"))
