"""Host sessions (worker and process of each), logical sessions above them, and marker states."""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.kernel.process import Process, parse_process
from vyane_cli.kernel.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Markers(NamedTuple):
    """The marker files that the guard and other ticks must find beside the session afterwards."""

    pending: bool
    control: bool
    proof: bool
    due_ms: int | None
    """Milliseconds until mail that may start a turn is due; None when no such mail exists."""


class HostSession(NamedTuple):
    """One session of a host program, as stored in `sessions/{id}.json`."""

    id: str
    host: str
    worker: str
    name: str
    logical_session: str
    process: Process | None = None
    others: tuple[Process, ...] = ()
    """Live processes that claim the same id. Such a process gets no mail."""
    cwd: str = ""
    transcript: str = ""
    config_dir: str = ""
    attended: bool = True
    started_at: float = 0.0
    source: str = ""
    ended: str = ""
    """Reason of the end; empty while the session has not ended."""
    ended_at: float | None = None
    replaced_by: str = ""
    generation_at: float = 0.0
    """Unix seconds since when this owner has the worker's name; older mail was for another."""
    trace: str | None = None
    parent_span: str | None = None
    terminal: tuple[str, ...] = ()
    """Socket and pane of tmux. A hint, proven before a key is typed."""
    unknown: Mapping[str, Any] = {}


def parse_session(data: Mapping[str, Any]) -> HostSession:
    """Return a host session from its stored form.

    ValueError or KeyError when the form is not one.
    """
    known = {key: data[key] for key in HostSession._fields if key in data and key != "unknown"}
    known["process"] = parse_process(known.get("process"))
    known["others"] = tuple(
        p for p in map(parse_process, known.get("others") or ()) if p is not None
    )
    known["terminal"] = tuple(str(part) for part in known.get("terminal") or ())
    rest = {key: value for key, value in data.items() if key not in HostSession._fields}
    return HostSession(**{**known, "unknown": rest})


def render_session(session: HostSession) -> dict[str, Any]:
    """Return the stored form of a host session."""
    data = session._asdict()
    unknown = data.pop("unknown")
    data["process"] = session.process._asdict() if session.process else None
    data["others"] = [process._asdict() for process in session.others]
    data["terminal"] = list(session.terminal)
    return {**unknown, **data}


class LogicalSession(NamedTuple):
    """A conversation independent of the program that runs it, from `logical-sessions/vs-….json`."""

    id: str
    display_name: str
    worker: str
    created_at: float
    participating_agents: tuple[str, ...] = ()
    active_runtime: str | None = None
    runtime_sessions: Mapping[str, Any] = {}
    parent_logical_id: str | None = None
    spawned_by_worker_id: str | None = None
    spawn_purpose: str | None = None
    unknown: Mapping[str, Any] = {}


def parse_logical_session(data: Mapping[str, Any]) -> LogicalSession:
    """Return a logical session from its stored form."""
    known = {key: data[key] for key in LogicalSession._fields if key in data and key != "unknown"}
    known["participating_agents"] = tuple(known.get("participating_agents") or ())
    rest = {key: value for key, value in data.items() if key not in LogicalSession._fields}
    return LogicalSession(**{**known, "unknown": rest})


def render_logical_session(session: LogicalSession) -> dict[str, Any]:
    """Return the stored form of a logical session."""
    data = session._asdict()
    unknown = data.pop("unknown")
    data["participating_agents"] = list(session.participating_agents)
    return {**unknown, **data}
