"""Registration of host sessions and the workers that they carry, from a hook call or by hand."""

from __future__ import annotations

import os

from vyane_cli.errors import ConflictError, InvalidInputError, NotFoundError
from vyane_cli.hosts.port import HookCall, HostEvent
from vyane_cli.kernel.ids import is_safe_id, logical_session_id, worker_id
from vyane_cli.sessions import markers, registry
from vyane_cli.sessions.session import HostSession, LogicalSession
from vyane_cli.sessions.worker import Worker, WorkerStatus, check_name, readable_name, unique_name
from vyane_cli.storage import files, processes
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home
    from vyane_cli.storage.locks import Deadline


RUNTIME_KINDS = {"claude": "claude_cli", "codex": "codex", "gemini": "gemini"}


def ensure_session(
    home: Home, call: HookCall, worker_type: str, deadline: Deadline
) -> HostSession | None:
    """Return the host session of a call, registered or resumed if needed.

    Return None for a late call of an ended session, and for a SessionEnd of an unknown session. The
    common case reads one file. `/clear` and a resume keep the worker; a fork creates a new worker.
    """
    layout = home.layout
    known = registry.load_session(layout, call.session)
    if known is not None and _is_late(known, call):
        return None
    if known is not None and _unchanged(known, call):
        if registry.read_current(layout, known.worker) == known.id:
            return known
        if _is_registered(home, known.worker, deadline):
            _publish(home, known, call, deadline)
            return known
        known = None  # its registration was killed half-way: the registry is the commit point
    if known is None and call.event is HostEvent.SESSION_END:
        return None
    with home.held((LockKind.REGISTRY, ""), deadline=deadline):
        known = registry.load_session(layout, call.session)
        if known is not None and known.worker not in registry.Registry(layout).workers:
            known = None
        session = None
        if known is not None:  # a parallel call registered it a moment ago, or it is resumed
            session = known if _unchanged(known, call) else _resume(home, known, call)
        if session is None:
            session = _take_over(home, call) or _adopt(home, call)
        if session is None:
            workers = registry.Registry(layout)
            session = _create(home, workers, call, worker_type)
            workers.save()
        _carry(home, session, worker_type)
        registry.save_session(layout, session)
        if session.process is not None and session.process == call.process:
            if call.event is HostEvent.SESSION_START:
                _end_earlier(home, session)
            registry.write_process(layout, session.process.pid, session.id)
    _publish(home, session, call, deadline)
    return session


def _carry(home: Home, session: HostSession, worker_type: str) -> None:
    """Record in the logical session which host session carries it now.

    Under the registry's lock.
    """
    known = registry.load_logical_session(home.layout, session.logical_session)
    entry = {"runtime_session_id": session.id, "worker_id": session.worker}
    if known is None or entry in known.runtime_sessions.values():
        return
    worker = registry.Registry(home.layout).workers.get(session.worker)
    own = worker.worker_type if worker is not None else worker_type
    kind = RUNTIME_KINDS.get(own) or RUNTIME_KINDS.get(worker_type, own)
    sessions = {**known.runtime_sessions, kind: entry}
    carried = known._replace(active_runtime=kind, runtime_sessions=sessions)
    with files.before_commit():
        registry.save_logical_session(home.layout, carried)


def _end_earlier(home: Home, session: HostSession) -> None:
    """Mark the session that this process carried before as ended, even if its end was not reported.

    One process carries one session at a time.
    """
    assert session.process is not None
    before_id = registry.session_of_process(home.layout, [session.process.pid])
    before = registry.load_session(home.layout, before_id) if is_safe_id(before_id) else None
    if before is None or before.id == session.id or before.process != session.process:
        return
    if not (before.ended or before.replaced_by):
        at = home.clock().at
        registry.save_session(home.layout, before._replace(ended="resume", ended_at=at))


def _is_registered(home: Home, worker: str, deadline: Deadline) -> bool:
    with home.held((LockKind.REGISTRY, ""), deadline=deadline):
        return worker in registry.Registry(home.layout).workers


def _is_late(known: HostSession, call: HookCall) -> bool:
    """Return whether a call is a late call of an ended session, which is ignored.

    A start or a prompt proves that the session runs again. A tool's event may come from a
    background subagent.
    """
    opens = call.event in (HostEvent.SESSION_START, HostEvent.PROMPT, HostEvent.CALL)
    return bool(known.ended or known.replaced_by) and not opens


def _unchanged(known: HostSession, call: HookCall) -> bool:
    over = bool(known.ended or known.replaced_by)
    same = call.process is None or known.process == call.process or call.process in known.others
    if call.process in known.others and processes.is_present(known.process) is False:
        return False  # the owning process has ended: the other one carries the session now
    moved = call.event is HostEvent.SESSION_START and call.attended != known.attended
    return same and not over and not moved


def _resume(home: Home, known: HostSession, call: HookCall) -> HostSession:
    """Return the session as opened again, in this process or in another one."""
    owner = known.process
    another = call.process is not None and owner is not None and call.process != owner
    if another and not known.ended and processes.is_present(owner):
        others = tuple(p for p in known.others if processes.is_present(p) is not False)
        assert call.process is not None
        return known._replace(others=(*(p for p in others if p != call.process), call.process))
    return known._replace(
        process=call.process or owner,
        others=tuple(p for p in known.others if p != call.process),
        transcript=call.transcript or known.transcript,
        cwd=call.cwd or known.cwd,
        config_dir=call.config_dir,
        attended=call.attended,
        source=call.source or known.source,
        terminal=call.terminal,
        ended="",
        ended_at=None,
        replaced_by="",
    )


def _take_over(home: Home, call: HookCall) -> HostSession | None:
    """Return the session that follows a `/clear`, or None when the call is no such successor.

    After `/clear` the same process goes on under a new id and keeps its worker and mail.
    """
    if call.process is None or call.source not in ("clear", ""):
        return None
    layout = home.layout
    before_id = registry.session_of_process(layout, [call.process.pid])
    if not is_safe_id(before_id):
        return None
    before = registry.load_session(layout, before_id)
    if before is None or before.process != call.process:
        return None
    if call.source != "clear" and before.ended != "clear":
        return None
    registry.save_session(layout, before._replace(replaced_by=call.session))
    return _session(call, before.worker, before.name, before.logical_session, home)._replace(
        trace=before.trace,
        parent_span=before.parent_span,
        generation_at=before.generation_at,
    )


def _adopt(home: Home, call: HookCall) -> HostSession | None:
    """Give the session of a call to the pending worker that it was started for.

    Return the session, or None when no such worker without a session exists.
    """
    if not is_safe_id(call.worker):
        return None
    workers = registry.Registry(home.layout)
    worker = workers.workers.get(call.worker)
    if worker is None or worker.status is not WorkerStatus.PENDING or worker.session_id:
        return None
    now = home.clock().at
    workers.put(
        worker._replace(session_id=call.session, status=WorkerStatus.RUNNING, last_used_at=now)
    )
    workers.save()
    session = _session(call, worker.id, worker.name, worker.logical_session_id, home)
    return session._replace(trace=worker.trace_id, parent_span=worker.span_id)


def _create(
    home: Home,
    workers: registry.Registry,
    call: HookCall,
    worker_type: str,
    name: str = "",
) -> HostSession:
    """Create a worker with its own logical session. The caller commits by saving the registry."""
    layout, clock = home.layout, home.clock()
    taken = [worker.name for worker in workers.listing()]
    name = name or unique_name(readable_name(*folder_and_branch(call.cwd)), taken)
    worker = Worker(
        _fresh(workers, home),
        name,
        worker_type,
        logical_session_id(home.entropy(6)),
        status=WorkerStatus.IDLE,
        session_id=call.session,
        cwd=call.cwd,
        created_at=clock.at,
        last_used_at=clock.at,
    )
    runtime_kind = RUNTIME_KINDS.get(worker_type, worker_type)
    owned = LogicalSession(
        id=worker.logical_session_id,
        display_name=name,
        worker=worker.id,
        created_at=clock.at,
        participating_agents=(worker.id,),
        active_runtime=runtime_kind,
        runtime_sessions={
            runtime_kind: {"runtime_session_id": call.session, "worker_id": worker.id}
        },
    )
    session = _session(call, worker.id, name, worker.logical_session_id, home)
    with files.before_commit():
        registry.save_logical_session(layout, owned)
        registry.save_session(layout, session)
    workers.put(worker)
    return session


def _session(call: HookCall, worker: str, name: str, logical: str, home: Home) -> HostSession:
    return HostSession(
        id=call.session,
        host=call.host,
        worker=worker,
        name=name,
        logical_session=logical,
        process=call.process,
        cwd=call.cwd,
        transcript=call.transcript,
        config_dir=call.config_dir,
        attended=call.attended,
        started_at=home.clock().at,
        source=call.source,
        terminal=call.terminal,
    )


def _fresh(workers: registry.Registry, home: Home) -> str:
    while (candidate := worker_id(home.entropy(6))) in workers.workers:
        pass
    return candidate


def _publish(home: Home, session: HostSession, call: HookCall, deadline: Deadline) -> None:
    """Make the session its worker's present session, under the inbox lock and before any fold."""
    if session.process is not None and call.process is not None and session.process != call.process:
        return  # a second process on one session gets no mail
    with home.held((LockKind.INBOX, session.worker), deadline=deadline):
        before = registry.read_current(home.layout, session.worker)
        if before != session.id and _may_replace(home, before, call):
            registry.write_current(home.layout, session.worker, session.id)
            if before and is_safe_id(before):
                markers.remove_all(home.layout, before)


def _may_replace(home: Home, before: str, call: HookCall) -> bool:
    """Return whether the call may replace the worker's present session.

    A SESSION_START and a CALL always may; other events only when the present session has ended.
    """
    if call.event in (HostEvent.SESSION_START, HostEvent.CALL) or not is_safe_id(before):
        return True
    other = registry.load_session(home.layout, before)
    return other is None or bool(other.replaced_by) or registry.has_ended(other)


def end_session(home: Home, session: HostSession, reason: str, deadline: Deadline) -> None:
    """Record the end of a session (SessionEnd). Its worker and its mail stay."""
    with home.held((LockKind.REGISTRY, ""), deadline=deadline):
        known = registry.load_session(home.layout, session.id) or session
        if known.process != session.process:
            return  # a resume has taken the session over
        registry.save_session(
            home.layout, known._replace(ended=reason or "other", ended_at=home.clock().at)
        )
        if reason == "clear" and session.process is not None:
            registry.write_process(home.layout, session.process.pid, session.id)
    with home.held((LockKind.INBOX, session.worker), deadline=deadline):
        markers.remove_all(home.layout, session.id)


def register_worker(
    home: Home, name: str, *, session_id: str, cwd: str, pid: int, worker_type: str
) -> Worker:
    """Register a worker of a host without hooks, by name.

    The name of an exited worker continues as the next generation of that worker. Its older mail is
    offered with a note, and the name never passes to a stranger silently.
    """
    check_name(name)
    if not is_safe_id(worker_type):
        form = "a word of 1 to 128 of A-Z, a-z, 0-9, _ and -"
        raise InvalidInputError("type", worker_type, form)
    process = processes.identify(pid) if pid else None
    if pid and process is None:
        raise NotFoundError("process", str(pid))
    session = session_id or "g-" + home.entropy(8).hex()
    if not is_safe_id(session):
        raise InvalidInputError("session-id", session, "an id: 1 to 128 of A-Z, a-z, 0-9, _ and -")
    call = HookCall("generic", HostEvent.CALL, "register", session, cwd=cwd, process=process)
    deadline = home.deadline()
    layout = home.layout
    with home.held((LockKind.REGISTRY, ""), deadline=deadline):
        workers = registry.Registry(layout)
        if registry.load_session(layout, session) is not None:
            raise ConflictError(f"session {session} is registered already")
        same = [w for w in workers.listing() if w.name.casefold() == name.casefold()]
        if same:
            host_session = _next_generation(home, workers, same[-1], call)
        else:
            host_session = _create(home, workers, call, worker_type, name)
        _carry(home, host_session, worker_type)
        with files.before_commit():
            registry.save_session(layout, host_session)
            if process is not None:
                registry.write_process(layout, process.pid, session)
            _publish(home, host_session, call, deadline)
        workers.save()
    return workers.workers[host_session.worker]


def _next_generation(
    home: Home, workers: registry.Registry, worker: Worker, call: HookCall
) -> HostSession:
    before = registry.current_session(home.layout, worker.id)
    if not registry.has_ended(before) and not worker.final:
        raise ConflictError(
            f"{worker.name} is a live worker ({worker.id})",
            hint=f"choose another name, such as {unique_name(worker.name, [worker.name])}",
        )
    now = home.clock().at
    workers.put(
        worker._replace(
            generation=worker.generation + 1,
            session_id=call.session,
            status=WorkerStatus.IDLE,
            cwd=call.cwd,
            last_used_at=now,
            ended_at=None,
            # the request it was spawned for has ended; a child that has not ended still owes its
            # result
            dispatch_id=None if worker.final else worker.dispatch_id,
            cancel_propagated_from=None,
            failure_reason=None,
        )
    )
    session = _session(call, worker.id, worker.name, worker.logical_session_id, home)
    return session._replace(generation_at=now)


def folder_and_branch(cwd: str) -> tuple[str, str]:
    """Return the folder of the work tree around `cwd` and its git branch, without running git."""
    folder = cwd
    while folder and folder != os.path.dirname(folder):
        git = os.path.join(folder, ".git")
        if os.path.isdir(git):
            return folder, _branch(git)
        if os.path.isfile(git):  # a worktree: `gitdir: PATH`
            pointer = files.read_text(git)
            target = pointer.partition("gitdir:")[2].strip()
            return folder, _branch(os.path.join(folder, target)) if target else ""
        folder = os.path.dirname(folder)
    return cwd, ""


def _branch(git_dir: str) -> str:
    head = files.read_text(os.path.join(git_dir, "HEAD"))
    return head.rpartition("refs/heads/")[2] if "refs/heads/" in head else ""
