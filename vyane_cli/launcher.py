"""Entry of a child's launcher: `python -m vyane_cli.launcher [--here] HOME WORKER`."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Start the child and wait for it, detached from the caller, or with `--here` in this terminal.

    The terminal's signals reach the child too. They end the child, but not this launcher, which
    reports how the child ended.
    """
    here = sys.argv[1] == "--here"
    if here:
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, _let_pass)  # not SIG_IGN: the child would inherit it
    else:
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from vyane_cli.children.launch import run
    from vyane_cli.delivery import ring
    from vyane_cli.home import Home
    from vyane_cli.hosts import claude_code, generic
    from vyane_cli.projects.after_tick import tick_and_supervise

    home, worker = sys.argv[-2:]
    hosts = {host.NAME: host for host in (claude_code, generic)}
    run(Home(home, hosts=hosts, ways=ring), worker, tick_and_supervise, here=here)


def _let_pass(number: int, frame: object) -> None:
    return


if __name__ == "__main__":
    main()
