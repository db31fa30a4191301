"""`notices.json`, `deliveries.jsonl` and the pages of a project: notices to its main worker.

Owner: the project. Writers: ticks of its workers, under the locks of the main worker's inbox and of
the project's notices, from the check to the save; `project create`, before the project's own file
exists. Commit point: the line in the main worker's inbox, then the rename of `notices.json`. A
crash between the two leaves a notice that the next tick finds in the inbox by its id, and does not
send again.
"""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.errors import VyaneError
from vyane_cli.projects.notice_rules import Book, parse_book, render_book
from vyane_cli.storage import document, files, journal
from vyane_cli.storage.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def load(layout: Layout, project: str) -> Book:
    """Return the book of notices; empty if the file is missing. CorruptStateError if damaged."""
    return document.load_as(layout.notices(project), parse_book, "book of notices") or Book()


def save(layout: Layout, project: str, book: Book) -> None:
    """Save the book of notices, durably."""
    document.save(layout.notices(project), render_book(book), layout.root)


def log(layout: Layout, project: str, record: Mapping[str, Any]) -> None:
    """Append to the delivery log, for people who ask why. No decision uses it: not flushed."""
    writer = journal.open_writer(layout.deliveries(project), layout.root)
    try:
        writer.append([record], durable=False)
    finally:
        writer.close()


def save_pages(layout: Layout, project: str, to_main: str, blocked: Mapping[str, Any]) -> None:
    """Write the pages of a project that changed. Errors are ignored."""
    try:
        path, data = layout.to_main(project), to_main.encode("utf-8", "replace")
        if _read(path) != data:
            files.replace(path, data, durable=False)
        path = layout.blocked(project)
        if _load(path) != blocked:
            document.save(path, blocked, layout.root, durable=False)
    except VyaneError:
        return


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _load(path: str) -> dict[str, Any] | None:
    """Return the content of the page; None when the page is missing or damaged."""
    try:
        return {k: v for k, v in (document.load(path) or {}).items() if k != "v"} or None
    except VyaneError:
        return None
