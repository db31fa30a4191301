"""Launcher: the small process beside a child that starts it, waits for it and reports its end.

The launcher is detached: it outlives the command that started it, and that command's host. When
the launcher is killed, the child goes on; its hooks report its end, or `wait` and `gc` end it
when its process is gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of
from vyane_cli.children import launches
from vyane_cli.children.result import settle_child, settle_exit
from vyane_cli.children.result_rules import CANCELLED, Ending, Report
from vyane_cli.errors import ConflictError, NotFoundError, VyaneError
from vyane_cli.hosts.port import HookCall, HostEvent, Reply
from vyane_cli.kernel.runtimes import child_environment, find_runtime
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import WorkerStatus, check_transition
from vyane_cli.storage import processes
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from vyane_cli.home import Home

    _Action = Callable[[], None]

    Tick = Callable[..., object]

    """The function `delivery.tick.tick`, or a wrapper of it."""


PATIENCE_S = (0.2, 1.0, 5.0, 30.0, 60.0)
"""Seconds that the launcher waits before each retry of a result."""

CANCELLED_FIRST = Report(Ending.CANCELLED, "it was cancelled before it was started", CANCELLED)


def run(home: Home, worker: str, tick: Tick, *, here: bool = False) -> None:
    """Start the child, wait for its end, and send its result unless it was sent already.

    `tick` handles the call that registers a child without hooks. `here`: run the child in the
    terminal of this process, for a person to look in.
    """
    layout = home.layout
    launch = launches.load(layout, worker)
    if launch is None or launch.launcher is not None:
        return  # not a spawned worker, or it has a launcher already
    launch = launch._replace(launcher=home.me())
    launches.save(layout, launch)
    if _is_stopped(home, worker):
        _patiently(lambda: _end(home, worker, CANCELLED_FIRST))
        return
    try:
        process = _start_here(home, launch) if here else _start(home, launch)
    except (OSError, VyaneError) as error:
        why = error.message if isinstance(error, VyaneError) else error.strerror or str(error)
        reason = f"it could not be started: {launch.command[0]}: {why}"
        _patiently(lambda: _end(home, worker, Report(Ending.ERROR, "", reason)))
        if launch.resumed and not launch.dispatch:
            _patiently(lambda: _call_person(home, worker, reason))
        return
    started = launch._replace(process=home.identify(process.pid))
    _try(lambda: launches.save(layout, started))
    if started.process is not None and _is_stopped(home, worker):
        # a cancel since the last check found no process to signal; the child has done nothing yet
        processes.send_signal(started.process, signal.SIGTERM)
    if launch.resumed:
        _try(lambda: _goes_on(home, worker))
    elif not launch.hooks:
        _try(lambda: _register(home, started, tick))
    status = process.wait()
    ended = started._replace(exit_status=status, ended_at=home.clock().at)
    _try(lambda: launches.save(layout, ended))
    if launch.resumed and not launch.dispatch and status:
        _patiently(lambda: _call_person(home, worker, f"it exited with status {status}"))
    _patiently(lambda: settle_exit(home, ended, status))


def _start(home: Home, launch: launches.Launch) -> subprocess.Popen[bytes]:
    layout = home.layout
    output = launches.open_log(layout.output(launch.worker))
    errors = launches.open_log(layout.errors(launch.worker))
    prompt = layout.resume_prompt if launch.resumed else layout.prompt
    source = os.open(prompt(launch.worker) if launch.stdin else os.devnull, os.O_RDONLY)
    try:
        return subprocess.Popen(
            launch.command,
            stdin=source,
            stdout=output,
            stderr=errors,
            cwd=launch.cwd,
            start_new_session=True,
        )
    finally:
        for fd in (output, errors, source):
            os.close(fd)


def _start_here(home: Home, launch: launches.Launch) -> subprocess.Popen[bytes]:
    """Start the child in the foreground of this terminal, with a host's variables removed.

    A pane has the environment of the tmux server, which may contain the variables of a host.
    """
    known = registry.Registry(home.layout).workers.get(launch.worker)
    configured = find_runtime(known.worker_type if known else "", home.config.runtimes)
    environment = child_environment(home.environ, configured, home.layout.root, launch.worker)
    return subprocess.Popen(launch.command, cwd=launch.cwd, env=environment)


def _register(home: Home, launch: launches.Launch, tick: Tick) -> None:
    """Register the session of a child without hooks, and settle its dispatch, by one tick."""
    host = home.host("generic")
    assert host is not None
    call = HookCall(
        "generic",
        HostEvent.CALL,
        "launch",
        launch.session,
        attended=False,
        cwd=launch.cwd,
        process=launch.process,
        worker=launch.worker,
    )
    tick(home, call, host, _unheard, home.deadline(), rerun=True)


def _goes_on(home: Home, worker: str) -> None:
    """Mark an INTERRUPTED child as RUNNING again."""
    with home.held((LockKind.REGISTRY, "")):
        book = registry.Registry(home.layout)
        known = book.workers.get(worker)
        if known is not None and known.status is WorkerStatus.INTERRUPTED:
            book.put(known._replace(status=check_transition(known.status, WorkerStatus.RUNNING)))
            book.save()


def _call_person(home: Home, worker: str, reason: str) -> None:
    """Call the person: a closed session could not be reopened for its mail, which stays unread."""
    known = registry.Registry(home.layout).workers.get(worker)
    name = known.name if known is not None else worker
    call_person(home, call_of(NeedKind.RESUME, who=name, worker=worker, name=name, why=reason))


def _unheard(reply: Reply) -> None:
    raise OSError(32, "nobody reads it")


def _is_stopped(home: Home, worker: str) -> bool:
    """Return whether the worker's record is missing, has ended, or names a cancel.

    A cancel is noted in the record before its message is sent.
    """
    known = registry.Registry(home.layout).workers.get(worker)
    if known is None or known.final:
        return True
    # in the record of an orphan `cancel_propagated_from` names its ended parent, not a cancel
    orphan = known.status is WorkerStatus.INTERRUPTED
    return bool(known.cancel_propagated_from) and not orphan


def _end(home: Home, worker: str, report: Report) -> None:
    try:
        settle_child(home, worker, report)
    except (ConflictError, NotFoundError):
        return  # it has ended, or is no longer in the registry


def _try(action: _Action) -> None:
    """Run an action whose failure does no harm to the child; print an error to the log."""
    try:
        action()
    except VyaneError as error:
        print(f"vyane: {error.message}", file=sys.stderr, flush=True)


def _patiently(action: _Action) -> None:
    """Run an action; after a failure retry it, once for each pause in PATIENCE_S.

    A result must reach the parent even when the state cannot be written at first.
    """
    for pause in (*PATIENCE_S, 0.0):
        try:
            action()
            return
        except VyaneError as error:
            print(f"vyane: {error.message}", file=sys.stderr, flush=True)
            time.sleep(pause)
