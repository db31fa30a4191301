"""Projects: make one, declare who belongs to it, find the one that a command means.

`select_project` is how every command of the ledger finds its project: by its name, else by the
working folder, else by the project that the worker which runs the command belongs to.
"""

from __future__ import annotations

from typing import NamedTuple

from vyane_cli.delivery.gating import is_late
from vyane_cli.errors import VyaneError
from vyane_cli.mail import inbox
from vyane_cli.mail.mailbox import Handshake, HandshakeStage
from vyane_cli.projects import projects
from vyane_cli.projects.project import Project, members
from vyane_cli.sessions import registry
from vyane_cli.sessions.liveness import Look, look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import Worker
from vyane_cli.timeline import log
from vyane_cli.timeline.events import TurnOutcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


class Member(NamedTuple):
    """One worker of a project that has not ended, looked at once."""

    worker: Worker
    seen: Look


def members_of(home: Home, project: Project) -> tuple[Member, ...]:
    """The workers of a project that have not ended."""
    workers = registry.Registry(home.layout).workers
    known = projects.listing(home.layout)
    return tuple(
        Member(worker, look(home, worker))
        for worker in members(project, workers, known)
        if not worker.final
    )


def is_at_work(home: Home, member: Member) -> bool | None:
    """Whether a worker works; None when that cannot be told.

    A spawned one does until it has ended, from its launch on; so does one in whose session vyane
    has started a turn that is not over, unless that turn should have begun long ago.
    """
    worker, seen = member
    if seen.liveness is Liveness.BUSY:
        return True
    if worker.dispatch_id and not (seen.session is not None and seen.session.attended):
        from vyane_cli.children.result import is_lost  # far off the path of a hook

        if seen.liveness is Liveness.EXITED:
            return False  # its launcher is about to say so, or `settle_lost` does
        return not is_lost(home, worker)
    if seen.damaged:
        return None
    if waits_for_turn(home, worker):
        return seen.liveness is not Liveness.EXITED
    return None if seen.liveness is Liveness.UNKNOWN else False


def waits_for_turn(home: Home, worker: Worker) -> bool:
    """Whether a turn that vyane started in its session is to begin soon, or is not over."""
    handshake = inbox.read_head(home.layout.inbox(worker.id)).handshake
    return handshake is not None and not _is_unanswered(home, handshake)


def has_not_started(home: Home, worker: Worker) -> bool:
    """Whether the turn that vyane started in its session did not begin in all its time.

    Not known of an inbox that cannot be read: it holds up no other, and whoever reads it says so.
    """
    try:
        handshake = inbox.read_head(home.layout.inbox(worker.id)).handshake
    except VyaneError:
        return False
    return handshake is not None and _is_unanswered(home, handshake)


def _is_unanswered(home: Home, handshake: Handshake) -> bool:
    limits, now_ms = home.config.limits, home.clock().boot_ms
    return handshake.stage is HandshakeStage.WAIT_START and is_late(
        handshake.boot_ms, now_ms, limits
    )


def turns_of(home: Home, worker: Worker) -> tuple[int, float]:
    """How many turns a worker has had, and when the last one ended well.

    0 where it did not end well, or where it cannot be told.
    """
    try:
        head = log.read_head(home.layout.timeline(worker.logical_session_id))
    except VyaneError:
        return 0, 0.0
    if head is None:
        return 0, 0.0
    well = head.finished is not None and head.finished.outcome is TurnOutcome.SUCCESS
    return head.turns, head.at if well and head.open is None else 0.0
