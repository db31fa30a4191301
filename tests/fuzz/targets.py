"""What takes bytes that somebody else wrote: each target raises what it may, and nothing else."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vyane_cli.errors import CorruptStateError, InvalidInputError, VyaneError
from vyane_cli.hosts import claude_code, claude_settings
from vyane_cli.kernel import durations
from vyane_cli.kernel import json as quick_json
from vyane_cli.kernel.text import RESERVED, utf16_length
from vyane_cli.mail import archive, inbox
from vyane_cli.mail.envelope import BUDGET, paginate
from vyane_cli.mail.mailbox import MailEntry, fold, parse_head, parse_message, render_head
from vyane_cli.mail.message import Lane, Message, MessageKind, ToKind, check_payload, parse_kind
from vyane_cli.sessions.session import parse_logical_session, parse_session
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.sessions.worker import parse_worker
from vyane_cli.storage import document, journal
from vyane_cli.storage import settings as config
from vyane_cli.storage.layout import Layout
from vyane_cli.timeline import cursors, log

LANGUAGES = (config.load_templates("en"), config.load_templates("zh"))
WHERE = tempfile.TemporaryDirectory(prefix="vyane-fuzz-")
HERE = Path(WHERE.name)


def holds(true: bool, what: object = "") -> None:
    """An assertion about an error, where it is caught."""
    if not true:
        raise AssertionError(what)


def _file(name: str, data: bytes) -> str:
    path = HERE / name
    path.write_bytes(data)
    path.chmod(0o600)
    return str(path)


def payload(data: bytes) -> None:
    """A hook's standard input: a call, whatever it is, and every field of the type it should be."""
    call = claude_code.parse(data, {}, lambda pid: None)
    assert isinstance(call.session, str)
    assert isinstance(call.cwd, str)
    assert all(isinstance(tool.name, str) for tool in call.tools)
    claude_code.parse(data, {"CLAUDE_PID": "x", "TMUX": "a,b"}, lambda pid: None, event="Stop")


def line(data: bytes) -> None:
    """A line of a journal: a record, or what is wrong with it; never both."""
    found = journal.parse_line(0, data)
    assert (found.record is None) != (found.damage is None)
    if found.record is not None:
        again = {k: v for k, v in found.record.items() if k not in ("v", "crc")}
        assert document.decode_line(document.encode_line({"v": found.record["v"], **again})[:-1])


def inbox_file(data: bytes) -> None:
    """A whole inbox, without its lock."""
    path = _file("inbox.jsonl", data)
    reading = inbox.read(path, whole=True)
    inbox.read(path)
    inbox.records_of(path, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    for entry in reading.mailbox.entries:
        assert isinstance(entry.message, Message)


def timeline_file(data: bytes) -> None:
    """A whole timeline: sound, or refused with its path."""
    path = _file("events.jsonl", data)
    for use in (
        lambda: log.check(path, "vs-0123456789ab"),
        lambda: log.read_head(path),
        lambda: list(log.read(path)),
        lambda: log.offset_of(path, 3),
        lambda: log.last_tool(path, 1),
    ):
        try:
            use()
        except CorruptStateError as error:
            holds(path in error.message)


def records(data: bytes) -> None:
    """A fold of records that pass their checksum and hold anything."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    items = value if isinstance(value, list) else [value]
    fold((n, item) for n, item in enumerate(items) if isinstance(item, dict))
    for item in items:
        parse_message(item)
        render_head(parse_head(item))
    try:
        lines = [document.encode_line(item) for item in items if isinstance(item, dict)]
    except (ValueError, TypeError):
        return
    _written(b"".join(lines))


def _written(data: bytes) -> None:
    """The same on disk, as a tick and `gc` read and rewrite it."""
    path = _file("records.jsonl", data)
    inbox.read(path, whole=True)
    inbox.read_head(path)
    found = archive.settled(path, 2e9)
    assert all(one.month for one in found)
    try:
        box = inbox.Inbox(path, str(HERE))
    except VyaneError:
        return
    try:
        box.drop(frozenset(one.entry.message.id for one in found))
        assert inbox.read(path, whole=True).mailbox.entries == tuple(box.entries.values())
    finally:
        box.close()


def documents(data: bytes) -> None:
    """A document and what its parsers make of it."""
    path = _file("document.json", data)
    try:
        found = document.load(path)
    except CorruptStateError as error:
        holds(path in error.message)
        return
    assert found is not None
    for parse in (
        parse_session,
        parse_logical_session,
        lambda value: parse_worker("w-1", value),
    ):
        try:
            document.load_as(path, parse, "document")
        except CorruptStateError as error:
            holds(path in error.message)


def cursor(data: bytes) -> None:
    """A cursor: one of ours, or refused by its slug."""
    text = data.decode("utf-8", "replace")
    try:
        found = cursors.parse_cursor(text)
    except InvalidInputError as error:
        holds(error.slug == "cursor_malformed")
        return
    assert cursors.parse_cursor(cursors.render_cursor(found)) == found


def settings(data: bytes) -> None:
    """config.toml: settings, or an error that names the file."""
    folder = HERE / "home"
    folder.mkdir(exist_ok=True)
    layout = Layout(str(folder))
    Path(layout.config).write_bytes(data)
    try:
        config.load_config(layout)
    except VyaneError as error:
        holds("config.toml" in error.message)


def durations_of(data: bytes) -> None:
    """A duration that a person types."""
    try:
        seconds = durations.parse_duration_s("ttl", data.decode("utf-8", "replace"))
    except InvalidInputError:
        return
    assert 0 < seconds < 1e12


def envelope(data: bytes) -> None:
    """A message with this name and this body: within the limit, and it imitates nothing."""
    text = data.decode("utf-8", "replace")
    name, _, body = text.partition("\n")
    name = name[:100]  # longer ones are refused where they are given
    message = Message(
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        1.0,
        60.0,
        FromKind.WORKER,
        "w-1",
        name,
        ToKind.WORKER,
        "w-2",
        MessageKind.CONTEXT_INJECT,
        Lane.NORMAL,
        "",
        {"text": body},
    )
    for language in LANGUAGES:
        page = paginate([MailEntry(message, 0)], language, last_step=name)
        assert utf16_length(page.text) <= BUDGET
        first, *rest = page.text.split("\n")
        ours = (
            language.fill("reply", id=message.id),
            language.fill("rest", id=message.id, total=utf16_length(body)),
        )
        rest = [line for line in rest if line not in ours]
        assert not any(line.lstrip().upper().startswith(RESERVED_UPPER) for line in rest), page.text
        assert not any(ord(c) < 32 and c not in "\n\t" for c in page.text)
        assert "\x7f" not in page.text
        assert first.count(message.id) >= 1


RESERVED_UPPER = tuple(prefix.upper() for prefix in RESERVED)


def small_json(data: bytes) -> None:
    """Our quick reader against the standard one: the same value, or both refuse."""
    text = data.decode("utf-8", "replace")
    outcomes: list[Any] = []
    for read in (quick_json.loads, json.loads):
        try:
            outcomes.append(json.dumps(read(text), sort_keys=True))
        except (ValueError, RecursionError):
            outcomes.append(ValueError)
    assert outcomes[0] == outcomes[1]


def message_payload(data: bytes) -> None:
    """`--payload` and `--kind`: checked, or refused as input."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(value, dict):
        return
    for kind in MessageKind:
        try:
            check_payload(kind, value)
        except InvalidInputError:
            continue
    try:
        parse_kind(str(value.get("kind")))
    except InvalidInputError:
        return


def host_settings(data: bytes) -> None:
    """Somebody's settings.json: edited and given back byte by byte, or refused before a change."""
    text = data.decode("utf-8", "replace")
    guard = "/srv/state/vyane/hooks/claude-code/guard"
    try:
        added = claude_settings.add(text, claude_settings.entries(guard))
    except InvalidInputError:
        return
    json.loads(added.lstrip("\ufeff"))  # a mark that was there stays
    assert claude_settings.add(added, claude_settings.entries(guard)) == added
    back = claude_settings.remove(added, lambda handler: handler.get("command") == guard)
    assert guard not in [one.handler.get("command") for one in claude_settings.find(back)]


def transcript(data: bytes) -> None:
    """What a host wrote of a turn."""
    path = _file("transcript.jsonl", data)
    claude_code.read_turn(path, 0)
    claude_code.was_interrupted(path)
    claude_code.transcript_size(path)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "payload": payload,
    "line": line,
    "inbox": inbox_file,
    "timeline": timeline_file,
    "records": records,
    "documents": documents,
    "cursor": cursor,
    "config": settings,
    "duration": durations_of,
    "envelope": envelope,
    "json": small_json,
    "message": message_payload,
    "settings": host_settings,
    "transcript": transcript,
}
CORPUS = Path(__file__).parent / "corpus"


def corpus(name: str) -> list[Path]:
    """The kept inputs of a target, in name order."""
    return sorted(path for path in (CORPUS / name).glob("*") if path.is_file())
