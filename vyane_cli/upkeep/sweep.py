"""Sweeps: one run of `gc` or of a round's maintenance, with its time, limits and skipped errors."""

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
"""Seconds for which the files of an ended session stay: someone may be resuming the session."""


class Sweep:
    """One run over the upkeep steps. An error is added to `skipped`, and the run continues."""

    def __init__(self, home: Home, *, grace_s: float, dry_run: bool) -> None:
        self.home, self.grace_s, self.dry_run = home, grace_s, dry_run
        self.layout, self.now_s = home.layout, home.clock().at
        self.keep_s = float(home.config["gc.keep_ended_days"]) * DAY_S
        self.skipped: list[dict[str, Any]] = []
        self.exit_code = 0

    def guarded(self, what: str, action: Callable[..., int], *args: object) -> int:
        """Run an action and return its count. After an error, note it in `skipped` and return 0."""
        try:
            return action(self, *args)
        except VyaneError as error:
            self.skipped.append({"what": what, "code": error.slug, "message": error.message})
            self.exit_code = self.exit_code or int(error.exit_code)
            return 0

    def remove(self, path: str) -> int:
        """Remove a file. Returns 1, or 0 when the file is missing. A dry run only counts."""
        if not os.path.lexists(path):
            return 0
        if not self.dry_run:
            files.remove(path)
        return 1

    def is_past(self, then_s: float, age_s: float) -> bool:
        """Return whether a time (Unix seconds) is at least `age_s` seconds ago."""
        return self.now_s - then_s >= age_s

    def is_over(self, session: HostSession, age_s: float) -> bool:
        """Return whether a session has ended and its last sign is at least `age_s` seconds old.

        A session without a recorded end has ended when its process is proven gone.
        """
        since_s = self.over_since(session)
        return since_s is not None and self.is_past(since_s, age_s)

    def over_since(self, session: HostSession) -> float | None:
        """Return the last sign of an ended session, in Unix seconds; None while it may run."""
        if not registry.has_ended(session):
            return None
        beat = markers.modified(self.layout.beat(session.id))
        return max(session.ended_at or 0.0, beat, session.started_at)

    def is_current(self, session: HostSession) -> bool:
        """Return whether a session is the current session of its worker."""
        return registry.read_current(self.layout, session.worker) == session.id


class UpkeepStep(NamedTuple):
    """One step of upkeep, run by `gc`, by a round, or by both."""

    name: str
    """The key of its count in JSON."""
    in_round: bool
    in_gc: bool
    action: Callable[[Sweep], int]
    guards: str = ""
    """Name for `skipped` when the action fails. Empty: the action guards each of its parts."""
    counted: bool = True
    """Whether its count is shown."""

    def run(self, sweep: Sweep) -> int:
        """Run the step and return its count. Errors of guarded steps are noted in the sweep."""
        return sweep.guarded(self.guards, self.action) if self.guards else self.action(sweep)


def run_steps(steps: Iterable[UpkeepStep], sweep: Sweep) -> dict[str, Any]:
    """Run each step in order; return the counts that are shown, by name."""
    counts = [(step, step.run(sweep)) for step in steps]
    return {step.name: count for step, count in counts if step.counted}
