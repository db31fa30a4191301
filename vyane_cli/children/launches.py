"""Launch records in `launches/`: how a child was started, its process, prompt, answer and logs.

Owner: the child. Writers of the launch: spawn, before the registry names the child, or a resume
(`delivery/resume`); after that only the child's launcher. The candidate, which is the last
answer of a running child, is written by its Stop hook. A crash leaves the old or the new
document.
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
"""Most bytes that are read of a child's log, from its end; of the output log, the result."""


class Launch(NamedTuple):
    """One start of a child, or of a closed session that is resumed."""

    worker: str
    dispatch: str
    command: tuple[str, ...]
    cwd: str
    session: str
    hooks: bool
    stdin: bool
    """The prompt is passed on standard input."""
    at: float
    launcher: Process | None = None
    process: Process | None = None
    exit_status: int | None = None
    ended_at: float | None = None
    resumed: int = 0
    """Number of resumes so far; 0: the first start."""
    boot: str = ""
    """Id of the boot in which the launch was made; with `awake_ms`, gives the age of the launch.

    A launch without a launcher is treated as about to start until it reaches a certain age.
    """
    awake_ms: int = 0
    """Milliseconds that the machine had been awake in that boot when the launch was made."""


def age_s(launch: Launch, clock: Clock) -> float:
    """Return the age of the launch in seconds, within one boot independent of the wall clock."""
    return clock.since_s(launch.at, launch.boot, launch.awake_ms)


def save(layout: Layout, launch: Launch) -> None:
    """Save the launch of a worker. The document is durable on return."""
    data = launch._asdict()
    data["command"] = list(launch.command)
    for key in ("launcher", "process"):
        data[key] = data[key]._asdict() if data[key] is not None else None
    document.save(layout.launch(launch.worker), data, layout.root)


def load(layout: Layout, worker: str) -> Launch | None:
    """Load the launch of a worker. Returns None when the worker was never launched."""
    return document.load_as(layout.launch(worker), _parse, "launch")


def _parse(data: Mapping[str, Any]) -> Launch:
    known = {key: data[key] for key in Launch._fields if key in data}
    known["command"] = tuple(known["command"])
    known["launcher"] = parse_process(known.get("launcher"))
    known["process"] = parse_process(known.get("process"))
    return Launch(**known)


def save_prompt(layout: Layout, worker: str, text: str, *, resumed: bool = False) -> None:
    """Save the prompt of a child, or the prompt with which it is resumed. Durable on return."""
    path = layout.resume_prompt(worker) if resumed else layout.prompt(worker)
    files.make_directories(os.path.dirname(path))
    files.replace(path, text.encode("utf-8", "replace"))


def save_candidate(layout: Layout, worker: str, report: Mapping[str, Any]) -> None:
    """Save the candidate: the last answer of a child that still runs."""
    document.save(layout.candidate(worker), report, layout.root)


def load_candidate(layout: Layout, worker: str) -> Mapping[str, Any] | None:
    """Load the last answer of a child. Returns None when no answer can be read."""
    try:
        return document.load(layout.candidate(worker))
    except CorruptStateError:
        return None


def read_output(path: str) -> str:
    """Read a log of a child, at most OUTPUT_MAX_BYTES from its end. Returns "" without a log."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - OUTPUT_MAX_BYTES, 0))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def open_log(path: str) -> int:
    """Open a log that two processes write: each write goes to its end. Returns the descriptor."""
    os.close(files.open_for_writing(path))
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
