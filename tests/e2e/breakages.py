"""The ways in which vyane can be gone or broken while the host still has its hooks."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from e2e.world import World

# What an older version does with a command that it does not know: Typer and argparse exit 2.
STUB = """\
import sys


def main(*args: object) -> None:
    print("Usage: vyane send TO TEXT. Error: No such command.", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
"""


def _deleted(world: World) -> None:
    shutil.rmtree(world.installation.package)
    (world.installation.bin / "vyane").unlink()


def _environment_deleted(world: World) -> None:
    shutil.rmtree(world.installation.root)


def _older(world: World) -> None:
    package = world.installation.package
    shutil.rmtree(package)
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name in ("__main__", "app", "hook"):
        (package / f"{name}.py").write_text(STUB)


def _half_written(world: World) -> None:
    for file in world.installation.package.rglob("*.py"):
        file.write_bytes(file.read_bytes()[:-1] + b"(\n")


def _read_only_home(world: World) -> None:
    world.lab.mount_read_only(world.home)


def _home_deleted(world: World) -> None:
    shutil.rmtree(world.home)


def _interpreter(text: str) -> Callable[[World], None]:
    def replace(world: World) -> None:
        for python in world.installation.bin.glob("python*"):
            _script(python, text)

    return replace


def _script(path: Path, text: str) -> None:
    path.unlink()  # a link to the interpreter that runs the tests
    path.write_text(text)
    path.chmod(0o755)


def _no_interpreter(world: World) -> None:
    for python in world.installation.bin.glob("python*"):
        python.unlink()


BREAKAGES: Mapping[str, Callable[[World], None]] = {
    "vyane deleted": _deleted,
    "its environment deleted": _environment_deleted,
    "an older version in its place": _older,
    "half-written modules": _half_written,
    "no interpreter": _no_interpreter,
    "an interpreter that cannot start": _interpreter("#!/nowhere/python\n"),
    "an interpreter that exits 2": _interpreter("#!/bin/sh\necho 'cannot open file' >&2\nexit 2\n"),
    "an interpreter that dies": _interpreter("#!/bin/sh\nkill -SEGV $$\n"),
    "a read-only home": _read_only_home,
    "its home deleted": _home_deleted,
}
