"""Start `vyane mirror push` beside a session's Stop, where the settings say so.

It is a process of its own: the host waits for none of it, and it outlives the hook. What a kill of
it leaves is in the outbox, for the next push.
"""

from __future__ import annotations

import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


def start_push(runtime: Runtime) -> None:
    """Start it and look no further. OSError when it could not be started."""
    command = [sys.executable, "-I", "-m", "vyane_cli", "--home", runtime.layout.root]
    with subprocess.Popen(
        ["/bin/sh", "-c", '"$@" &', "sh", *command, "mirror", "push"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=dict(runtime.environ),
        start_new_session=True,
    ):
        pass  # the shell ends at once, so that no host is above the push
