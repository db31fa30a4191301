"""Call the person: an entry in `queue/need-user.jsonl`, and a notification if one is set up.

`call_person` is what everything calls that needs a person. It is on the hook path: the entry is
kept here, the notification is sent by a process of its own, which nobody waits for.
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
    """Keep an entry unless one of this key is open; True when it is new."""
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
    """Where notifications go: `VYANE_NOTIFY_URLS`, else the setting `notify.urls`."""
    given = home.environ.get(URLS, "").replace(",", " ").split()
    return given or list(home.config["notify.urls"])


def notify_beside(home: Home) -> None:
    """Start `vyane need-user notify` beside us. It may fail: the next round sends what is left."""
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
