"""Who is speaking: the nearest host process, then VYANE_WORKER, then a host's environment ids."""

from __future__ import annotations

import os

from vyane_cli.errors import InvalidInputError, RefusedError
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.sessions import registry
from vyane_cli.sessions.session import HostSession
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyane_cli.home import Runtime


HOST_SESSION_VARIABLES = ("CLAUDE_CODE_SESSION_ID", "CODEX_SESSION_ID", "GEMINI_SESSION_ID")
HOST_MARKS = ("CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI")
"""Set inside a host's shell even where no session id is."""


def whoami(runtime: Runtime) -> Speaker:
    """The speaker, from evidence. No host evidence: a person at a terminal, or something else."""
    environ = runtime.environ
    session = _by_process(runtime) or _by_worker(runtime) or _by_environment(runtime)
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


def _by_process(runtime: Runtime) -> HostSession | None:
    layout = runtime.layout
    by_environment = _by_environment(runtime)
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
        return _latest(runtime, session)
    return None


def _by_worker(runtime: Runtime) -> HostSession | None:
    worker = runtime.environ.get("VYANE_WORKER", "")
    if not is_safe_id(worker):
        return None
    return registry.current_session(runtime.layout, worker)


def _by_environment(runtime: Runtime) -> HostSession | None:
    for name in HOST_SESSION_VARIABLES:
        session_id = runtime.environ.get(name, "")
        if is_safe_id(session_id):
            session = registry.load_session(runtime.layout, session_id)
            if session is not None:
                return _latest(runtime, session)
    return None


def _latest(runtime: Runtime, session: HostSession) -> HostSession:
    """After `/clear` a shell that still runs has the old id: its worker is the same."""
    if session.replaced_by and is_safe_id(session.replaced_by):
        return registry.load_session(runtime.layout, session.replaced_by) or session
    return session


def login_name(environ: Mapping[str, str]) -> str:
    """The account's name."""
    for name in ("LOGNAME", "USER"):
        if environ.get(name):
            return environ[name]
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid-{os.getuid()}"


def _has_terminal() -> bool:
    """Whether there is a controlling terminal: redirected output does not hide it."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def claim_kind(runtime: Runtime, given: str | None, speaker: Speaker) -> Speaker:
    """The speaker under `--from-kind`. An agent cannot make itself a person: exit 5."""
    if given is None or given == speaker.kind:
        return speaker
    if given not in tuple(FromKind):
        raise InvalidInputError("from-kind", given, "one of " + ", ".join(FromKind))
    if given == FromKind.WORKER:
        raise InvalidInputError(
            "from-kind",
            given,
            "yours: this command does not run in a known session",
            hint="set VYANE_WORKER to the worker's id, or register it: vyane workers register",
        )
    if given == FromKind.HUMAN:
        require_person(runtime, speaker, "speak as a person")
    name = login_name(runtime.environ)
    return Speaker(FromKind(given), name, name, speaker.session)


def require_person(runtime: Runtime, speaker: Speaker, what: str) -> None:
    """Refuse an agent that uses the person's authority, and say so in its timeline."""
    if not speaker.in_host or is_authorised(runtime, speaker):
        return
    if speaker.session is not None:
        from vyane_cli.sessions.facts import diagnose

        diagnose(runtime, speaker.session, "direction", f"refused: {what}")
    whose = f": this is the session of {speaker.session.name}" if speaker.session else ""
    raise RefusedError(
        f"an agent may not {what}{whose}",
        slug="direction",
        hint="the person runs this in a terminal, or lists the worker under [authority]",
    )


def is_authorised(runtime: Runtime, speaker: Speaker) -> bool:
    """Whether `[authority] workers` lists the speaker, by its id: a name may be taken."""
    return speaker.id in runtime.config["authority.workers"]


def own_worker(runtime: Runtime, workers: registry.Registry) -> Worker | None:
    """The worker that runs this command, if one does."""
    speaker = whoami(runtime)
    return workers.workers.get(speaker.id) if speaker.kind is FromKind.WORKER else None
