"""Busy, idle, exited or unknown: one function, from evidence."""

from __future__ import annotations

from vyane_cli.kernel.values import NamedTuple, StrEnum


class Liveness(StrEnum):
    """What a session is doing, as far as it can be known."""

    BUSY = "busy"
    IDLE = "idle"
    EXITED = "exited"
    UNKNOWN = "unknown"


class LivenessEvidence(NamedTuple):
    """What was found out about one session."""

    ended: bool
    """SessionEnd was seen and nothing since."""
    present: bool | None
    """Its process is there; None when that cannot be told. No permission to look is present."""
    open_turn: bool
    host_idle: bool = False
    """The host's own record says idle since the open turn began."""


def decide_liveness(evidence: LivenessEvidence) -> Liveness:
    """The only definition. Busy can be cleared by the host's record, never set by it."""
    if evidence.ended or evidence.present is False:
        return Liveness.EXITED
    if evidence.present is None:
        return Liveness.UNKNOWN
    if evidence.open_turn and not evidence.host_idle:
        return Liveness.BUSY
    return Liveness.IDLE
