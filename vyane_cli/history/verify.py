"""Timeline verify: check every line of a timeline. Changes nothing, takes no lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from vyane_cli.history.select import find_timeline
from vyane_cli.timeline import log
from vyane_cli.timeline.reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime

LONG_BYTES = 8 * 1024 * 1024
"""From this size on it takes long enough to say how far it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedTimeline:
    """What a whole check of a timeline found, all of it sound."""

    ok: bool = True
    session: str
    file: str
    events: int
    turns: int
    epoch: str | None
    open: str | None
    """The id of the open turn."""
    bytes: int
    torn_bytes: int
    """The length of an append that a crash cut short."""


def verify_timeline(
    runtime: Runtime, who: str, progress: Callable[[int, int], object] | None = None
) -> VerifiedTimeline:
    """What a whole check found; CorruptStateError with file, line and reason at the first damage.

    `progress(done, size)` is called now and then for a long file.
    """
    found = find_timeline(runtime, who)
    Reader(found.path, found.session)  # refuses a file that others may read
    size = os.path.getsize(found.path) if os.path.exists(found.path) else 0
    tell = None
    if progress is not None and size >= LONG_BYTES:
        wanted = progress

        def tell(done: int) -> object:
            return wanted(done, size)

    checked = log.check(found.path, found.session, progress=tell)
    head = checked.head
    return VerifiedTimeline(
        session=found.session,
        file=found.path,
        events=checked.events,
        turns=checked.turns,
        epoch=head.epoch if head is not None else None,
        open=head.open.id if head is not None and head.open is not None else None,
        bytes=checked.end,
        torn_bytes=max(size - checked.end, 0),
    )
