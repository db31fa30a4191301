"""Resume: reopen a closed session without a person, for waiting mail or an interrupted child.

Disabled unless `delivery.resume` allows it. The attempt and the launch are on disk before a process
is started; a kill in between leaves a launch without a launcher, which counts as ended after a
minute. The session's own hooks hand over the mail: its SessionStart takes it.
"""

from __future__ import annotations

import os

from vyane_cli.children import launches
from vyane_cli.children.start import start_launcher
from vyane_cli.delivery.attempts import record_start
from vyane_cli.delivery.gating import Decision, Readings
from vyane_cli.delivery.resume_rules import RESUMES_MAX, Allow, Closed, ask_resume, decide_start
from vyane_cli.errors import InvalidInputError, VyaneError
from vyane_cli.kernel.runtimes import (
    ChildRuntime,
    child_environment,
    fill,
    find_runtime,
    takes_prompt,
)
from vyane_cli.mail.mailbox import MailEntry
from vyane_cli.sessions import registry
from vyane_cli.sessions.session import HostSession
from vyane_cli.sessions.worker import TRANSITIONS, Worker, WorkerStatus, check_transition
from vyane_cli.storage import files, processes
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home
    from vyane_cli.kernel.clock import Clock

WAY = "resume"
STARTING_S = 60.0
"""Seconds for which a launch may exist without its launcher."""


def allowed(home: Home) -> Allow:
    """Return which sessions the settings allow to be resumed."""
    return Allow(home.config["delivery.resume"])


def may_resume(home: Home, worker: Worker) -> bool:
    """Return whether a closed session would be reopened for mail, or is being reopened now."""
    allow = allowed(home)
    if allow is Allow.NEVER:
        return False
    return ask_resume(close_look(home, worker), allow) in ("", "resume/starting")


def resume_waiting(home: Home, clock: Clock) -> tuple[str, ...]:
    """Resume each closed session that has waiting mail and may be resumed. Return its workers' ids.

    Called by a round and by `gc`. An error with one session does not stop the others.
    """
    if allowed(home) is Allow.NEVER:
        return ()
    found = []
    for worker in files.listdir(home.layout("due")):
        try:
            if resume_for_mail(home, worker, clock):
                found.append(worker)
        except VyaneError:
            continue
    return tuple(found)


def resume_for_mail(home: Home, worker_id: str, clock: Clock) -> bool:
    """Resume a worker's session if it is closed, mail waits and no rule refuses.

    Return whether a launcher was started.
    """
    allow, layout = allowed(home), home.layout
    worker = registry.Registry(layout).workers.get(worker_id) if allow is not Allow.NEVER else None
    if worker is None or ask_resume(close_look(home, worker), allow):
        return False
    logical = worker.logical_session_id
    with home.held((LockKind.INBOX, worker.id), (LockKind.INBOX, logical or worker.id)):
        if ask_resume(close_look(home, worker), allow):
            return False  # another process was faster
        launch = launches.load(layout, worker.id)
        tried_s = launch.at if launch is not None and launch.resumed else 0.0

        def choose(
            entries: list[MailEntry], readings: Readings
        ) -> tuple[MailEntry, Decision] | None:
            return decide_start(entries, readings, WAY, tried_s)

        if record_start(home, worker, clock, WAY, choose) is None:
            return False
        _prepare(home, worker, "resume-mail", clock)
    _start(home, worker)
    return True


def resume_lost(home: Home, worker_id: str) -> bool:
    """Resume an interrupted child, if that is allowed: it is INTERRUPTED until it runs again.

    Return whether a launcher was started.
    """
    layout, allow = home.layout, allowed(home)
    worker = registry.Registry(layout).workers.get(worker_id)
    launch = launches.load(layout, worker_id)
    if worker is None or launch is None or launch.resumed >= RESUMES_MAX:
        return False
    if ask_resume(close_look(home, worker), allow):
        return False
    with home.held((LockKind.REGISTRY, "")):
        book = registry.Registry(layout)
        known = book.workers.get(worker.id)
        if known is None or known.final or ask_resume(close_look(home, known), allow):
            return False
        if known.status is not WorkerStatus.INTERRUPTED:
            book.put(known._replace(status=_interrupted(known.status)))
            book.save()
        _prepare(home, worker, "resume-lost", home.clock())
    _start(home, worker)
    return True


def _interrupted(status: WorkerStatus) -> WorkerStatus:
    """Return INTERRUPTED, by way of RUNNING if the table has no direct transition."""
    if WorkerStatus.INTERRUPTED not in TRANSITIONS[status]:
        status = check_transition(status, WorkerStatus.RUNNING)
    return check_transition(status, WorkerStatus.INTERRUPTED)


def close_look(home: Home, worker: Worker) -> Closed:
    """Return the facts about a worker's session that the resume rule needs."""
    layout = home.layout
    session = registry.current_session(layout, worker.id)
    launch = launches.load(layout, worker.id)
    gone = session is not None and all(
        processes.is_present(process) is False for process in (session.process, *session.others)
    )
    starting = False
    if launch is not None and launch.launcher is None:
        starting = launches.age_s(launch, home.clock()) < STARTING_S
    elif launch is not None:
        known = [one for one in (launch.launcher, launch.process) if one is not None]
        gone = gone and all(processes.is_present(one) is False for one in known)
    found = _runtime_of(home, worker)
    return Closed(
        gone=gone,
        ended=session.ended if session is not None else "",
        child=bool(worker.dispatch_id),
        over=worker.final or bool(worker.cancel_propagated_from),
        command=found is not None and bool(found.resume) and found.hooks,
        starting=starting,
    )


def _runtime_of(home: Home, worker: Worker) -> ChildRuntime | None:
    try:
        return find_runtime(worker.worker_type, home.config.runtimes)
    except InvalidInputError:
        return None


def _prepare(home: Home, worker: Worker, text: str, clock: Clock) -> None:
    """Save the prompt and the launch: both are on disk before a process is started."""
    layout = home.layout
    found = _runtime_of(home, worker)
    session = registry.current_session(layout, worker.id)
    before = launches.load(layout, worker.id)
    assert found is not None
    assert session is not None
    prompt = home.templates.fill(text, name=worker.name)
    launches.save_prompt(layout, worker.id, prompt, resumed=True)
    cwd = session.cwd or worker.cwd
    values = {
        "prompt_file": layout.resume_prompt(worker.id),
        "prompt": prompt,
        "session_id": session.id,
        "cwd": cwd,
        "worker": worker.id,
    }
    launch = launches.Launch(
        worker=worker.id,
        dispatch=worker.dispatch_id or "",
        command=fill(found.resume, values),
        cwd=cwd if os.path.isdir(cwd) else "/",
        session=session.id,
        hooks=found.hooks,
        stdin=not takes_prompt(found.resume),
        at=clock.at,
        resumed=(before.resumed if before is not None else 0) + 1,
        boot=clock.boot,
        awake_ms=clock.awake_ms,
    )
    launches.save(layout, launch)


def _start(home: Home, worker: Worker) -> None:
    found = _runtime_of(home, worker)
    session = registry.current_session(home.layout, worker.id)
    if found is None or session is None:
        return
    environment = child_environment(home.environ, found, home.layout.root, worker.id)
    start_launcher(home, worker.id, {**environment, **_variables(home, session)})


def _variables(home: Home, session: HostSession) -> dict[str, str]:
    """Return the variables that a new process of the host needs to find the session."""
    host = home.host(session.host)
    return host.variables(session.config_dir, home.environ) if host is not None else {}
