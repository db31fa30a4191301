"""Members of a project: the workers that have not ended, whether they work, and their turns."""

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
    """One worker of a project that has not ended, with its liveness at one moment."""

    worker: Worker
    seen: Look


def members_of(home: Home, project: Project) -> tuple[Member, ...]:
    """Return the workers of a project that have not ended."""
    workers = registry.Registry(home.layout).workers
    known = projects.list_known(home.layout)
    return tuple(
        Member(worker, look(home, worker))
        for worker in members(project, workers, known)
        if not worker.final
    )


def is_at_work(home: Home, member: Member) -> bool | None:
    """Return whether a worker works; None when this cannot be determined.

    A spawned worker works from its launch until it has ended. A worker also works while a turn that
    vyane started in its session has not ended, unless the start of that turn is long overdue.
    """
    worker, seen = member
    if seen.liveness is Liveness.BUSY:
        return True
    if worker.dispatch_id and not (seen.session is not None and seen.session.attended):
        from vyane_cli.children.result import is_lost  # imported here because hooks rarely need it

        if seen.liveness is Liveness.EXITED:
            return False  # its launcher, or `settle_lost`, is about to record the end
        return not is_lost(home, worker)
    if seen.damaged:
        return None
    if waits_for_turn(home, worker):
        return seen.liveness is not Liveness.EXITED
    return None if seen.liveness is Liveness.UNKNOWN else False


def waits_for_turn(home: Home, worker: Worker) -> bool:
    """Return whether a turn that vyane started in the session is due to begin, or has not ended."""
    handshake = inbox.read_head(home.layout.inbox(worker.id)).handshake
    return handshake is not None and not _is_unanswered(home, handshake)


def has_not_started(home: Home, worker: Worker) -> bool:
    """Return whether a turn that vyane started in the session is overdue: it never began.

    False for an inbox that cannot be read. Such an inbox does not block other workers, and its own
    readers report it.
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
    """Return the number of turns of a worker, and the time at which the last turn succeeded.

    The time is 0 when the last turn has not ended or did not succeed. Both are 0 when the timeline
    is missing or cannot be read.
    """
    try:
        head = log.read_head(home.layout.timeline(worker.logical_session_id))
    except VyaneError:
        return 0, 0.0
    if head is None:
        return 0, 0.0
    well = head.finished is not None and head.finished.outcome is TurnOutcome.SUCCESS
    return head.turns, head.at if well and head.open is None else 0.0
