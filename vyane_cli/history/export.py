"""Timeline export: a whole timeline in another form, piece by piece. Changes no state."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vyane_cli import __version__
from vyane_cli.errors import InvalidInputError, StorageError
from vyane_cli.history import otlp
from vyane_cli.history.queries import SelectedTimeline, event_of, find_timeline
from vyane_cli.history.story import Chapter, TimelineEvent, tell_turns
from vyane_cli.storage import files
from vyane_cli.timeline.reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from vyane_cli.home import Home

    Tell = Callable[[Chapter], Iterable[str]]

FORMATS = ("jsonl", "md", "otlp-json")
CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenExport:
    """A file that an export has written."""

    file: str
    format: str
    bytes: int


def export_timeline(home: Home, who: str, form: str, tell: Tell) -> Iterator[str]:
    """Return an iterator over the text, in pieces. `tell` renders a story chapter as Markdown."""
    if form not in FORMATS:
        expected = "one of " + ", ".join(FORMATS)
        raise InvalidInputError("format", form, expected, slug="unknown_format")
    found = find_timeline(home, who)
    reader = Reader(found.path, found.session)
    if form == "jsonl":
        return (_line(event_of(seen, found.session)) + "\n" for seen in reader.read())
    records = (seen.record for seen in reader.read())
    return _markdown(found, records, tell) if form == "md" else _otlp(found, records)


def _markdown(
    found: SelectedTimeline, records: Iterable[Mapping[str, Any]], tell: Tell
) -> Iterator[str]:
    yield f"# {found.name} ({found.session})\n"
    for chapter in tell_turns(records):
        yield "\n"
        for line in tell(chapter):
            yield line + "\n"


def _otlp(found: SelectedTimeline, records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    resource = otlp.attributes({"service.name": "vyane", "service.version": __version__})
    scope = {"name": "vyane.timeline", "version": __version__}
    yield '{"resourceSpans":[{"resource":' + _json({"attributes": resource})
    yield ',"scopeSpans":[{"scope":' + _json(scope) + ',"spans":['
    between = "\n"
    for span in otlp.tell_spans(records, found.name):
        yield between + _json(span)
        between = ",\n"
    yield '\n],"schemaUrl":"' + otlp.SCHEMA_URL + '"}]}]}\n'


def _line(event: TimelineEvent) -> str:
    return _json({**event.record, "cursor": event.cursor})


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode()


def write_whole(path: str, pieces: Iterable[str]) -> int:
    """Write a file for the person, whole or not at all, on disk on return.

    Return its size in bytes.

    A link is followed. A target that is no regular file, such as a pipe or /dev/stdout, is written
    to directly: replacing it by a file would take it away from every other program. A missing
    folder is taken for a typing error and is not created.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        return _write_into(path, pieces)
    if not os.path.isdir(os.path.dirname(os.path.realpath(path))):
        raise StorageError(path, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    return files.replace_by(path, _in_chunks(pieces))


def _in_chunks(pieces: Iterable[str]) -> Iterator[bytes]:
    """Yield the text in chunks of about 64 KiB, because a call for each line would be slow."""
    held: list[str] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= CHUNK:
            yield "".join(held).encode("utf-8", "replace")
            held, size = [], 0
    yield "".join(held).encode("utf-8", "replace")


def _write_into(path: str, pieces: Iterable[str]) -> int:
    size = 0
    try:
        with open(path, "wb") as file:
            for piece in pieces:
                size += file.write(piece.encode())
    except OSError as error:
        raise StorageError(path, error) from error
    return size
