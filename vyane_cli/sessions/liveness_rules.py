"""Liveness rules: one function decides busy, idle, exited or unknown from evidence."""

from __future__ import annotations

from vyane_cli.kernel.values import NamedTuple, StrEnum


class Liveness(StrEnum):
    """The activity of a session, as far as vyane can know it."""

    BUSY = "busy"
    IDLE = "idle"
    EXITED = "exited"
    UNKNOWN = "unknown"


class LivenessEvidence(NamedTuple):
    """The evidence about one session."""

    ended: bool
    """SessionEnd was seen, and no later event."""
    present: bool | None
    """True when its process exists, also if we may not inspect it; None when unknown."""
    open_turn: bool
    host_idle: bool = False
    """The host's own record says idle since the open turn began."""


def decide_liveness(evidence: LivenessEvidence) -> Liveness:
    """Decide the liveness of a session. This is the only definition.

    The host's record can clear busy, and never sets it.
    """
    if evidence.ended or evidence.present is False:
        return Liveness.EXITED
    if evidence.present is None:
        return Liveness.UNKNOWN
    if evidence.open_turn and not evidence.host_idle:
        return Liveness.BUSY
    return Liveness.IDLE
