"""Checks of the settings against each other."""

from __future__ import annotations

from vyane_cli.children.cancel_rules import ORPHANED_S
from vyane_cli.children.stale import stale_after_s
from vyane_cli.health.subject import Finding, Subject


def thresholds(subject: Subject) -> Finding:
    """The waiting times in force fit each other."""
    stale_s = stale_after_s(subject.runtime)
    detail = f"stale after {stale_s:.0f} s"
    if stale_s > ORPHANED_S:
        return Finding(True, detail)
    return Finding(
        False,
        f"stale_below_idle: {detail}, though what is idle is waited for {ORPHANED_S:.0f} s",
        "raise workers.stale_after_s, or take VYANE_WORKER_HEARTBEAT_TIMEOUT away",
    )
