"""Sleep: the one process of a session that waits for mail which may not start a turn yet.

A watch that was refused becomes it. It ticks again when the mail is due, at most 300 s later, or
within 2 s of the session turning idle, and ends when nothing is due, when the session is replaced
or its process is gone. It holds an advisory lock on the wake file, so that there is one.
"""

from __future__ import annotations

import gc
import os
import time

from vyane_cli.delivery.tick import tick
from vyane_cli.errors import LockTimeoutError
from vyane_cli.home import WATCH_BUDGET_S
from vyane_cli.hosts.port import Event, HookCall, Reply
from vyane_cli.sessions import registry
from vyane_cli.storage import files, locks, processes
from vyane_cli.timeline import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.delivery.tick import Show
    from vyane_cli.home import Runtime
    from vyane_cli.hosts.port import Host
    from vyane_cli.sessions.session import HostSession

LOOK_S = 1.0
LONGEST_S = 300.0


def sleep_and_tick(runtime: Runtime, call: HookCall, host: Host, show: Show) -> None:
    """Wait and tick until something was shown or there is nothing to wait for."""
    session = registry.load_session(runtime.layout, call.session)
    if session is None:
        return
    watched = _lock(runtime.layout.wake(session.id))
    if watched is None:
        return
    gc.enable()
    shown: list[Reply] = []

    def remember(reply: Reply) -> None:
        show(reply)
        shown.append(reply)

    call = call._replace(event=Event.FILE_CHANGED, rewake=True, turn="")
    try:
        while _wait(runtime, session, host):
            deadline = runtime.limit = locks.Deadline(WATCH_BUDGET_S)
            try:
                plan = tick(runtime, call, host, remember, deadline)
            except LockTimeoutError:
                if shown:
                    return  # it is out: the claim is void with this process, and comes again
                continue
            if plan is None or not plan.sleeps:
                return
    finally:
        os.close(watched)


def _lock(path: str) -> int | None:
    """The wake file under an advisory lock; None when there is a sleeper already, or no file."""
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


def _wait(runtime: Runtime, session: HostSession, host: Host) -> bool:
    """True when it is time for another tick, False when there is nothing to wait for."""
    layout = runtime.layout
    began, guard = time.monotonic(), os.getppid()
    was_idle = _idle(runtime, session, host)
    while True:
        time.sleep(LOOK_S)
        if os.getppid() != guard:
            return False  # the host has ended this handler: nobody hears it any more
        due = files.read_text(layout.due(session.worker))
        if not os.path.exists(layout.due(session.worker)):
            return False
        if registry.read_current(layout, session.worker) != session.id:
            return False
        if processes.is_present(session.process) is False:
            return False
        idle = _idle(runtime, session, host)
        clock = runtime.clock()
        waited = time.monotonic() - began
        soon = due.isdecimal() and int(due) - clock.now_ms > 0
        if waited >= LONGEST_S or (idle and not was_idle) or (not soon and idle):
            return True
        was_idle = idle


def _idle(runtime: Runtime, session: HostSession, host: Host) -> bool:
    """No turn is open, or the host's own record says that it is over."""
    head = log.read_head(runtime.layout.timeline(session.logical_session))
    if head is None or head.open is None or session.process is None:
        return True
    return host.says_idle(session.config_dir, session.process.pid, session.id, head.open.at)
