"""A worker: its fields, its status transitions, its display name, and look-up by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from vyane_cli.errors import ConflictError, InvalidInputError, NotFoundError
from vyane_cli.kernel.text import nearest_names, slug
from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.sessions.liveness_rules import Liveness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


NAME_MAX = 80


class WorkerStatus(StrEnum):
    """The status of a worker. Three are final."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    IDLE = "IDLE"
    INTERRUPTED = "INTERRUPTED"
    STALE = "STALE"
    RELEASED = "RELEASED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    KILLED = "KILLED"


_S = WorkerStatus
# fmt: off
TRANSITIONS: Mapping[WorkerStatus, frozenset[WorkerStatus]] = {
    _S.PENDING:     frozenset({_S.RUNNING, _S.FAILED, _S.KILLED}),
    _S.RUNNING:     frozenset({_S.IDLE, _S.INTERRUPTED, _S.STALE, _S.COMPLETED, _S.FAILED,
                               _S.KILLED}),
    _S.IDLE:        frozenset({_S.RUNNING, _S.INTERRUPTED, _S.STALE, _S.RELEASED, _S.COMPLETED,
                               _S.FAILED, _S.KILLED}),
    _S.INTERRUPTED: frozenset({_S.RUNNING, _S.IDLE, _S.RELEASED, _S.FAILED, _S.KILLED}),
    _S.STALE:       frozenset({_S.RUNNING, _S.IDLE, _S.RELEASED, _S.FAILED, _S.KILLED}),
    _S.RELEASED:    frozenset({_S.RUNNING, _S.IDLE}),
    _S.COMPLETED:   frozenset(),
    _S.FAILED:      frozenset(),
    _S.KILLED:      frozenset(),
}
# fmt: on
FINAL = frozenset(status for status, onward in TRANSITIONS.items() if not onward)


def check_transition(before: WorkerStatus, after: WorkerStatus) -> WorkerStatus:
    """Return `after` when the table allows it or it equals `before`; ConflictError otherwise."""
    if before is not after and after not in TRANSITIONS[before]:
        raise ConflictError(f"a worker that is {before} does not become {after}")
    return after


class Worker(NamedTuple):
    """Identity and links of a worker.

    Its present activity is folded from its session's own files.
    """

    id: str
    name: str
    worker_type: str
    logical_session_id: str
    generation: int = 1
    status: WorkerStatus = WorkerStatus.PENDING
    """As last decided by register, spawn, report or cancel. Liveness is added on display."""
    session_id: str | None = None
    task_id: str | None = None
    parent_worker_id: str | None = None
    children_worker_ids: tuple[str, ...] = ()
    discord_thread_id: str | None = None
    cancel_propagated_from: str | None = None
    pending_takeover_message_id: str | None = None
    blocked_on_message_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    dispatch_id: str | None = None
    """Id of the message that the worker was spawned for; the worker's result answers it."""
    independent: bool = False
    """True when a cancel of the parent leaves this worker running."""
    group: str | None = None
    project: str | None = None
    """The project that the worker was declared to belong to; its children belong there too."""
    long_running_until: float | None = None
    stale_since: float | None = None
    """Unix seconds of the last activity when the worker was found stale; later activity ends it."""
    stale_boot: str = ""
    """Id of the boot in which the worker was found stale; `stale_awake_ms` is the moment in it."""
    stale_awake_ms: int = 0
    failure_reason: str | None = None
    cwd: str = ""
    created_at: float = 0.0
    last_used_at: float = 0.0
    ended_at: float | None = None
    unknown: Mapping[str, Any] = {}
    """Fields of a later version, kept unchanged."""

    @property
    def final(self) -> bool:
        """Return whether the status is final."""
        return self.status in FINAL


def parse_worker(worker_id: str, data: Mapping[str, Any]) -> Worker:
    """Return a worker from its stored form; missing fields get defaults.

    TypeError or ValueError if bad.
    """
    if not isinstance(data, Mapping):
        raise TypeError("not an object")
    known = {key: data[key] for key in Worker._fields if key in data and key != "unknown"}
    known["id"] = worker_id
    known.setdefault("name", worker_id)
    known.setdefault("worker_type", "claude")
    known["logical_session_id"] = known.get("logical_session_id") or ""
    known["status"] = WorkerStatus(known.get("status", "PENDING"))
    known["children_worker_ids"] = tuple(known.get("children_worker_ids") or ())
    rest = {key: value for key, value in data.items() if key not in Worker._fields}
    return Worker(**{**known, "unknown": rest})


def render_worker(worker: Worker) -> dict[str, Any]:
    """Return the stored form of a worker."""
    data = worker._asdict()
    unknown = data.pop("unknown")
    data["children_worker_ids"] = list(worker.children_worker_ids)
    data["status"] = str(worker.status)
    return {**unknown, **data}


def is_stale(worker: Worker, last_sign_s: float) -> bool:
    """Return whether the worker was found stale and has shown no activity since."""
    return worker.status is WorkerStatus.STALE and last_sign_s <= (worker.stale_since or 0.0)


def shown_status(worker: Worker, liveness: Liveness, last_sign_s: float = 0.0) -> WorkerStatus:
    """Return the status shown to people: the stored status, adjusted by the session's liveness."""
    if worker.final or worker.status is WorkerStatus.INTERRUPTED:
        return worker.status
    if is_stale(worker, last_sign_s) and liveness is not Liveness.EXITED:
        return worker.status
    match liveness:
        case Liveness.BUSY:
            return WorkerStatus.RUNNING
        case Liveness.IDLE:
            return WorkerStatus.IDLE
        case Liveness.EXITED if worker.status is not WorkerStatus.PENDING:
            return WorkerStatus.RELEASED
        case _:
            return worker.status


# ------------------------------------------------------------------ names


RESERVED_NAMES = frozenset({"all", "parent", "children", "me"})
RESERVED_BEGINNINGS = ("-", "vs-", "w-", "channel:")


def is_reserved(name: str) -> bool:
    """Return whether the name is another kind of address, which could never reach a worker."""
    return name.casefold() in RESERVED_NAMES or name.startswith(RESERVED_BEGINNINGS)


def check_name(name: str) -> str:
    """Check a display name: printable, one line, no other kind of address. Return the name."""
    if not name.strip() or name != name.strip() or not name.isprintable():
        raise InvalidInputError("name", name, "a name: printable, without spaces around it")
    if len(name) > NAME_MAX:
        raise InvalidInputError("name", name, f"at most {NAME_MAX} characters")
    if is_reserved(name):
        raise InvalidInputError("name", name, "free: it reads like an address of another kind")
    if "\\" in name or ".." in name:
        raise InvalidInputError("name", name, "a name: without backslash and `..`")
    return name


def readable_name(folder: str, branch: str) -> str:
    """Return a name from a folder and a branch, such as `api-main`: lower case, digits and dashes.

    A name that would be another kind of address gets the prefix `session-`.
    """
    parts = [slug(folder.rstrip("/\\").replace("\\", "/").rpartition("/")[2]), slug(branch)]
    name = "-".join(part for part in parts if part) or "session"
    return f"session-{name}" if is_reserved(name) else name


def unique_name(wanted: str, taken: Collection[str]) -> str:
    """Return `wanted`, with the first number from 2 on if that name is taken. Case is ignored."""
    lower = {name.casefold() for name in taken}
    name, number = wanted[: NAME_MAX - 6], 1
    while name.casefold() in lower:
        number += 1
        name = f"{wanted[: NAME_MAX - 6]}-{number}"
    return name


NOBODY = "there is none yet: `vyane hooks install`, then start a session"


def find_worker(text: str, workers: Sequence[Worker]) -> Worker:
    """Return a worker by id, name, or unique prefix of its id; live workers before ended ones.

    NotFoundError names the nearest; ConflictError (`ambiguous`) lists the candidates.
    """
    exact = [w for w in workers if w.id == text] or [w for w in workers if w.name == text]
    if len(exact) > 1:
        exact = [w for w in exact if not w.final] or exact[-1:]
    if not exact and len(text) >= len("w-") + 4:
        exact = [w for w in workers if w.id.startswith(text)]
    if len(exact) > 1:
        found = ", ".join(f"{w.id} ({w.name})" for w in exact[:5])
        raise ConflictError(
            f"{text!r} may be {found}", slug="ambiguous", hint="type more of the id, or the name"
        )
    if not exact:
        names = [w.name for w in workers if not w.final]
        nearest = nearest_names(text, names)
        listed = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        hint = "" if nearest else f"known: {listed}" if names else NOBODY
        raise NotFoundError("worker", text, nearest, hint)
    return exact[0]
