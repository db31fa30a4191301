"""Timeline queries: watch from a position, find, show and verify. Nothing is changed.

A consumer's own cursor is the one exception: it is stored after its events were printed and
flushed, so that a crash repeats some events and skips none.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from vyane_cli.errors import InvalidInputError, NotFoundError
from vyane_cli.history.story import CaughtUp, Chapter, TimelineEvent, tell_turns
from vyane_cli.kernel.ids import is_logical_session_id, is_safe_id, is_ulid
from vyane_cli.sessions import registry
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.session import HostSession
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.sessions.worker import Worker, find_worker
from vyane_cli.timeline import log
from vyane_cli.timeline import reader as consumers
from vyane_cli.timeline.cursors import Cursor, parse_cursor, render_cursor
from vyane_cli.timeline.events import Category, EventKind, check_kind
from vyane_cli.timeline.reader import Reader, StoredEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home
    from vyane_cli.storage.watch import Changes


COMMIT_EVERY = 100
"""Number of events after which a consumer stores its cursor; it also does when it has caught up."""
INNER = ("head", "left", "boot")
"""Keys of a line that belong to the timeline's storage and are not shown."""


class WatchMode(StrEnum):
    """The part of a timeline that a watch reads."""

    HISTORY = "history"  # the present events, then the end
    FOLLOW = "follow"  # the present events, one caught-up mark, then the new events
    TAIL = "tail"  # only new events


class Reset(StrEnum):
    """The position to which a consumer's cursor is reset."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Filter(NamedTuple):
    """The events to show. An empty field lets all pass."""

    kinds: tuple[EventKind, ...] = ()
    category: Category | None = None
    turn: str = ""
    since: float = 0.0

    @property
    def turn_number(self) -> int | None:
        """Return the number of the turn; None when the filter names a turn by id, or no turn."""
        short = len(self.turn) <= 12  # an id is longer, and could be all digits
        return int(self.turn) if short and self.turn.isdecimal() else None

    def passes(self, record: Mapping[str, Any]) -> bool:
        """Return whether the filter shows this event."""
        return (
            (not self.kinds or record["kind"] in self.kinds)
            and (self.category is None or record.get("category") == self.category)
            and (not self.turn or self.turn in (record.get("turn"), str(record.get("turn_number"))))
            and (not self.since or record.get("at", 0) >= self.since)
        )


class Watch(NamedTuple):
    """The checked request for a watch."""

    mode: WatchMode
    after: Cursor | None = None
    consumer: str = ""
    reset: Reset | None = None
    filter: Filter = Filter()


def check_watch(
    modes: tuple[str, ...] = (),
    *,
    after: str = "",
    consumer: str = "",
    reset: str = "",
    kinds: tuple[str, ...] = (),
    category: str = "",
    turn: str = "",
    since: float = 0.0,
) -> Watch:
    """Return a watch from its words.

    InvalidInputError for no mode, for two modes, and for an unknown word.
    """
    if (
        len(modes) > 1
        or (modes == (WatchMode.TAIL,) and (after or consumer))
        or (after and consumer)
    ):
        given = [*modes, *(["after"] if after else []), *(["consumer"] if consumer else [])]
        raise InvalidInputError(
            "mode",
            " and ".join(f"--{word}" for word in given),
            "one way to read",
            slug="mode_conflict",
            hint="--history, --follow or --tail; --after or --consumer with the first two",
        )
    if not modes and not consumer:
        raise InvalidInputError(
            "mode",
            "",
            "given",
            missing=True,
            slug="mode_required",
            hint="--history ends, --follow goes on, --tail shows only what comes; "
            "`vyane timeline show` tells the story",
        )
    if modes and modes[0] not in tuple(WatchMode):
        raise InvalidInputError(
            "mode", modes[0], "one of " + ", ".join(WatchMode), slug="wrong_mode"
        )
    if consumer and not is_safe_id(consumer):
        raise InvalidInputError("consumer", consumer, "a name of A-Z, a-z, 0-9, _ and -")
    if reset and reset not in tuple(Reset):
        raise InvalidInputError("reset", reset, "earliest or latest")
    if reset and not consumer:
        raise InvalidInputError("reset", reset, "for a consumer", hint="--consumer NAME")
    if category and category not in tuple(Category):
        raise InvalidInputError(
            "category", category, "one of " + ", ".join(Category), slug="unknown_category"
        )
    if turn and not (turn.isdecimal() or is_ulid(turn)):
        raise InvalidInputError("turn", turn, "the id of a turn, or its number")
    return Watch(
        mode=WatchMode(modes[0]) if modes else WatchMode.FOLLOW,
        after=parse_cursor(after) if after else None,
        consumer=consumer,
        reset=Reset(reset) if reset else None,
        filter=Filter(
            tuple(check_kind(kind) for kind in kinds),
            Category(category) if category else None,
            turn,
            since,
        ),
    )


def watch(
    home: Home,
    who: str,
    wanted: Watch,
    *,
    out: int | None = None,
    timeout_s: float | None = None,
    pause: Callable[[Changes], bool] | None = None,
) -> Iterator[TimelineEvent | CaughtUp]:
    """Yield the events to show, and the caught-up mark.

    Asking for the next event says that the one before is printed and flushed. `out`: a pipe; the
    watch ends when no process reads it. `timeout_s`: the watch ends after that many seconds without
    an event.
    """
    found = find_timeline(home, who)
    reader = Reader(found.path, found.session)
    if wanted.mode is WatchMode.HISTORY:
        place = _Place(home, found, reader, wanted)
        yield from place.shown()
        return
    from vyane_cli.storage.watch import Changes

    with Changes(found.path) as changes:  # before the first look, so that no change is missed
        place = _Place(home, found, reader, wanted)
        if wanted.mode is WatchMode.FOLLOW:
            yield from place.shown()
            yield _caught_up(reader)
        last = time.monotonic()
        while True:
            left = None if timeout_s is None else last + timeout_s - time.monotonic()
            if left is not None and left <= 0:
                return
            going = changes.wait(left, out) if pause is None else pause(changes)
            before = reader.cursor.seq
            yield from place.shown()
            if reader.cursor.seq != before:
                last = time.monotonic()
            if not going:
                return


class _Place:
    """The position of a watch: its reader and, for a consumer, the stored cursor."""

    def __init__(self, home: Home, found: SelectedTimeline, reader: Reader, wanted: Watch) -> None:
        self.home, self.found, self.reader, self.wanted = home, found, reader, wanted
        self.stored = 0
        if wanted.after is not None:
            reader.seek(wanted.after)
        elif wanted.consumer:
            self._begin()
        elif wanted.mode is WatchMode.TAIL:
            reader.seek_end()
        elif wanted.mode is WatchMode.HISTORY and wanted.filter.turn_number is not None:
            reader.seek_turn(wanted.filter.turn_number)

    def _begin(self) -> None:
        wanted, reader = self.wanted, self.reader
        if wanted.reset is not None:
            if wanted.reset is Reset.LATEST:
                reader.seek_end()
            self._store()
            return
        cursor = consumers.load(self.home.layout, self.found.session, wanted.consumer)
        if cursor is not None:
            reader.seek(cursor)
        self.stored = reader.cursor.seq

    def shown(self) -> Iterator[TimelineEvent]:
        """Yield the present events that pass the filter. A consumer's cursor follows."""
        passes, session = self.wanted.filter.passes, self.found.session
        since = 0
        for seen in self.reader.read():
            if passes(seen.record):
                yield event_of(seen, session)
            since += 1
            if self.wanted.consumer and since >= COMMIT_EVERY:
                self._store()
                since = 0
        if self.wanted.consumer and self.reader.cursor.seq != self.stored:
            self._store()

    def _store(self) -> None:
        cursor, layout = self.reader.cursor, self.home.layout
        at = self.home.clock().at
        consumers.save(layout, self.found.session, self.wanted.consumer, cursor, at)
        self.stored = cursor.seq


def event_of(seen: StoredEvent, session: str) -> TimelineEvent:
    """Return an event as programs get it: the line without the storage keys, and its cursor."""
    record = {key: value for key, value in seen.record.items() if key not in INNER}
    cursor = Cursor(session, record["epoch"], record["seq"], seen.mark)
    return TimelineEvent(record=record, cursor=render_cursor(cursor))


def _caught_up(reader: Reader) -> CaughtUp:
    cursor = reader.cursor
    head = reader.head()
    return CaughtUp(
        session=cursor.session,
        epoch=cursor.epoch,
        watermark=cursor.seq,
        lag=max(head.seq - cursor.seq, 0) if head is not None else 0,
        cursor=render_cursor(cursor),
    )


class SelectedTimeline(NamedTuple):
    """A timeline's path, and the worker that it is about, if known."""

    session: str
    """Id of the logical session."""
    path: str
    worker: Worker | None = None
    host_session: HostSession | None = None

    @property
    def name(self) -> str:
        """Return the name that people use: the worker's, else the session's id."""
        return self.worker.name if self.worker is not None else self.session


def find_timeline(home: Home, who: str) -> SelectedTimeline:
    """Find a timeline by worker name, worker id or its beginning, vs-id, or host session id.

    An empty `who` is the caller's own session. The timeline itself need not exist yet.
    NotFoundError names the nearest workers.
    """
    layout = home.layout
    workers = registry.Registry(layout).listing()
    if not who:
        speaker = whoami(home)
        if speaker.kind is not FromKind.WORKER or speaker.session is None:
            raise InvalidInputError(
                "session",
                "",
                "given",
                missing=True,
                hint="outside of a session name one: `vyane workers`",
            )
        worker = next((w for w in workers if w.id == speaker.id), None)
        return _found(home, speaker.session.logical_session, worker)
    if is_logical_session_id(who):
        known = registry.load_logical_session(layout, who)
        if known is None and not os.path.isdir(os.path.dirname(layout.timeline(who))):
            raise NotFoundError("session", who)
        of = [w for w in workers if w.logical_session_id == who]
        return _found(home, who, of[-1] if of else None)
    try:
        worker = find_worker(who, workers)
    except NotFoundError:
        session = registry.load_session(layout, who) if is_safe_id(who) else None
        if session is None:
            raise
        worker = next((w for w in workers if w.id == session.worker), None)
        return _found(home, session.logical_session, worker)
    return _found(home, worker.logical_session_id, worker)


def _found(home: Home, session: str, worker: Worker | None) -> SelectedTimeline:
    layout = home.layout
    host = registry.current_session(layout, worker.id) if worker is not None else None
    return SelectedTimeline(session, layout.timeline(session), worker, host)


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
    """Number of older turns that are left out."""
    story: tuple[Chapter, ...]


def show_timeline(home: Home, who: str, last: int = 10) -> TimelineStory:
    """Return the last turns, newest last, with the facts between them.

    `earlier` counts the turns left out.
    """
    found = find_timeline(home, who)
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


LONG_BYTES = 8 * 1024 * 1024
"""Size, in bytes, from which a check takes long enough to report its progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedTimeline:
    """The result of a whole check of a timeline without damage."""

    ok: bool = True
    session: str
    file: str
    events: int
    turns: int
    epoch: str | None
    open: str | None
    """Id of the open turn."""
    bytes: int
    torn_bytes: int
    """Bytes of an append that a crash cut short."""


def verify_timeline(
    home: Home, who: str, progress: Callable[[int, int], object] | None = None
) -> VerifiedTimeline:
    """Check a whole timeline. CorruptStateError with file, line and reason at the first damage.

    `progress(done, size)` is called now and then for a long file.
    """
    found = find_timeline(home, who)
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
