"""Overview: on one screen, who is there, what waits, what a person is needed for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vyane_cli.attention import needs
from vyane_cli.projects import projects
from vyane_cli.projects.standing import ProjectStanding, list_standings
from vyane_cli.sessions.liveness import list_workers
from vyane_cli.storage import quarantine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Who is there, what waits, how projects stand, and what the person is needed for."""

    home: str
    initialised: bool
    workers: list[Any]
    pending: int
    oldest_pending_at: float | None
    projects: Sequence[ProjectStanding]
    unreadable: Sequence[str]
    """What is wrong with the projects that cannot be read."""
    need_user: Sequence[Any]
    quarantined: int


def overview(runtime: Runtime) -> Overview:
    """Return what `vyane status` shows."""
    layout = runtime.layout
    there = os.path.isdir(layout.root)
    workers = list_workers(runtime) if there else []
    return Overview(
        home=layout.root,
        initialised=there,
        workers=workers,
        pending=sum(worker.pending for worker in workers),
        oldest_pending_at=min(
            (w.oldest_pending_at for w in workers if w.oldest_pending_at), default=None
        ),
        projects=list_standings(runtime) if os.path.isdir(layout.projects) else [],
        unreadable=[fault.message for fault in projects.survey(layout).faults] if there else [],
        need_user=needs.listing(layout) if there else [],
        quarantined=len(quarantine.listing(layout.root)) if there else 0,
    )
