"""`bindings.json`: every binding, under one lock. Unreadable rows are dropped, damage is refused.

Owner: bind, unbind, touch, sweep and the mirror. Commit point: the rename. A crash leaves the old
or the new file; a change is made on what was read under the lock, so that none is ever undone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from vyane_cli.conversations.binding import Binding
from vyane_cli.conversations.binding_forms import parse_binding, render_binding
from vyane_cli.errors import StorageError
from vyane_cli.storage import document
from vyane_cli.storage.layout import Layout

T = TypeVar("T")
Bindings = dict[str, Binding]


_LAST_READ: dict[str, tuple[tuple[int, int, int], Bindings]] = {}
"""What each file held when this process read it last: values, never changed in place."""


def load(layout: Layout) -> Bindings:
    """Every binding by its id, in the order in which they were bound. No lock."""
    try:
        found = os.stat(layout.bindings)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StorageError(layout.bindings, error) from error
    stamp = (found.st_ino, found.st_mtime_ns, found.st_size)  # a new file has another inode
    known = _LAST_READ.get(layout.bindings)
    if known is None or known[0] != stamp:
        read = document.load_as(layout.bindings, _parse, "list of bindings") or {}
        known = _LAST_READ[layout.bindings] = (stamp, read)
    return dict(known[1])


def change(layout: Layout, edit: Callable[[Bindings], T]) -> T:
    """Let `edit` change what is there, and keep it if it did. Under the bindings' lock.

    What `edit` returns is on disk with it; when it raises nothing has changed.
    """
    data = document.load(layout.bindings) or {}
    before = document.load_as(layout.bindings, _parse, "list of bindings") or {}
    after = dict(before)
    result = edit(after)
    if after != before:
        rendered = {key: render_binding(one) for key, one in after.items()}
        revision = int(data.get("revision") or 0) + 1
        document.save(
            layout.bindings, {**data, "revision": revision, "bindings": rendered}, layout.root
        )
    return result


def _parse(data: Mapping[str, Any]) -> Bindings:
    rows = data.get("bindings") or {}
    if not isinstance(rows, Mapping):
        raise ValueError("`bindings` is no object")
    found = [one for one in map(parse_binding, rows.values()) if one is not None]
    return {one.id: one for one in sorted(found, key=lambda one: (one.bound_at, one.id))}
