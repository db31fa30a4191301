"""Start of a child's launcher: a process that outlives the command which spawned the child."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

from vyane_cli.children import launches
from vyane_cli.errors import StorageError
from vyane_cli.storage import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


def start_launcher(home: Home, worker: str, environment: Mapping[str, str]) -> None:
    """Start the launcher of a child: in a session of its own, without a descriptor of this process.

    The launcher's output goes to the child's error log. Raises StorageError when the launcher
    could not be started.
    """
    layout = home.layout
    files.make_directories(os.path.dirname(layout.errors(worker)))
    command = [sys.executable, "-I", "-m", "vyane_cli.launcher", layout.root, worker]
    log = launches.open_log(layout.errors(worker))
    try:
        middle = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=dict(environment),
            start_new_session=True,
        )
        if middle.wait():  # the launcher forks at once, so no host is an ancestor of the child
            raise ChildProcessError(10, "the launcher did not start")
    except OSError as error:
        raise StorageError(sys.executable, error) from error
    finally:
        os.close(log)
