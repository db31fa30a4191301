"""The step after a tick, for every entry that serves a host: supervise the session's project."""

from __future__ import annotations

import os

from vyane_cli.delivery.tick import tick
from vyane_cli.errors import CorruptStateError, VyaneError
from vyane_cli.hosts.port import HookCall, HostEvent
from vyane_cli.sessions import registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.delivery.plan import TickPlan
    from vyane_cli.delivery.tick import Show
    from vyane_cli.home import Home
    from vyane_cli.hosts.port import Host
    from vyane_cli.storage.locks import Deadline


def tick_and_supervise(
    home: Home,
    call: HookCall,
    host: Host,
    show: Show,
    deadline: Deadline,
    *,
    guard: int = 0,
    rerun: bool = False,
) -> TickPlan | None:
    """Run the tick for a call of a host, then supervise the project of its session, if it has one.

    Return the plan, as `delivery.tick.tick` does. When a notice for the project's main worker is
    due later, a watch of that main worker sleeps until then.
    """
    plan = tick(home, call, host, show, deadline, guard=guard, rerun=rerun)
    if plan is None or not os.path.isdir(home.layout.projects):
        return plan
    session = registry.load_session(home.layout, call.session)
    return plan if session is None else _supervise(home, session.worker, call, plan, deadline)


def _supervise(
    home: Home, worker: str, call: HookCall, plan: TickPlan, deadline: Deadline
) -> TickPlan:
    """Supervise the worker's project. Return the plan; `sleeps` is set if a notice is due later."""
    from vyane_cli.projects.supervise import supervise

    try:
        outcome = supervise(home, worker, call, deadline)
    except VyaneError as error:
        if isinstance(error, CorruptStateError):
            from vyane_cli.attention.call import call_person
            from vyane_cli.attention.kinds import NeedKind, call_of

            damaged = call_of(
                NeedKind.DAMAGED, path=error.path, message=error.message, hint=error.hint
            )
            call_person(home, damaged, deadline=deadline)
        return plan  # the next tick of the project tries again
    waits = outcome is not None and outcome.waits_ms is not None
    ours = outcome is not None and outcome.project.main == worker
    watching = (
        call.event in (HostEvent.FILE_CHANGED, HostEvent.IDLE) and call.rewake and call.attended
    )
    sleeps = waits and ours and watching and plan.showing is None
    return plan._replace(sleeps=True) if sleeps else plan
