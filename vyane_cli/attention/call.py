"""Calls to the person: a need entry in `queue/need-user.jsonl`, and a notification if configured.

Everything that needs a person calls `call_person`. It is on the hook path: the entry is saved here,
and a separate process, which no caller waits for, sends the notification.
"""

from __future__ import annotations

import os
import sys

from vyane_cli.attention import needs
from vyane_cli.errors import VyaneError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.attention.kinds import NeedCall
    from vyane_cli.home import Home
    from vyane_cli.kernel.clock import Clock
    from vyane_cli.storage.locks import Deadline

URLS = "VYANE_NOTIFY_URLS"


def call_person(
    home: Home,
    call: NeedCall,
    clock: Clock | None = None,
    deadline: Deadline | None = None,
) -> bool:
    """Add a need entry unless one with this key is open. Return True when the entry is new."""
    new = needs.add(
        home.layout,
        call.key,
        call.text,
        clock or home.clock(),
        deadline or home.limit or home.deadline(),
        who=call.who,
        ask=call.ask,
        project=call.project,
    )
    if new:
        notify_beside(home)
    return new


def urls_of(home: Home) -> list[str]:
    """Return the notification addresses: `VYANE_NOTIFY_URLS`, else the setting `notify.urls`."""
    given = home.environ.get(URLS, "").replace(",", " ").split()
    return given or list(home.config["notify.urls"])


def notify_beside(home: Home) -> None:
    """Start `vyane need-user notify` as a separate process.

    Errors are ignored: the next round sends the notifications that are left.
    """
    try:
        if not urls_of(home) or not hasattr(os, "posix_spawn"):
            return
        command = [sys.executable, "-I", "-m", "vyane_cli", "--home", home.layout.root]
        null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        os.posix_spawn(
            sys.executable,
            [*command, "need-user", "notify"],
            dict(home.environ),
            file_actions=null,
            setpgroup=0,
        )
    except (OSError, VyaneError):
        return
