"""Call the person: an entry in `queue/need-user.jsonl`, and a notification if one is set up.

`call_person` is what everything calls that needs a person. It is on the hook path: the entry is
kept here, the notification is sent by a process of its own, which nobody waits for.
"""

import os
import sys

from vyane_cli.core.messages import FromKind
from vyane_cli.errors import InvalidInputError, NotFoundError, VyaneError
from vyane_cli.store import needs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vyane_cli.core.turns import Clock
    from vyane_cli.runtime import Deadline, Runtime

URLS = "VYANE_NOTIFY_URLS"
TEXT_MAX = 500


def call_person(
    runtime: "Runtime",
    key: str,
    text: str,
    clock: "Clock | None" = None,
    deadline: "Deadline | None" = None,
    *,
    who: str = "",
    ask: str = "",
    project: str = "",
) -> bool:
    """Keep an entry unless one of this key is open; True when it is new.

    `text` says why, `who` waits, `ask` is the one sentence that is needed of the person.
    """
    new = needs.add(
        runtime.layout,
        key,
        text,
        clock or runtime.clock(),
        deadline or runtime.limit or runtime.deadline(),
        who=who,
        ask=ask,
        project=project,
    )
    if new:
        notify_beside(runtime)
    return new


def urls_of(runtime: "Runtime") -> list[str]:
    """Where notifications go: `VYANE_NOTIFY_URLS`, else the setting `notify.urls`."""
    given = runtime.environ.get(URLS, "").replace(",", " ").split()
    return given or list(runtime.config["notify.urls"])


def notify_beside(runtime: "Runtime") -> None:
    """Start `vyane need-user notify` beside us. It may fail: the next round sends what is left."""
    try:
        if not urls_of(runtime) or not hasattr(os, "posix_spawn"):
            return
        command = [sys.executable, "-I", "-m", "vyane_cli", "--home", runtime.layout.root]
        null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        os.posix_spawn(
            sys.executable,
            [*command, "need-user", "notify"],
            dict(runtime.environ),
            file_actions=null,
            setpgroup=0,
        )
    except (OSError, VyaneError):
        return


def ask_person(
    runtime: "Runtime", why: str, ask: str, *, who: str = "", project: str = ""
) -> dict[str, "Any"]:
    """An entry of somebody's own, as `need-user add` makes it; the open one, if it was made.

    It is about the project that any command means here. Without one it is about none: somebody
    may wait outside of every project.
    """
    from vyane_cli.operations.identity import whoami
    from vyane_cli.operations.projects import select_project

    for field, text in (("reason", why), ("ask", ask)):
        if not text.strip() or len(text) > TEXT_MAX:
            raise InvalidInputError(field, text, f"a sentence of 1 to {TEXT_MAX} characters")
    try:
        project = project or select_project(runtime).name
    except NotFoundError:
        project = ""
    speaker = whoami(runtime)
    waits = who or (speaker.name if speaker.kind is FromKind.WORKER else "")
    key = f"ask:{project}:{speaker.id}:{' '.join(why.split())}"[:TEXT_MAX]
    call_person(runtime, key, why.strip(), who=waits, ask=ask.strip(), project=project)
    return next(one for one in needs.listing(runtime.layout) if one["key"] == key)


def is_ask(entry: "dict[str, Any]") -> bool:
    """Whether somebody asked for it with `need-user add`: until it is resolved, they wait."""
    return str(entry["key"]).startswith("ask:")


def list_needs(runtime: "Runtime", project: str = "") -> list[dict[str, "Any"]]:
    """The open entries, of one project if it is named."""
    found = needs.listing(runtime.layout)
    return [one for one in found if not project or one["project"] == project]


def resolve_needs(runtime: "Runtime", names: list[str]) -> list[dict[str, "Any"]]:
    """Close entries by their ids, all or none."""
    from vyane_cli.operations.identity import whoami

    by = whoami(runtime).name
    return needs.resolve(runtime.layout, names, by, runtime.clock(), runtime.deadline())
