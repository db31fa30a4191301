"""Wait: until children have ended, and with what. Looks only, but for what nobody else will end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vyane_cli.children.result import settle_lost
from vyane_cli.children.result_rules import result_id
from vyane_cli.errors import NotFoundError, RefusedError, VyaneError
from vyane_cli.mail.lookup import find_message
from vyane_cli.mail.message import Message
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import Worker, WorkerStatus, find_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime

LOOK_S = 0.2
LOST_S = 2.0
"""How often it is looked whether a child's process is still there."""

Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnd:
    """How a worker ended. Only `worker` is known of one that has left the registry."""

    worker: str
    name: str | None = None
    status: WorkerStatus | None = None
    success: bool | None = None
    message_id: str | None = None
    summary: str | None = None


def wait(
    runtime: Runtime,
    who: Sequence[str],
    *,
    enough: int,
    timeout_s: float,
    progress: Progress = lambda done, whole: None,
) -> list[WorkerEnd]:
    """Wait until `enough` of these workers have ended; what is known of each of them then.

    RefusedError (`timed_out`) when the time runs out; nothing is changed by that.
    """
    listed = registry.Registry(runtime.layout).listing()
    ids = list(dict.fromkeys(find_worker(one, listed).id for one in who))
    enough = min(enough, len(ids))
    end = time.monotonic() + timeout_s
    looked = time.monotonic()
    while True:
        workers = registry.Registry(runtime.layout).workers
        waiting = [workers[one] for one in ids if one in workers and not workers[one].final]
        progress(len(ids) - len(waiting), len(ids))
        if len(ids) - len(waiting) >= enough:
            return [describe(runtime, workers.get(one), one) for one in ids]
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
                _settle(runtime, worker)
        time.sleep(min(LOOK_S, max(end - now, 0.0)))


def _settle(runtime: Runtime, worker: Worker) -> None:
    try:
        settle_lost(runtime, worker)
    except VyaneError:
        return  # a busy lock: the next look does it


def describe(runtime: Runtime, worker: Worker | None, worker_id: str) -> WorkerEnd:
    """A worker's end; `worker` is None when it has left the registry."""
    if worker is None:
        return WorkerEnd(worker=worker_id)
    message = result_of(runtime, worker)
    payload = message.payload if message is not None else {}
    return WorkerEnd(
        worker=worker.id,
        name=worker.name,
        status=worker.status,
        success=payload.get("success"),
        message_id=message.id if message is not None else None,
        summary=payload.get("summary") or payload.get("head"),
    )


def result_of(runtime: Runtime, worker: Worker) -> Message | None:
    """The task-result of a worker that has ended, if its parent was sent one."""
    if not worker.final or not worker.dispatch_id:
        return None
    try:
        return find_message(runtime, result_id(worker.dispatch_id)).message
    except NotFoundError:
        return None
