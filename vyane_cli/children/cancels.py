"""`queue/cancels/{operation}.json`: a cancel, frozen before anybody is told, and its outcomes.

Writers: `cancel` alone; made and marked under the registry's lock. Commit point: the rename. A
crash leaves the plan without its outcomes: the same command, or the same operation id, goes on.
"""

from __future__ import annotations

from vyane_cli.children.cancel_rules import Cancel, parse_cancel, render_cancel
from vyane_cli.storage import document, files
from vyane_cli.storage.layout import Layout


def load(layout: Layout, operation: str) -> Cancel | None:
    """The cancel of this operation id; None when there is none."""
    return document.load_as(layout.cancel(operation), parse_cancel, "cancel")


def save(layout: Layout, cancel: Cancel) -> None:
    """Keep a cancel, durably."""
    document.save(layout.cancel(cancel.operation), render_cancel(cancel), layout.root)


def unsettled(layout: Layout, root: str) -> Cancel | None:
    """The cancel of this root that has not come to its end."""
    for name in files.json_names(layout("queue", "cancels")):
        found = load(layout, name)
        if found is not None and found.root == root and not found.settled:
            return found
    return None
