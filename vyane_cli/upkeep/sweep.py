"""Sweep: one run of `gc`, as its steps see it: the time, what counts as over, what was left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from vyane_cli.errors import VyaneError
from vyane_cli.sessions import markers, registry
from vyane_cli.sessions.session import HostSession
from vyane_cli.storage import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home

DAY_S = 86_400.0
ENDED_S = 3_600.0
"""A session that has just ended may be resumed at this moment: its files are left alone."""


class Sweep:
    """What a run did not do stands in `skipped`; it does the rest."""

    def __init__(self, home: Home, *, grace_s: float, dry_run: bool) -> None:
        self.home, self.grace_s, self.dry_run = home, grace_s, dry_run
        self.layout, self.now_s = home.layout, home.clock().at
        self.keep_s = float(home.config["gc.keep_ended_days"]) * DAY_S
        self.skipped: list[dict[str, Any]] = []
        self.exit_code = 0

    def guarded(self, what: str, action: Callable[..., int], *args: object) -> int:
        """The action's count. An error is noted, and holds up nothing else."""
        try:
            return action(self, *args)
        except VyaneError as error:
            self.skipped.append({"what": what, "code": error.slug, "message": error.message})
            self.exit_code = self.exit_code or int(error.exit_code)
            return 0

    def remove(self, path: str) -> int:
        """Remove a file that is there: 1, else 0. A dry run only counts."""
        if not os.path.lexists(path):
            return 0
        if not self.dry_run:
            files.remove(path)
        return 1

    def is_past(self, then_s: float, age_s: float) -> bool:
        """Whether something is at least so old."""
        return self.now_s - then_s >= age_s

    def is_over(self, session: HostSession, age_s: float) -> bool:
        """Whether a session ended, or its process is proven gone, and its last sign is so old."""
        since_s = self.over_since(session)
        return since_s is not None and self.is_past(since_s, age_s)

    def over_since(self, session: HostSession) -> float | None:
        """The last sign of a session that is over; None while it may run."""
        if not registry.has_ended(session):
            return None
        beat = markers.modified(self.layout.beat(session.id))
        return max(session.ended_at or 0.0, beat, session.started_at)

    def is_current(self, session: HostSession) -> bool:
        """Whether it is its worker's present session."""
        return registry.read_current(self.layout, session.worker) == session.id


class UpkeepStep(NamedTuple):
    """One thing that `gc`, a round, or both of them keep in order."""

    name: str
    """The key of its count in JSON."""
    in_round: bool
    in_gc: bool
    action: Callable[[Sweep], int]
    guards: str = ""
    """What is named when the action fails. Empty: the action guards each of its parts."""
    counted: bool = True
    """Whether its count is shown."""

    def run(self, sweep: Sweep) -> int:
        """Do it; return the count. An error is noted in the sweep."""
        return sweep.guarded(self.guards, self.action) if self.guards else self.action(sweep)


def run_steps(steps: Iterable[UpkeepStep], sweep: Sweep) -> dict[str, Any]:
    """Run each step in order; return the counts that are shown, by name."""
    counts = [(step, step.run(sweep)) for step in steps]
    return {step.name: count for step, count in counts if step.counted}
