"""Ring: reach a session that has mail. Every failed try is repeated by a later tick or round.

For a session that its host watches (`watch`) this only rewrites the wake file: the session's own
tick claims the mail.
"""

from __future__ import annotations

from vyane_cli.errors import LockTimeoutError, VyaneError
from vyane_cli.kernel.clock import Clock
from vyane_cli.sessions import markers, registry
from vyane_cli.storage import files, locks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


MOST_OVERDUE = 3
MOST_BY_ROUND = 1_000
AGAIN_MS = 60_000
"""An overdue worker is rung at most once in this time."""
PATIENCE_S = 0.05
"""Another session's lock is not worth more of a hook's budget."""


def nudge(home: Home, worker: str, clock: Clock) -> bool:
    """Ring again for a worker whose startable mail is overdue."""
    deadline = locks.Deadline(PATIENCE_S)
    try:
        with home.held((locks.LockKind.INBOX, worker), deadline=deadline):
            session = registry.read_current(home.layout, worker)
            files.touch(home.layout.due(worker), str(clock.now_ms + AGAIN_MS))
            rung = markers.wake(home.layout, session, clock.at)
    except LockTimeoutError:
        return False  # its inbox is being worked on at this moment
    return reach(home, worker, clock) or rung


def reach(home: Home, worker: str, clock: Clock) -> bool:
    """The ways that are left where no watch rings: type into its pane, open it again.

    Keys take their time: they are not for a hook, which has none.
    """
    if home.config["delivery.tmux"] != "never" and home.limit is None:
        from vyane_cli.delivery.keystrokes import type_for_mail

        if type_for_mail(home, worker, clock):
            return True
    if home.config["delivery.resume"] == "never":
        return False
    from vyane_cli.delivery.resume import resume_for_mail

    return resume_for_mail(home, worker, clock)


def resume_lost(home: Home, worker: str) -> bool:
    """Open the session of a child that was broken off again; True when it is started."""
    from vyane_cli.delivery import resume

    return resume.resume_lost(home, worker)


def nudge_overdue(home: Home, own: str, clock: Clock) -> None:
    """Ring for at most three workers whose mail has been lying; never an error of the caller's."""
    try:
        grace = home.config.limits.overdue_ms
        found = markers.overdue(home.layout, clock.now_ms, grace, MOST_OVERDUE + 1)
        for worker in [one for one in found if one != own][:MOST_OVERDUE]:
            nudge(home, worker, clock)
    except VyaneError:
        return


def nudge_all(home: Home) -> int:
    """Ring for every worker whose mail is overdue: a round does it, after its matrix."""
    clock = home.clock()
    try:
        found = markers.overdue(home.layout, clock.now_ms, 0, MOST_BY_ROUND)
        return sum(nudge(home, worker, clock) for worker in found)
    except VyaneError:
        return 0
