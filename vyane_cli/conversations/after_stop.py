"""Mirror after a Stop: start `vyane mirror push` beside the hook, which does not wait for it."""

from __future__ import annotations

import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


def start_push(home: Home) -> None:
    """Start `vyane mirror push` without waiting for it. Raises OSError if it cannot be started."""
    command = [sys.executable, "-I", "-m", "vyane_cli", "--home", home.layout.root]
    with subprocess.Popen(
        ["/bin/sh", "-c", '"$@" &', "sh", *command, "mirror", "push"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=dict(home.environ),
        start_new_session=True,
    ):
        pass  # the shell exits at once, so that the push has no host among its ancestors
