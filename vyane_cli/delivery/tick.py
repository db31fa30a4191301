"""Tick: one call of a host, start to end.

Load, decide, claim; show; settle. What a crash leaves, in this order:
before the claim: nothing; after it: a claim whose process is dead, so the message is shown again,
marked; after the output and before `delivered`: the same. Nothing is ever only in memory.
"""

from __future__ import annotations

import os

from vyane_cli.delivery import spool
from vyane_cli.delivery.plan import TickPlan
from vyane_cli.delivery.ring import nudge_overdue
from vyane_cli.delivery.transaction import Desk
from vyane_cli.errors import CorruptStateError, VyaneError
from vyane_cli.hosts.port import Event, HookCall, Reply
from vyane_cli.sessions import markers, registry
from vyane_cli.sessions.register import end_session, ensure_session
from vyane_cli.sessions.session import HostSession
from vyane_cli.storage import files
from vyane_cli.storage.locks import Kind
from vyane_cli.timeline import turns
from vyane_cli.timeline.events import EventKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from vyane_cli.home import Runtime
    from vyane_cli.hosts.port import Host
    from vyane_cli.storage.locks import Deadline

    Show = Callable[[Reply], None]


def tick(
    runtime: Runtime,
    call: HookCall,
    host: Host,
    show: Show,
    deadline: Deadline,
    *,
    guard: int = 0,
    rerun: bool = False,
) -> TickPlan | None:
    """One call. `show` writes and flushes the reply, or raises OSError: then it was not shown.

    Returns the plan (for the sleeper), None when the call is no business of ours.
    """
    if call.event in (Event.OTHER, Event.SUBAGENT) or not call.session:
        return None
    desk = None
    try:
        session = ensure_session(runtime, call, host.WORKER_TYPE, deadline)
        if session is None or not _owns(runtime, session, call):
            return None
        _keep_answer(runtime, session, call)
        desk = Desk(runtime, session, call, host, deadline, guard=guard, rerun=rerun)
        plan = desk.claim()
    except VyaneError as error:
        _watch_anyway(runtime, call, show)
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


def _watch_anyway(runtime: Runtime, call: HookCall, show: Show) -> None:
    """A start that failed is not asked again for what to watch: say it, or nothing wakes it."""
    if call.event is not Event.SESSION_START or call.rewake or not call.attended:
        return
    try:
        show(Reply(call.name, watch=(markers.watched(runtime.layout, call.session),)))
    except (OSError, VyaneError):
        return  # the failure itself is what is told


def _is_spawned(session: HostSession, call: HookCall) -> bool:
    """Whether a worker was made for this session; a subagent of it speaks for nobody."""
    return call.worker == session.worker and not call.subagent


def _keep_answer(runtime: Runtime, session: HostSession, call: HookCall) -> None:
    """What a spawned session answered last. It needs no lock, so that it is kept without one."""
    if _is_spawned(session, call) and call.event in (Event.STOP, Event.STOP_FAILURE):
        from vyane_cli.children.result import keep_candidate

        keep_candidate(runtime, session, call.result, call.error)


def _owns(runtime: Runtime, session: HostSession, call: HookCall) -> bool:
    """Whether this process is the session's, and the session its worker's present one."""
    if session.ended or session.replaced_by:
        return False
    if session.process is not None and call.process is not None and session.process != call.process:
        return False
    if call.event is Event.FILE_CHANGED and call.file:
        wake = runtime.layout.wake(session.id)
        if call.file != wake and os.path.realpath(call.file) != os.path.realpath(wake):
            return False  # a file that somebody else watches
    return registry.read_current(runtime.layout, session.worker) == session.id


def _afterwards(desk: Desk, plan: TickPlan) -> TickPlan:
    """What may be late: the session's end, notices, bounces, and other sessions' overdue mail."""
    runtime, session, call, deadline = desk.runtime, desk.session, desk.call, desk.deadline
    layout, clock = runtime.layout, runtime.clock()
    _beat(runtime, session)
    if plan.wake_self:
        with runtime.held((Kind.INBOX, session.worker), deadline=deadline):
            markers.wake(layout, session.id, clock.at)
    if call.event is Event.SESSION_END:
        end_session(runtime, session, call.source, deadline)
        broken = any(event.kind is EventKind.TURN_FINISHED for event in plan.transition.events)
        if _is_spawned(session, call) and not (call.attended or broken):  # else the launcher sees
            from vyane_cli.children.result import settle_at_end

            settle_at_end(runtime, session)
    if desk.untold or os.path.isdir(layout("queue", "untold")):
        from vyane_cli.mail.outcomes import tell, tell_left

        tell(runtime, desk.untold, deadline)
        tell_left(runtime, deadline)
    if os.path.isdir(layout.projects):
        plan = _supervise(runtime, session, call, plan, deadline)
    if call.event is not Event.SESSION_END:
        nudge_overdue(runtime, session.worker, clock)
    return plan


def _supervise(
    runtime: Runtime,
    session: HostSession,
    call: HookCall,
    plan: TickPlan,
    deadline: Deadline,
) -> TickPlan:
    """What the session's project needs. A watch of its main worker sleeps until a notice is due."""
    from vyane_cli.projects.supervise import supervise

    try:
        outcome = supervise(runtime, session.worker, call, deadline)
    except VyaneError as error:
        if isinstance(error, CorruptStateError):
            from vyane_cli.attention.call import call_person
            from vyane_cli.attention.kinds import NeedKind, call_of

            damaged = call_of(
                NeedKind.DAMAGED, path=error.path, message=error.message, hint=error.hint
            )
            call_person(runtime, damaged, deadline=deadline)
        return plan  # the next tick of the project does it
    waits = outcome is not None and outcome.waits_ms is not None
    ours = outcome is not None and outcome.project.main == session.worker
    watching = call.event in (Event.FILE_CHANGED, Event.IDLE) and call.rewake and call.attended
    sleeps = waits and ours and watching and plan.showing is None
    return plan._replace(sleeps=True) if sleeps else plan


def _beat(runtime: Runtime, session: HostSession) -> None:
    try:
        files.touch(runtime.layout.beat(session.id))
    except Exception:  # a heartbeat is not worth an error
        return


def spool_call(runtime: Runtime, call: HookCall) -> None:
    """Keep a call that could not get its locks; the session's next call commits it in order."""
    if call.event not in turns.STEPS or call.subagent:
        return
    session = registry.load_session(runtime.layout, call.session)
    if session is not None:
        spool.keep(runtime.layout, session.logical_session, call, runtime.clock())
