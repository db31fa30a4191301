"""Entry for the process beside a spawned child: `python -m vyane_cli.launcher HOME WORKER`."""

import os
import signal
import sys


def main() -> None:
    """Leave the caller, then start the child and wait for it."""
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from vyane_cli.hosts import claude_code, generic
    from vyane_cli.operations.launch import run
    from vyane_cli.runtime import Runtime

    home, worker = sys.argv[1:3]
    run(Runtime(home, hosts={host.NAME: host for host in (claude_code, generic)}), worker)


if __name__ == "__main__":
    main()
