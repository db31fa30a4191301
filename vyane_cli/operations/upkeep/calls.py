"""Calls about a worker: those that do not hold any more are resolved, so that the list stays true.

An entry that stays open is not called for again, so one that is over would also keep the person
from hearing of the next. A crash before the resolution leaves it to the next run.
"""

from collections.abc import Mapping

from vyane_cli.core.messages import VYANE
from vyane_cli.core.workers import Worker, WorkerStatus
from vyane_cli.operations.upkeep.stale import stale_key
from vyane_cli.operations.upkeep.sweep import Sweep
from vyane_cli.store import needs, registry


def end_calls(sweep: Sweep) -> int:
    """Resolve what holds no more; return how many."""
    workers = registry.Registry(sweep.layout).workers
    entries = needs.listing(sweep.layout)
    over = [str(one["id"]) for one in entries if not _holds(str(one["key"]), workers)]
    if over and not sweep.dry_run:
        clock, deadline = sweep.runtime.clock(), sweep.runtime.deadline()
        needs.resolve(sweep.layout, over, VYANE, clock, deadline)
    return len(over)


def _holds(key: str, workers: Mapping[str, Worker]) -> bool:
    kind, _, rest = key.partition(":")
    worker = workers.get(rest.partition(":")[0])
    match kind:
        case "orphan":
            return worker is not None and worker.status is WorkerStatus.INTERRUPTED
        case "stale":
            marked = worker is not None and worker.status is WorkerStatus.STALE
            return worker is not None and marked and key == stale_key(worker)
        case _:
            return True
