"""Timeline show: the last turns of a session as a story. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from vyane_cli.history.select import find_timeline
from vyane_cli.history.story import Chapter, tell_turns
from vyane_cli.timeline.reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStory:
    """The last turns of a session, newest last, with the facts between them."""

    session: str
    worker: str | None
    name: str
    epoch: str
    seq: int
    turns: int
    earlier: int
    """How many turns are left out."""
    story: tuple[Chapter, ...]


def show_timeline(runtime: Runtime, who: str, last: int = 10) -> TimelineStory:
    """The last turns, newest last, with the facts between them; `earlier` turns are left out."""
    found = find_timeline(runtime, who)
    reader = Reader(found.path, found.session)
    head = reader.head()
    turns = head.turns if head is not None else 0
    first = max(turns - last + 1, 1)
    if first > 1:
        reader.seek_turn(first)
    chapters = tuple(tell_turns(seen.record for seen in reader.read()))
    return TimelineStory(
        session=found.session,
        worker=found.worker.id if found.worker is not None else None,
        name=found.name,
        epoch=reader.cursor.epoch,
        seq=reader.cursor.seq,
        turns=turns,
        earlier=first - 1,
        story=chapters,
    )
