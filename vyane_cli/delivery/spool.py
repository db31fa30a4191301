"""Spool: hook calls that missed the lock, committed in order by the session's next call.

One call per file: `timelines/{vs}/spool/{boot ms}-{pid}.json`. The spool is not a second log: only
the replay in `transaction` reads it. A crash between the commit and the removal replays a call; its
turn id is known by then, so nothing happens twice.
"""

from __future__ import annotations

import os

from vyane_cli.hosts.port import HookCall, HostEvent, ToolCall, Trigger
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.process import parse_process
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.storage import document, files
from vyane_cli.storage.layout import Layout


class Spooled(NamedTuple):
    """One spooled call and its file."""

    path: str
    call: HookCall


def save_call(layout: Layout, session: str, call: HookCall, clock: Clock) -> None:
    """Save a call to the spool, without locks."""
    folder = layout.spool(session)
    files.make_directories(folder)
    name = f"{clock.boot_ms:015}-{os.getpid()}.json"
    process = call.process._asdict() if call.process else None
    data = {**call._asdict(), "process": process, "tools": [list(tool) for tool in call.tools]}
    data.pop("result")  # the digest stays; vyane must not keep the text
    files.replace(os.path.join(folder, name), document.encode_line(data))


def waiting(layout: Layout, session: str) -> list[Spooled]:
    """Return the spooled calls, oldest first. An unreadable call is skipped, and its file stays."""
    folder = layout.spool(session)
    found = []
    for name in files.json_names(folder):
        path = os.path.join(folder, name + ".json")
        try:
            with open(path, "rb") as file:
                data = document.decode_line(file.read().rstrip(b"\n"))
            known = {key: data[key] for key in HookCall._fields if key in data}
            known["event"] = HostEvent(known["event"])
            known["trigger"] = Trigger(known["trigger"])
            known["process"] = parse_process(known.get("process"))
            known["tools"] = tuple(ToolCall(*tool) for tool in known.get("tools") or ())
            known["named_ids"] = tuple(known.get("named_ids") or ())
            found.append(Spooled(path, HookCall(**known)))
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return found


def remove_call(spooled: Spooled) -> None:
    """Remove a call from the spool after its commit."""
    files.remove(spooled.path)
