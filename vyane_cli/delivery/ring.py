"""Nudge: reach a session that has mail. Nothing waits for a retry that nobody makes.

For a session that its host watches (`watch`) this publishes only: the target's own tick claims.
"""

from __future__ import annotations

from vyane_cli.errors import LockTimeoutError, VyaneError
from vyane_cli.kernel.clock import Clock
from vyane_cli.sessions import markers, registry
from vyane_cli.storage import files, locks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime

MOST_OVERDUE = 3
MOST_BY_ROUND = 1_000
AGAIN_MS = 60_000
"""An overdue worker is rung at most once in this time."""
PATIENCE_S = 0.05
"""Another session's lock is not worth more of a hook's budget."""


def publish(runtime: Runtime, session: str, clock: Clock) -> bool:
    """Ring for mail that may start a turn: rewrite the wake file that the host watches.

    Under the inbox lock, after the append. True when the file was rewritten.
    """
    return bool(session) and markers.wake(runtime.layout, session, clock.at)


def nudge(runtime: Runtime, worker: str, clock: Clock) -> bool:
    """Ring again for a worker whose startable mail is overdue."""
    deadline = locks.Deadline(PATIENCE_S)
    try:
        with runtime.held((locks.Kind.INBOX, worker), deadline=deadline):
            session = registry.read_current(runtime.layout, worker)
            files.touch(runtime.layout.due(worker), str(clock.now_ms + AGAIN_MS))
            rung = publish(runtime, session, clock)
    except LockTimeoutError:
        return False  # its inbox is being worked on at this moment
    return reach(runtime, worker, clock) or rung


def reach(runtime: Runtime, worker: str, clock: Clock) -> bool:
    """The ways that are left where no watch rings: type into its pane, open it again.

    Keys take their time: they are not for a hook, which has none.
    """
    if runtime.config["delivery.tmux"] != "never" and runtime.limit is None:
        from vyane_cli.delivery.keystrokes import type_for_mail

        if type_for_mail(runtime, worker, clock):
            return True
    if runtime.config["delivery.resume"] == "never":
        return False
    from vyane_cli.delivery.resume import resume_for_mail

    return resume_for_mail(runtime, worker, clock)


def nudge_overdue(runtime: Runtime, own: str, clock: Clock) -> None:
    """Ring for at most three workers whose mail has been lying; never an error of the caller's."""
    try:
        grace = runtime.config.limits.overdue_ms
        found = markers.overdue(runtime.layout, clock.now_ms, grace, MOST_OVERDUE + 1)
        for worker in [one for one in found if one != own][:MOST_OVERDUE]:
            nudge(runtime, worker, clock)
    except VyaneError:
        return


def nudge_all(runtime: Runtime) -> int:
    """Ring for every worker whose mail is overdue: a round does it, after its matrix."""
    clock = runtime.clock()
    try:
        found = markers.overdue(runtime.layout, clock.now_ms, 0, MOST_BY_ROUND)
        return sum(nudge(runtime, worker, clock) for worker in found)
    except VyaneError:
        return 0
