"""Stale rule: decide from evidence whether a worker that should be active is silent."""

from __future__ import annotations

from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import TRANSITIONS, Worker, WorkerStatus

STALE_AFTER_S = 1_500.0
"""Longer than `upkeep`'s ORPHANED_S, within which an ended session may return by itself."""


class Signs(NamedTuple):
    """What is known of one worker when it is looked at."""

    status: WorkerStatus
    """As shown: the stored one, moved by what its session does."""
    liveness: Liveness
    last_s: float
    """Its last sign: a hook, a tick, a word of its own, something printed. Unix seconds."""
    attended: bool = False
    """A person sits at it."""
    takeover: bool = False
    """A takeover of it is not over."""
    expects: bool = False
    """Mail that may start a turn waits for it, or a parent for its result."""
    long_running_until_s: float = 0.0


class StaleVerdict(NamedTuple):
    """Whether it is stale, and the rule that says so."""

    stale: bool
    rule: str


TOLD_AFTER_S = 300.0
"""For so long a marked worker must stay silent before the person is called."""


def mark(
    worker: Worker, sign_s: float, clock: Clock, status: WorkerStatus = WorkerStatus.STALE
) -> Worker:
    """The worker as it is found stale, whose last sign was at `sign_s`.

    Another `status`: one that may not become STALE; only since when it is silent is kept.
    """
    return worker._replace(
        status=status,
        stale_since=sign_s,
        stale_boot=clock.boot,
        stale_awake_ms=clock.awake_ms,
    )


def unmark(worker: Worker, status: WorkerStatus) -> Worker:
    """Return the worker without its stale mark."""
    return worker._replace(status=status, stale_since=None, stale_boot="", stale_awake_ms=0)


def is_given_up(worker: Worker, clock: Clock, after_s: float = STALE_AFTER_S) -> bool:
    """Whether a worker that was found silent has been so for as long once more.

    The mark rests on the wall clock, which may have been set ahead, and a machine that slept gave
    nobody the time for a sign; from the mark on only time counts in which the machine was awake.
    """
    if worker.stale_since is None:
        return False
    if worker.stale_boot != clock.boot:
        return True  # nothing of that boot works any more
    return clock.awake_ms - worker.stale_awake_ms >= after_s * 1000


def decide_stale(signs: Signs, now_s: float, after_s: float = STALE_AFTER_S) -> StaleVerdict:
    """First match. Total. Age alone proves no death: a stale worker goes on with its next sign."""
    if WorkerStatus.STALE not in TRANSITIONS[signs.status]:
        return StaleVerdict(False, "not-at-work")
    if now_s - signs.last_s < after_s:
        return StaleVerdict(False, "progress")
    if signs.takeover:
        return StaleVerdict(False, "takeover-pending")
    if signs.long_running_until_s > now_s:
        return StaleVerdict(False, "long-running")
    if signs.liveness is Liveness.IDLE and signs.attended and not signs.expects:
        return StaleVerdict(False, "at-rest")  # it waits for its person, as it should
    return StaleVerdict(True, "silent")
