"""Launch records in `launches/`: how a child was started, and the state of its process.

Owner: the child. Writers: spawn before the registry names the child, then its launcher alone;
the candidate is the Stop hook's. A crash leaves the old or the new document.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from vyane_cli.errors import CorruptStateError
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.process import Process, parse_process
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.storage import document, files
from vyane_cli.storage.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


OUTPUT_MAX_BYTES = 4 * 1024 * 1024
"""Of a child's output so much, from the end, is its result."""


class Launch(NamedTuple):
    """One start of one child."""

    worker: str
    dispatch: str
    command: tuple[str, ...]
    cwd: str
    session: str
    hooks: bool
    stdin: bool
    """The prompt goes by standard input."""
    at: float
    launcher: Process | None = None
    process: Process | None = None
    exit_status: int | None = None
    ended_at: float | None = None
    resumed: int = 0
    """How often it was opened again; 0: this is its first start."""
    boot: str = ""
    """The boot of `at`, and when in it: for so long a launcher may be about to come."""
    awake_ms: int = 0


def age_s(launch: Launch, clock: Clock) -> float:
    """Return the age of the launch in seconds, independent of changes of the wall clock."""
    return clock.since_s(launch.at, launch.boot, launch.awake_ms)


def save(layout: Layout, launch: Launch) -> None:
    """Keep it, durably."""
    data = launch._asdict()
    data["command"] = list(launch.command)
    for key in ("launcher", "process"):
        data[key] = data[key]._asdict() if data[key] is not None else None
    document.save(layout.launch(launch.worker), data, layout.root)


def load(layout: Layout, worker: str) -> Launch | None:
    """The launch of a worker; None when it was not spawned."""
    return document.load_as(layout.launch(worker), _parse, "launch")


def _parse(data: Mapping[str, Any]) -> Launch:
    known = {key: data[key] for key in Launch._fields if key in data}
    known["command"] = tuple(known["command"])
    known["launcher"] = parse_process(known.get("launcher"))
    known["process"] = parse_process(known.get("process"))
    return Launch(**known)


def save_prompt(layout: Layout, worker: str, text: str, *, resumed: bool = False) -> None:
    """Keep what the child is asked, or told when it is opened again; durably."""
    path = layout.resume_prompt(worker) if resumed else layout.prompt(worker)
    files.make_directories(os.path.dirname(path))
    files.replace(path, text.encode("utf-8", "replace"))


def save_candidate(layout: Layout, worker: str, report: Mapping[str, Any]) -> None:
    """Keep the last answer of a child that still runs."""
    document.save(layout.candidate(worker), report, layout.root)


def load_candidate(layout: Layout, worker: str) -> Mapping[str, Any] | None:
    """Return the last answer of the child, or None when no answer can be read."""
    try:
        return document.load(layout.candidate(worker))
    except CorruptStateError:
        return None


def read_output(path: str) -> str:
    """What a child printed; of a long output the end."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - OUTPUT_MAX_BYTES, 0))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def open_log(path: str) -> int:
    """A log that two processes write: each write goes to its end. Returns the descriptor."""
    os.close(files.open_for_writing(path))
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
