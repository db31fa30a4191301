"""Report: a child's own word to its parent: progress, a longer silence, or its result."""

from __future__ import annotations

from dataclasses import dataclass

from vyane_cli.children.result import Settled, check_reportable, settle_child
from vyane_cli.children.result_rules import Ending, Report
from vyane_cli.errors import ConflictError, InvalidInputError
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.mail.message import Kind
from vyane_cli.mail.once import Sent
from vyane_cli.mail.send import Draft, send
from vyane_cli.sessions import registry
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage.locks import Kind as LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime

ERROR_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedSilence:
    """Until when no sign of a worker is expected."""

    worker: str
    long_running_until: float


def report_result(runtime: Runtime, text: str, *, failed: bool) -> Settled:
    """Send this worker's result: it has ended with it. ConflictError for a second one."""
    worker = own_worker(runtime)
    check_reportable(worker)
    if not text.strip():
        raise InvalidInputError("result", text, "a text")
    error = text.strip().splitlines()[0][:ERROR_CHARS] if failed else ""
    report = Report(Ending.ERROR if failed else Ending.SUCCESS, text, error)
    return settle_child(runtime, worker.id, report)


def report_progress(runtime: Runtime, text: str) -> Sent:
    """Tell the parent how far this worker is. It wakes nobody."""
    worker = own_worker(runtime)
    if not worker.parent_worker_id:
        raise ConflictError(f"{worker.name} has no parent to report to", slug="no_dispatch")
    if not text.strip():
        raise InvalidInputError("progress", text, "a text")
    speaker = whoami(runtime)
    if speaker.id != worker.id:
        speaker = Speaker(FromKind.WORKER, worker.id, worker.name)
    draft = Draft(worker.parent_worker_id, text, Kind.STATUS_UPDATE)
    return send(runtime, draft, speaker)


def report_long_running(runtime: Runtime, seconds: float) -> ExpectedSilence:
    """Say that this worker may be silent for so long without being stale."""
    own = own_worker(runtime)
    with runtime.held((LockKind.REGISTRY, "")):
        workers = registry.Registry(runtime.layout)
        worker = workers.workers[own.id]
        if worker.final:
            raise ConflictError(f"{worker.name} has ended ({worker.status})", slug="worker_ended")
        until = runtime.clock().at + seconds
        worker = worker._replace(long_running_until=until)
        workers.put(worker)
        workers.save()
    return ExpectedSilence(worker=worker.id, long_running_until=until)


def own_worker(runtime: Runtime) -> Worker:
    """The worker that runs this command; VYANE_WORKER alone will do in a child without hooks."""
    workers = registry.Registry(runtime.layout).workers
    speaker = whoami(runtime)
    if speaker.kind is FromKind.WORKER and speaker.id in workers:
        return workers[speaker.id]
    spawned = runtime.environ.get("VYANE_WORKER", "")
    if is_safe_id(spawned) and spawned in workers:
        return workers[spawned]
    raise InvalidInputError(
        "worker",
        spawned,
        f"{'known' if spawned else 'given'}: this command does not run in a worker's session",
        missing=not spawned,
        hint="run it inside the child",
    )
