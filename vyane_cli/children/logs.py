"""Logs: what a child printed, from its start or as it grows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from vyane_cli.children import launches
from vyane_cli.errors import NotFoundError, StorageError
from vyane_cli.sessions import registry
from vyane_cli.sessions.worker import find_worker
from vyane_cli.storage import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime

LOOK_S = 0.2
CHUNK = 1 << 16

Show = Callable[[bool, bytes], None]
"""Called with whether it is from the error log, and bytes."""


def show_logs(runtime: Runtime, who: str, show: Show, *, follow: bool) -> None:
    """Show both logs of a child. `follow`: until its process is gone."""
    layout = runtime.layout
    worker = find_worker(who, registry.Registry(layout).listing())
    if launches.load(layout, worker.id) is None:
        raise NotFoundError("log of", worker.name, hint="only spawned workers have one")
    paths = ((False, layout.output(worker.id)), (True, layout.errors(worker.id)))
    offsets = {path: 0 for _, path in paths}
    while True:
        running = follow and _runs(runtime, worker.id)  # first: what it wrote last is shown
        for errors, path in paths:
            offsets[path] = _copy(path, offsets[path], errors, show)
        if not running:
            return
        time.sleep(LOOK_S)


def _runs(runtime: Runtime, worker: str) -> bool:
    launch = launches.load(runtime.layout, worker)
    if launch is None or launch.ended_at is not None:
        return False
    known = [process for process in (launch.launcher, launch.process) if process is not None]
    if not known:
        found = registry.Registry(runtime.layout).workers.get(worker)
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
