"""The speaker's identity: from the nearest host process, VYANE_WORKER, or host variables."""

from __future__ import annotations

import os

from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.sessions import registry
from vyane_cli.sessions.session import HostSession
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyane_cli.home import Home


HOST_SESSION_VARIABLES = ("CLAUDE_CODE_SESSION_ID", "CODEX_SESSION_ID", "GEMINI_SESSION_ID")
HOST_MARKS = ("CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI")
"""Variables that a host sets in its shell, even where it sets no session id."""


def whoami(home: Home) -> Speaker:
    """Return the speaker, from evidence.

    Without evidence of a host, the speaker is a person when a controlling terminal exists, and an
    external program otherwise.
    """
    environ = home.environ
    session = _by_process(home) or _by_worker(home) or _by_environment(home)
    if session is not None:
        return Speaker(FromKind.WORKER, session.worker, session.name, session)
    marks = [name for name in (*HOST_SESSION_VARIABLES, *HOST_MARKS) if environ.get(name)]
    if marks:
        known = next((environ[n] for n in HOST_SESSION_VARIABLES if environ.get(n)), marks[0])
        return Speaker(FromKind.EXTERNAL, f"agent:{known[:40]}", f"unregistered agent {known[:8]}")
    name = login_name(environ)
    if _has_terminal():
        return Speaker(FromKind.HUMAN, name, name)
    return Speaker(FromKind.EXTERNAL, name, name)


def _by_process(home: Home) -> HostSession | None:
    layout = home.layout
    by_environment = _by_environment(home)
    for pid in processes.ancestors(os.getpid()):
        session_id = registry.session_of_process(layout, [pid])
        if not is_safe_id(session_id):
            continue
        session = registry.load_session(layout, session_id)
        if session is None or session.process is None:
            continue
        if processes.identify(pid) != session.process:
            continue
        if by_environment is not None and by_environment.process == session.process:
            return by_environment  # one process, several sessions in turn: the id is more exact
        return _latest(home, session)
    return None


def _by_worker(home: Home) -> HostSession | None:
    worker = home.environ.get("VYANE_WORKER", "")
    if not is_safe_id(worker):
        return None
    return registry.current_session(home.layout, worker)


def _by_environment(home: Home) -> HostSession | None:
    for name in HOST_SESSION_VARIABLES:
        session_id = home.environ.get(name, "")
        if is_safe_id(session_id):
            session = registry.load_session(home.layout, session_id)
            if session is not None:
                return _latest(home, session)
    return None


def _latest(home: Home, session: HostSession) -> HostSession:
    """Return the session that replaced this one, or this one.

    After `/clear` a shell that still runs has the old id; the worker stays the same.
    """
    if session.replaced_by and is_safe_id(session.replaced_by):
        return registry.load_session(home.layout, session.replaced_by) or session
    return session


def login_name(environ: Mapping[str, str]) -> str:
    """Return the login name of the account."""
    for name in ("LOGNAME", "USER"):
        if environ.get(name):
            return environ[name]
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid-{os.getuid()}"


def _has_terminal() -> bool:
    """Return whether the process has a controlling terminal, also when its output is redirected."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def own_worker(home: Home, workers: registry.Registry) -> Worker | None:
    """Return the worker that runs this command; None when no worker does."""
    speaker = whoami(home)
    return workers.workers.get(speaker.id) if speaker.kind is FromKind.WORKER else None
