"""Stale rule: decide from evidence whether a worker that should be active is silent."""

from __future__ import annotations

from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import TRANSITIONS, Worker, WorkerStatus

STALE_AFTER_S = 1_500.0
"""Seconds without a sign after which a worker is stale; longer than `cancel_rules.ORPHANED_S`.

Within ORPHANED_S an ended session may return by itself.
"""


class Signs(NamedTuple):
    """The evidence about one worker at one moment."""

    status: WorkerStatus
    """Status as shown: the stored status, moved by what the session does."""
    liveness: Liveness
    last_s: float
    """Time of the worker's last sign (hook, tick, message or printed text), in Unix seconds."""
    attended: bool = False
    """A person attends the session."""
    takeover: bool = False
    """A takeover of the worker has not ended."""
    expects: bool = False
    """Mail that may start a turn waits for the worker, or a parent waits for its result."""
    long_running_until_s: float = 0.0
    """End of the silence that the worker announced, in Unix seconds; 0: none announced."""


class StaleVerdict(NamedTuple):
    """A decision whether a worker is stale, and the rule that decided."""

    stale: bool
    rule: str


TOLD_AFTER_S = 300.0
"""Seconds that a marked worker must stay silent before the person is called."""


def mark(
    worker: Worker, sign_s: float, clock: Clock, status: WorkerStatus = WorkerStatus.STALE
) -> Worker:
    """Return the worker with a stale mark. `sign_s`: time of its last sign, in Unix seconds.

    For a worker that may not become STALE, `status` is its present status: then only the start
    of the silence is recorded.
    """
    return worker._replace(
        status=status,
        stale_since=sign_s,
        stale_boot=clock.boot,
        stale_awake_ms=clock.awake_ms,
    )


def unmark(worker: Worker, status: WorkerStatus) -> Worker:
    """Return the worker with this status and without its stale mark."""
    return worker._replace(status=status, stale_since=None, stale_boot="", stale_awake_ms=0)


def is_given_up(worker: Worker, clock: Clock, after_s: float = STALE_AFTER_S) -> bool:
    """Return whether at least `after_s` seconds have passed since a worker was found silent.

    The mark depends on the wall clock, which may have been set ahead, and a machine that slept
    left no worker the time for a sign. So after the mark only time in which the machine was awake
    counts.
    """
    if worker.stale_since is None:
        return False
    if worker.stale_boot != clock.boot:
        return True  # no process of that boot runs any longer
    return clock.awake_ms - worker.stale_awake_ms >= after_s * 1000


def decide_stale(signs: Signs, now_s: float, after_s: float = STALE_AFTER_S) -> StaleVerdict:
    """Decide whether a worker is stale: the first matching rule decides. Total.

    Age alone does not prove that a worker is dead: a stale worker goes on with its next sign.
    """
    if WorkerStatus.STALE not in TRANSITIONS[signs.status]:
        return StaleVerdict(False, "not-at-work")
    if now_s - signs.last_s < after_s:
        return StaleVerdict(False, "progress")
    if signs.takeover:
        return StaleVerdict(False, "takeover-pending")
    if signs.long_running_until_s > now_s:
        return StaleVerdict(False, "long-running")
    if signs.liveness is Liveness.IDLE and signs.attended and not signs.expects:
        return StaleVerdict(False, "at-rest")  # waiting for the person is its normal state
    return StaleVerdict(True, "silent")
