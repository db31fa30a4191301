"""Reports of a child to its parent: progress, an expected silence, or the result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vyane_cli.children import launches
from vyane_cli.children.result import EndedChild, check_reportable, settle_child, settle_lost
from vyane_cli.children.result_rules import Ending, Report, result_id
from vyane_cli.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    StorageError,
    VyaneError,
)
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.mail.enqueue import Sent
from vyane_cli.mail.lookup import find_message
from vyane_cli.mail.message import Message, MessageKind
from vyane_cli.mail.send import CheckedDraft, MessageDraft, check_draft, send, send_checked
from vyane_cli.sessions import registry
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.sessions.worker import Worker, WorkerStatus, find_worker
from vyane_cli.storage import processes
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


ERROR_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedSilence:
    """A period in which no sign of a worker is expected."""

    worker: str
    long_running_until: float
    """End of the period, in Unix seconds."""


def report_result(home: Home, text: str, *, failed: bool) -> EndedChild:
    """Send this worker's result, which ends the worker. ConflictError for a second result."""
    worker = own_worker(home)
    check_reportable(worker)
    if not text.strip():
        raise InvalidInputError("result", text, "a text")
    error = text.strip().splitlines()[0][:ERROR_CHARS] if failed else ""
    report = Report(Ending.ERROR if failed else Ending.SUCCESS, text, error)
    return settle_child(home, worker.id, report)


def send_or_report(home: Home, draft: MessageDraft, speaker: Speaker | None = None) -> Sent:
    """Send a draft; a task result also ends the child that sends it.

    Raises the same errors as `mail.send.send`, and ConflictError for a result that is refused.
    """
    checked = check_draft(home, draft, speaker)
    if checked.kind is MessageKind.TASK_RESULT:
        return _send_result(home, checked)
    return send_checked(home, checked)


def _send_result(home: Home, checked: CheckedDraft) -> Sent:
    """Send the result of a dispatch, once, and end the child, as `report --result` does.

    Raises ConflictError when the child has no dispatch, when the draft names another correlation,
    and for a second result without an idempotency key. With a key, the first result is returned.
    """
    draft, payload = checked.draft, checked.payload
    child = checked.workers.workers[checked.speaker.id]
    dispatch = child.dispatch_id or ""
    names = tuple(target.name for target in checked.targets)
    if dispatch and draft.correlation_id not in (None, dispatch):
        raise ConflictError(
            f"{child.name} was dispatched by {dispatch}, not by {draft.correlation_id}",
            hint="a result has the correlation of its dispatch by itself",
        )
    if dispatch and child.final and draft.idempotency_key is not None:
        return Sent((find_message(home, result_id(dispatch)).message,), True, names)
    check_reportable(child)
    ending = Ending.SUCCESS if payload["success"] else Ending.ERROR
    text, error = str(payload.get("summary") or ""), str(payload.get("error") or "")
    report = Report(ending, text, error, tuple(payload.get("artifacts") or ()))
    message = settle_child(home, child.id, report).message
    assert message is not None  # the parent is the target, so it is known
    return Sent((message,), names=names)


def report_progress(home: Home, text: str) -> Sent:
    """Send the parent a status update of this worker. The update wakes no session."""
    worker = own_worker(home)
    if not worker.parent_worker_id:
        raise ConflictError(f"{worker.name} has no parent to report to", slug="no_dispatch")
    if not text.strip():
        raise InvalidInputError("progress", text, "a text")
    speaker = whoami(home)
    if speaker.id != worker.id:
        speaker = Speaker(FromKind.WORKER, worker.id, worker.name)
    draft = MessageDraft(worker.parent_worker_id, text, MessageKind.STATUS_UPDATE)
    return send(home, draft, speaker)


def report_long_running(home: Home, seconds: float) -> ExpectedSilence:
    """Allow this worker to be silent for `seconds` without being marked stale."""
    own = own_worker(home)
    with home.held((LockKind.REGISTRY, "")):
        workers = registry.Registry(home.layout)
        worker = workers.workers[own.id]
        if worker.final:
            raise ConflictError(f"{worker.name} has ended ({worker.status})", slug="worker_ended")
        until = home.clock().at + seconds
        worker = worker._replace(long_running_until=until)
        workers.put(worker)
        workers.save()
    return ExpectedSilence(worker=worker.id, long_running_until=until)


def own_worker(home: Home) -> Worker:
    """Return the worker that runs this command.

    In a child without hooks VYANE_WORKER alone names the worker. Raises InvalidInputError outside
    of a worker's session.
    """
    workers = registry.Registry(home.layout).workers
    speaker = whoami(home)
    if speaker.kind is FromKind.WORKER and speaker.id in workers:
        return workers[speaker.id]
    spawned = home.environ.get("VYANE_WORKER", "")
    if is_safe_id(spawned) and spawned in workers:
        return workers[spawned]
    raise InvalidInputError(
        "worker",
        spawned,
        f"{'known' if spawned else 'given'}: this command does not run in a worker's session",
        missing=not spawned,
        hint="run it inside the child",
    )


LOOK_S = 0.2
"""Seconds between two looks at the registry."""
LOST_S = 2.0
"""Seconds between two checks whether the processes of the children still run."""

Progress = Callable[[int, int], object]
"""Called with the number of workers that have ended, and the number of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnd:
    """The end of a worker. For a worker that has left the registry only `worker` is known."""

    worker: str
    name: str | None = None
    status: WorkerStatus | None = None
    success: bool | None = None
    message_id: str | None = None
    summary: str | None = None


def wait(
    home: Home,
    who: Sequence[str],
    *,
    enough: int,
    timeout_s: float,
    progress: Progress = lambda done, whole: None,
) -> list[WorkerEnd]:
    """Wait until `enough` of these workers have ended. Returns what is then known of each worker.

    Raises RefusedError (`timed_out`) after `timeout_s` seconds; the timeout changes no state.
    """
    listed = registry.Registry(home.layout).listing()
    ids = list(dict.fromkeys(find_worker(one, listed).id for one in who))
    enough = min(enough, len(ids))
    end = time.monotonic() + timeout_s
    looked = time.monotonic()
    while True:
        workers = registry.Registry(home.layout).workers
        waiting = [workers[one] for one in ids if one in workers and not workers[one].final]
        progress(len(ids) - len(waiting), len(ids))
        if len(ids) - len(waiting) >= enough:
            return [describe(home, workers.get(one), one) for one in ids]
        now = time.monotonic()
        if now >= end:
            names = ", ".join(worker.name for worker in waiting[:5])
            raise RefusedError(
                f"after {timeout_s:.0f} s still at work: {names}",
                slug="timed_out",
                hint="the same command waits on; results arrive by themselves too",
            )
        if now - looked >= LOST_S:
            looked = now
            for worker in waiting:
                _settle(home, worker)
        time.sleep(min(LOOK_S, max(end - now, 0.0)))


def _settle(home: Home, worker: Worker) -> None:
    try:
        settle_lost(home, worker)
    except VyaneError:
        return  # such as a busy lock: the next check tries again


def describe(home: Home, worker: Worker | None, worker_id: str) -> WorkerEnd:
    """Return a worker's end; `worker` is None when the worker has left the registry."""
    if worker is None:
        return WorkerEnd(worker=worker_id)
    message = result_of(home, worker)
    payload = message.payload if message is not None else {}
    return WorkerEnd(
        worker=worker.id,
        name=worker.name,
        status=worker.status,
        success=payload.get("success"),
        message_id=message.id if message is not None else None,
        summary=payload.get("summary") or payload.get("head"),
    )


def result_of(home: Home, worker: Worker) -> Message | None:
    """Return the task-result of a worker that has ended, or None when no result was sent."""
    if not worker.final or not worker.dispatch_id:
        return None
    try:
        return find_message(home, result_id(worker.dispatch_id)).message
    except NotFoundError:
        return None


LOG_LOOK_S = 0.2
"""Seconds between two looks at the logs."""
CHUNK = 1 << 16
"""Most bytes of one read."""

Show = Callable[[bool, bytes], None]
"""Called with whether the bytes are from the error log, and the bytes."""


def show_logs(home: Home, who: str, show: Show, *, follow: bool) -> None:
    """Show both logs of a child. `follow`: keep showing new output until its process is gone."""
    layout = home.layout
    worker = find_worker(who, registry.Registry(layout).listing())
    if launches.load(layout, worker.id) is None:
        raise NotFoundError("log of", worker.name, hint="only spawned workers have one")
    paths = ((False, layout.output(worker.id)), (True, layout.errors(worker.id)))
    offsets = {path: 0 for _, path in paths}
    while True:
        running = follow and _runs(home, worker.id)  # before the copy, so the last output is shown
        for errors, path in paths:
            offsets[path] = _copy(path, offsets[path], errors, show)
        if not running:
            return
        time.sleep(LOG_LOOK_S)


def _runs(home: Home, worker: str) -> bool:
    launch = launches.load(home.layout, worker)
    if launch is None or launch.ended_at is not None:
        return False
    known = [process for process in (launch.launcher, launch.process) if process is not None]
    if not known:
        found = registry.Registry(home.layout).workers.get(worker)
        return found is not None and not found.final
    return any(processes.is_present(process) is not False for process in known)


def _copy(path: str, offset: int, errors: bool, show: Show) -> int:
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            while data := file.read(CHUNK):
                show(errors, data)
                offset += len(data)
    except FileNotFoundError:
        return offset
    except OSError as error:
        raise StorageError(os.fspath(path), error) from error
    return offset
