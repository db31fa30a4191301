"""What a plan has to tell somebody else, kept until they know it.

`queue/untold/{id}.json`, on disk before the plan is committed, removed once all of it was told. A
crash between leaves the file, and any later call tells what a process that is gone left behind.
Telling the same twice shows it once: notes and entries go by ids that are fixed here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from vyane_cli.errors import VyaneError
from vyane_cli.kernel.process import Process, parse_process
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.mail.mailbox import parse_message, render_message
from vyane_cli.mail.message import Message
from vyane_cli.storage import document, files
from vyane_cli.storage.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Untold(NamedTuple):
    """What one plan found out: calls to the person, and messages whose time was over."""

    id: str
    by: Process
    calls: tuple[tuple[str, str], ...]
    """(key, text) of each."""
    expired: tuple[tuple[Message, str], ...]
    """Each with the name of the one it was for."""


def keep(layout: Layout, untold: Untold) -> None:
    """On disk when this returns."""
    data = {
        "id": untold.id,
        "by": untold.by._asdict(),
        "calls": [list(call) for call in untold.calls],
        "expired": [[render_message(message), target] for message, target in untold.expired],
    }
    document.save(layout.untold(untold.id), data, layout.root)


def listing(layout: Layout) -> list[Untold]:
    """All that is kept, oldest first. A damaged one is passed over: `doctor` names it."""
    found, folder = [], layout("queue", "untold")
    for name in files.json_names(folder):
        try:
            kept = document.load_as(os.path.join(folder, name + ".json"), _parse, "notice")
        except VyaneError:
            continue
        found += [kept] if kept is not None else []
    return found


def _parse(data: Mapping[str, Any]) -> Untold:
    return Untold(
        str(data["id"]),
        parse_process(data["by"]) or Process("", "", 0, 0),
        tuple((str(key), str(text)) for key, text in data["calls"]),
        tuple(
            (message, str(target))
            for raw, target in data["expired"]
            if (message := parse_message(raw)) is not None
        ),
    )


def done(layout: Layout, untold: Untold) -> None:
    """All of it was told."""
    files.remove(layout.untold(untold.id))
