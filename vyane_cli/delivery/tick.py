"""Tick: one call of a host, from start to end.

Load, decide, claim; show; settle. A crash before the claim leaves nothing. A crash after the claim
leaves a claim whose process is dead, so the message is shown again, marked. A crash after the
output and before `delivered` leaves the same. No state is ever only in memory.
"""

from __future__ import annotations

import gc
import os
import time

from vyane_cli.delivery import spool
from vyane_cli.delivery.plan import TickPlan
from vyane_cli.delivery.ring import nudge_overdue
from vyane_cli.delivery.transaction import Desk
from vyane_cli.errors import CorruptStateError, LockTimeoutError, VyaneError
from vyane_cli.home import WATCH_BUDGET_S
from vyane_cli.hosts.port import HookCall, HostEvent, Reply
from vyane_cli.sessions import markers, registry
from vyane_cli.sessions.register import end_session, ensure_session
from vyane_cli.sessions.session import HostSession
from vyane_cli.storage import files, locks, processes
from vyane_cli.storage.locks import LockKind
from vyane_cli.timeline import log, turns
from vyane_cli.timeline.events import EventKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from vyane_cli.home import Home
    from vyane_cli.hosts.port import Host
    from vyane_cli.storage.locks import Deadline

    Show = Callable[[Reply], None]


def tick(
    home: Home,
    call: HookCall,
    host: Host,
    show: Show,
    deadline: Deadline,
    *,
    guard: int = 0,
    rerun: bool = False,
) -> TickPlan | None:
    """Run one call. `show` writes and flushes the reply, or raises OSError if it was not shown.

    Returns the plan (for the sleeper); None if the call does not concern vyane.
    """
    if call.event in (HostEvent.OTHER, HostEvent.SUBAGENT) or not call.session:
        return None
    desk = None
    try:
        session = ensure_session(home, call, host.WORKER_TYPE, deadline)
        if session is None or not _owns(home, session, call):
            return None
        _keep_answer(home, session, call)
        desk = Desk(home, session, call, host, deadline, guard=guard, rerun=rerun)
        plan = desk.claim()
    except VyaneError as error:
        _watch_anyway(home, call, show)
        if desk is not None and isinstance(error, CorruptStateError):
            desk.note_damage(error)
        raise
    shown = True
    if not plan.reply.empty:
        try:
            show(plan.reply)
        except OSError:
            shown = False
    if plan.showing is not None:
        desk.settle(plan.showing, shown=shown)
    return _afterwards(desk, plan)


def _watch_anyway(home: Home, call: HookCall, show: Show) -> None:
    """Tell the host which file to watch, although the start of the session failed.

    The host does not ask again; without the watch, nothing could wake the session.
    """
    if call.event is not HostEvent.SESSION_START or call.rewake or not call.attended:
        return
    try:
        show(Reply(call.name, watch=(markers.watched(home.layout, call.session),)))
    except (OSError, VyaneError):
        return  # the caller reports the failure of the start


def _is_spawned(session: HostSession, call: HookCall) -> bool:
    """Return whether the call is from a session that was spawned for its worker, not a subagent."""
    return call.worker == session.worker and not call.subagent


def _keep_answer(home: Home, session: HostSession, call: HookCall) -> None:
    """Save the last answer of a spawned session.

    This needs no lock, so the answer is saved even if the call gets none.
    """
    if _is_spawned(session, call) and call.event in (HostEvent.STOP, HostEvent.STOP_FAILURE):
        from vyane_cli.children.result import save_answer

        save_answer(home, session, call.result, call.error)


def _owns(home: Home, session: HostSession, call: HookCall) -> bool:
    """Return whether the process is the session's own, and the session its worker's current one."""
    if session.ended or session.replaced_by:
        return False
    if session.process is not None and call.process is not None and session.process != call.process:
        return False
    if call.event is HostEvent.FILE_CHANGED and call.file:
        wake = home.layout.wake(session.id)
        if call.file != wake and os.path.realpath(call.file) != os.path.realpath(wake):
            return False  # another program watches this file
    return registry.read_current(home.layout, session.worker) == session.id


def _afterwards(desk: Desk, plan: TickPlan) -> TickPlan:
    """Do the work that may be late, and return the plan.

    That is: the session's end, notices, bounces, and the overdue mail of other sessions.
    """
    home, session, call, deadline = desk.home, desk.session, desk.call, desk.deadline
    layout, clock = home.layout, home.clock()
    _beat(home, session)
    if plan.wake_self:
        with home.held((LockKind.INBOX, session.worker), deadline=deadline):
            markers.wake(layout, session.id, clock.at)
    if call.event is HostEvent.SESSION_END:
        end_session(home, session, call.source, deadline)
        broken = any(event.kind is EventKind.TURN_FINISHED for event in plan.transition.events)
        if _is_spawned(session, call) and not (call.attended or broken):  # else the launcher does
            from vyane_cli.children.result import settle_at_end

            settle_at_end(home, session)
    if desk.untold or os.path.isdir(layout("queue", "untold")):
        from vyane_cli.mail.outcomes import tell, tell_left

        tell(home, desk.untold, deadline)
        tell_left(home, deadline)
    if call.event is not HostEvent.SESSION_END:
        nudge_overdue(home, session.worker, clock)
    return plan


def _beat(home: Home, session: HostSession) -> None:
    try:
        files.touch(home.layout.beat(session.id))
    except Exception:  # a heartbeat that fails is ignored
        return


def spool_call(home: Home, call: HookCall) -> None:
    """Spool a call that could not get its locks: the session's next call commits it in order."""
    if call.event not in turns.STEPS or call.subagent:
        return
    session = registry.load_session(home.layout, call.session)
    if session is not None:
        spool.save_call(home.layout, session.logical_session, call, home.clock())


LOOK_S = 1.0
LONGEST_S = 300.0


def sleep_and_tick(
    home: Home, call: HookCall, host: Host, show: Show, run: Callable[..., TickPlan | None] = tick
) -> None:
    """Wait and tick until a reply was shown, or until nothing is left to wait for.

    `run` is the tick, or a function around the tick.
    """
    session = registry.load_session(home.layout, call.session)
    if session is None:
        return
    watched = _lock(home.layout.wake(session.id))
    if watched is None:
        return
    gc.enable()
    shown: list[Reply] = []

    def remember(reply: Reply) -> None:
        show(reply)
        shown.append(reply)

    call = call._replace(event=HostEvent.FILE_CHANGED, rewake=True, turn="")
    try:
        while _wait(home, session, host):
            deadline = home.limit = locks.Deadline(WATCH_BUDGET_S)
            try:
                plan = run(home, call, host, remember, deadline)
            except LockTimeoutError:
                if shown:
                    # the output was written: with this process the claim becomes void, and the
                    # message is shown again
                    return
                continue
            if plan is None or not plan.sleeps:
                return
    finally:
        os.close(watched)


def _lock(path: str) -> int | None:
    """Open the wake file and take its advisory lock. Return the file descriptor.

    None if a sleeper already exists, or if the file is missing.
    """
    try:
        import fcntl

        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _wait(home: Home, session: HostSession, host: Host) -> bool:
    """Wait. Return True when another tick is due, False when nothing is left to wait for."""
    layout = home.layout
    began, guard = time.monotonic(), os.getppid()
    was_idle = _idle(home, session, host)
    while True:
        time.sleep(LOOK_S)
        if os.getppid() != guard:
            return False  # the host has ended this handler, and no longer reads its output
        due = files.read_text(layout.due(session.worker))
        if not os.path.exists(layout.due(session.worker)):
            return False
        if registry.read_current(layout, session.worker) != session.id:
            return False
        if processes.is_present(session.process) is False:
            return False
        idle = _idle(home, session, host)
        clock = home.clock()
        waited = time.monotonic() - began
        soon = due.isdecimal() and int(due) - clock.now_ms > 0
        if waited >= LONGEST_S or (idle and not was_idle) or (not soon and idle):
            return True
        was_idle = idle


def _idle(home: Home, session: HostSession, host: Host) -> bool:
    """Return whether no turn is open, or the host's own record says that the turn has ended."""
    head = log.read_head(home.layout.timeline(session.logical_session))
    if head is None or head.open is None or session.process is None:
        return True
    return host.says_idle(session.config_dir, session.process.pid, session.id, head.open.at)
