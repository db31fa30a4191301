"""Ring: wake a session that has mail. Every failed attempt is retried by a later tick or round.

For a session that its host watches (`watch`), a ring only rewrites the wake file: the session's own
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
"""Milliseconds within which an overdue worker is rung at most once."""
PATIENCE_S = 0.05
"""Seconds to wait for another session's lock: it is not worth more of a hook's budget."""


def nudge(home: Home, worker: str, clock: Clock) -> bool:
    """Ring again for a worker whose startable mail is overdue. Return whether a way was found."""
    deadline = locks.Deadline(PATIENCE_S)
    try:
        with home.held((locks.LockKind.INBOX, worker), deadline=deadline):
            session = registry.read_current(home.layout, worker)
            files.touch(home.layout.due(worker), str(clock.now_ms + AGAIN_MS))
            rung = markers.wake(home.layout, session, clock.at)
    except LockTimeoutError:
        return False  # another process works on the inbox now
    return reach(home, worker, clock) or rung


def reach(home: Home, worker: str, clock: Clock) -> bool:
    """Try the ways that do not need a watch: type into the session's pane, then reopen the session.

    Return whether one of them was taken. Typing takes too long for a hook, so a hook does not type.
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
    """Reopen the session of an interrupted child. Return whether it was started."""
    from vyane_cli.delivery import resume

    return resume.resume_lost(home, worker)


def nudge_overdue(home: Home, own: str, clock: Clock) -> None:
    """Ring for at most three workers whose mail is overdue. Errors of vyane are ignored."""
    try:
        grace = home.config.limits.overdue_ms
        found = markers.overdue(home.layout, clock.now_ms, grace, MOST_OVERDUE + 1)
        for worker in [one for one in found if one != own][:MOST_OVERDUE]:
            nudge(home, worker, clock)
    except VyaneError:
        return


def nudge_all(home: Home) -> int:
    """Ring for every worker whose mail is overdue. A round does this after its matrix.

    Return the number of workers that were rung; 0 after an error, which is ignored.
    """
    clock = home.clock()
    try:
        found = markers.overdue(home.layout, clock.now_ms, 0, MOST_BY_ROUND)
        return sum(nudge(home, worker, clock) for worker in found)
    except VyaneError:
        return 0
