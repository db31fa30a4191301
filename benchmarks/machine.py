"""The machine of a run: a folder on a real disk, and a general description."""

import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
IN_MEMORY = ("tmpfs", "ramfs")


@contextmanager
def folder() -> Iterator[Path]:
    """Make a temporary folder: in $TMPDIR if that is on a disk, else in the checkout's build/.

    On a file system in memory a flush costs nothing, which would make the figures meaningless.
    """
    given = os.environ.get("TMPDIR", "")
    parent = Path(given) if given and file_system(Path(given)) not in IN_MEMORY else None
    if parent is None:
        parent = REPOSITORY / "build"
        parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as name:
        yield Path(name).resolve()


def describe(where: Path) -> dict[str, str]:
    """Return the facts about the machine that a reader of the figures needs."""
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return {
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "file system": file_system(where),
        "python": platform.python_version(),
        "sh": os.path.realpath("/bin/sh"),
        "load before": f"{load} (1, 5, 15 minutes)",
    }


def file_system(where: Path) -> str:
    """Return the type of the file system that holds a folder, or "unknown"."""
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return "unknown"
    path = where.resolve()
    best, kind = -1, "unknown"
    for line in lines:
        _, mount, found, *_ = line.split()
        mount = mount.replace("\\040", " ")
        if path.is_relative_to(mount) and len(mount) >= best:
            best, kind = len(mount), found
    return kind
