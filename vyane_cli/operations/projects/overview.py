"""Overview: on one screen, who is there, what waits, what a person is needed for."""

import os
from typing import Any

from vyane_cli.operations.liveness import list_workers
from vyane_cli.operations.projects.standing import list_standings
from vyane_cli.store import needs, projects, quarantine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.runtime import Runtime


def overview(runtime: "Runtime") -> dict[str, Any]:
    """What `vyane status` shows."""
    layout = runtime.layout
    there = os.path.isdir(layout.root)
    workers = list_workers(runtime) if there else []
    return {
        "home": layout.root,
        "initialised": there,
        "workers": workers,
        "pending": sum(worker.pending for worker in workers),
        "oldest_pending_at": min(
            (w.oldest_pending_at for w in workers if w.oldest_pending_at), default=None
        ),
        "projects": list_standings(runtime) if os.path.isdir(layout.projects) else [],
        "unreadable": [fault.message for fault in projects.survey(layout).faults] if there else [],
        "need_user": needs.listing(layout) if there else [],
        "quarantined": len(quarantine.listing(layout.root)) if there else 0,
    }
