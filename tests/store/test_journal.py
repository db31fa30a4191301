"""Append-only lines on disk: prefixes of whole records, checksums, nothing thrown away."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.errors import StorageError
from vyane_cli.storage import document, files, journal

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
records = st.dictionaries(
    st.text(st.characters(codec=None), min_size=1, max_size=6).filter(
        lambda k: k not in ("v", "crc")
    ),
    values,
    max_size=4,
)


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "box.jsonl")


def append(path: str, *batch, root: str = "") -> int:
    writer = journal.open_writer(path, root or os.path.dirname(path))
    try:
        return writer.append(batch)
    finally:
        writer.close()


def read(path: str) -> list[dict]:
    lines = [line.record for line in journal.read(path)]
    return [{k: v for k, v in r.items() if k not in ("v", "crc")} for r in lines if r is not None]


def damage(path: str) -> list[str]:
    return [line.damage.reason for line in journal.read(path) if line.damage is not None]


def kept(root) -> list[bytes]:
    return [Path(one["file"]).read_bytes() for one in journal.list_quarantined(str(root))]


@given(kept=st.lists(records, max_size=3), batch=st.lists(records, min_size=1, max_size=3),
       data=st.data())  # fmt: skip
def test_a_crash_keeps_a_prefix_of_whole_records(kept, batch, data):
    """
    However many bytes of an append reach the disk, a reader sees all earlier
    records, then a prefix of the batch, and never part of a record.
    """
    with TemporaryDirectory() as folder:
        path = str(Path(folder, "box.jsonl"))
        start = append(path, *kept) if kept else 0
        start = os.path.getsize(path) if kept else 0
        append(path, *batch)
        os.truncate(path, data.draw(st.integers(start, os.path.getsize(path))))
        seen = read(path)

        assert seen == (kept + batch)[: len(seen)]
        assert len(seen) >= len(kept)
        append(path, {"next": 1})
        assert read(path) == [*seen, {"next": 1}]


@given(records)
def test_a_record_survives_its_line(record):
    """Whatever text: what UTF-8 cannot say is escaped, and both readers read it."""
    line = document.encode_line(record)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    decoded = document.decode_line(line[:-1])
    assert {k: v for k, v in decoded.items() if k != "v"} == record


@given(records)
def test_commands_read_what_hooks_wrote(record):
    """The quick reader of commands is not stricter than the one that wrote: nothing is lost."""
    before = document.loads
    try:
        document.accelerate()
        decoded = document.decode_line(document.encode_line(record)[:-1])
    finally:
        document.loads = before
    assert {k: v for k, v in decoded.items() if k != "v"} == record


@given(records, st.data())
def test_any_flipped_bit_is_seen(record, data):
    """The checksum is over every byte before it."""
    line = bytearray(document.encode_line(record)[:-1])
    index = data.draw(st.integers(0, len(line) - 1))
    line[index] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(document.LineError):
        document.decode_line(bytes(line))


def test_the_checksum_is_that_of_the_bytes_before_it(path):
    """CRC-32 of everything before `,"crc"`: anybody can check it by hand."""
    append(path, {"a": "é"})
    body, _, check = Path(path).read_bytes().rstrip(b"\n").rpartition(b',"crc":')

    assert check == b'"%08x"}' % crc32(body)


def test_a_reader_stops_at_the_last_newline(tmp_path):
    """However long the lines are: what follows is an append at work, or one that a crash cut."""
    path = str(tmp_path / "w.jsonl")
    for number in range(5):
        append(path, {"n": number, "text": "x" * 40_000}, root=str(tmp_path))
    with open(path, "ab") as file:
        file.write(b'{"v":1,"half')
    lines = list(journal.read(path))

    assert [line.damage for line in lines] == [None] * 5
    assert [line.record["n"] for line in lines if line.record] == [0, 1, 2, 3, 4]


def test_half_a_line_is_set_aside_before_the_next_append(tmp_path, path):
    """100 good lines and 37 bytes: then 101 lines, and the 37 bytes are in the quarantine."""
    append(path, *({"n": n} for n in range(100)))
    half = b'{"v":1,"op":"message","id":"' + b"x" * 9
    with open(path, "ab") as file:
        file.write(half)
    assert len(read(path)) == 100
    append(path, {"n": 100})

    assert read(path) == [{"n": n} for n in range(101)]
    assert kept(tmp_path) == [half]
    assert damage(path) == []


@pytest.mark.parametrize("spoil", ["middle", "first", "last"])
def test_a_damaged_line_does_not_take_its_neighbours_with_it(path, spoil):
    """It is reported as damage; what follows is read."""
    append(path, *({"n": n} for n in range(5)))
    lines = Path(path).read_bytes().splitlines(keepends=True)
    index = {"first": 0, "middle": 2, "last": 4}[spoil]
    lines[index] = b"x" + lines[index][1:]
    Path(path).write_bytes(b"".join(lines))

    assert read(path) == [{"n": n} for n in range(5) if n != index]
    assert len(damage(path)) == 1


def test_a_line_of_two_records_that_still_parses_is_damage(path):
    """Two writers mixed in one line: the worst kind is valid JSON."""
    append(path, {"op": "a", "text": "one"}, {"op": "b", "text": "two"})
    first, second = Path(path).read_bytes().splitlines()
    mixed = first[:20] + second[20:]
    json.loads(mixed)
    Path(path).write_bytes(b"\n".join([first, mixed, second]) + b"\n")

    assert [r["op"] for r in read(path)] == ["a", "b"]
    assert damage(path) == ["checksum does not match"]


@pytest.mark.parametrize("junk", [b"\n", b"\r\n", b"\0" * 100 + b"\n", b"[]\n", b"{}\n", b"null\n"])
def test_what_is_no_record_is_damage_and_not_an_error(path, junk):
    """Empty lines, zeros after a power loss, and JSON of another shape."""
    append(path, {"n": 1})
    with open(path, "ab") as file:
        file.write(junk)
    append(path, {"n": 2})

    assert read(path) == [{"n": 1}, {"n": 2}]
    assert len(damage(path)) == 1


def test_a_record_of_a_later_version_is_not_guessed_at(path):
    """`v` 2 may mean anything."""
    body = b'{"v":2,"n":1'
    Path(path).write_bytes(b'%b,"crc":"%08x"}\n' % (body, crc32(body)))

    assert read(path) == []
    assert "newer" in damage(path)[0]


@given(st.lists(st.integers(1, 200_000), min_size=1, max_size=4))
def test_the_last_line_is_found_whatever_its_length(sizes):
    """Read from the file's end, across any number of chunks."""
    with TemporaryDirectory() as folder:
        path = str(Path(folder, "box.jsonl"))
        append(path, *({"n": n, "text": "x" * size} for n, size in enumerate(sizes)))
        with open(path, "ab") as file:
            file.write(b"torn" * 100)

        assert journal.read_last(path).record["n"] == len(sizes) - 1
        assert [r["n"] for r in read(path)] == list(range(len(sizes)))


def test_a_missing_file_is_an_empty_journal(path):
    """Nobody has written yet."""
    assert list(journal.read(path)) == []
    assert journal.read_last(path) is None
    assert not journal.contains(path, b"x")


def test_one_record_is_one_call_of_write(path, monkeypatch):
    """Text and newline in two calls would let another writer in between."""
    calls = []
    monkeypatch.setattr(files, "step", lambda name, where: calls.append(name))
    append(path, {"n": 1}, {"n": 2})

    assert calls.count("write") == 1


def test_a_short_write_goes_on_where_it_stopped(path, monkeypatch):
    """A full disk says so only at the second call."""
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:7], at))
    append(path, {"n": 1, "text": "x" * 50})

    assert read(path) == [{"n": 1, "text": "x" * 50}]


def test_the_same_damage_is_kept_once(tmp_path, path):
    """A retry after a crash in the middle of a repair."""
    Path(path).write_bytes(b"bad bytes")
    fd = os.open(path, os.O_RDONLY)
    try:
        for _ in range(3):
            journal.set_aside(str(tmp_path), path, fd, 0, 9, "test")
    finally:
        os.close(fd)

    assert kept(tmp_path) == [b"bad bytes"]
    index = (tmp_path / "quarantine" / "index.jsonl").read_text().splitlines()
    assert [json.loads(line)["reason"] for line in index] == ["test"]


def test_a_copy_that_was_there_is_flushed_before_its_original_may_go(tmp_path, monkeypatch):
    """Whoever kept it may have died before the flush, and then lost it with the power."""
    root, path = str(tmp_path), str(tmp_path / "w.jsonl")
    kept_as = journal.save_damaged(root, path, b"bad bytes", 0, "test")
    calls: list[tuple[str, str]] = []
    monkeypatch.setattr(files, "step", lambda name, where: calls.append((name, where)))
    assert journal.save_damaged(root, path, b"bad bytes", 0, "test") == kept_as
    assert {("fsync", os.path.dirname(kept_as)), ("fsync", root)} <= set(calls)

    def broken(name: str, where: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(files, "step", broken)
    with pytest.raises(StorageError):
        journal.save_damaged(root, path, b"bad bytes", 0, "test")


def test_every_directory_that_was_made_is_flushed(tmp_path, monkeypatch):
    """A file with bytes has a durable name on every level, however many had to be made."""
    calls: list[tuple[str, str]] = []
    monkeypatch.setattr(files, "step", lambda name, where: calls.append((name, where)))
    root = str(tmp_path / "not" / "there" / "vyane")
    append(os.path.join(root, "messages", "inbox", "w.jsonl"), {"n": 1}, root=root)
    made = {where for name, where in calls if name == "mkdir"}
    written = next(n for n, (name, _) in enumerate(calls) if name == "write")
    flushed = {where for name, where in calls[:written] if name == "fsync"}

    assert root in made
    assert {os.path.dirname(where) for where in made} <= flushed
    assert calls[-1][0] == "fsync"


def test_a_first_append_flushes_directories_that_were_there_already(tmp_path, monkeypatch):
    """ "It exists" is not "it is durable": whoever made it may have died before the flush."""
    root = tmp_path / "vyane"
    (root / "messages" / "inbox").mkdir(parents=True)
    calls: list[tuple[str, str]] = []
    monkeypatch.setattr(files, "step", lambda name, where: calls.append((name, where)))
    append(str(root / "messages" / "inbox" / "w.jsonl"), {"n": 1}, root=str(root))
    flushed = {where for name, where in calls if name == "fsync"}

    assert {str(root), str(root / "messages"), str(root / "messages" / "inbox")} <= flushed
    assert str(tmp_path) in flushed


@pytest.mark.parametrize("spoil", [lambda line: line[:-1], lambda line: line[:40], b"x".__add__])
def test_a_record_is_there_only_when_its_line_is_whole_and_sound(spoil, tmp_path) -> None:
    """What a crash left of a line has the id, and is no record: nobody was told that it is kept."""
    path = tmp_path / "some.jsonl"
    whole = document.encode_line({"op": "message", "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"})
    path.write_bytes(spoil(whole))

    assert not journal.has_record(str(path), b"01ARZ3")
    path.write_bytes(b"no record\n" + whole)
    assert journal.has_record(str(path), b"01ARZ3")
    assert not journal.has_record(str(tmp_path / "none.jsonl"), b"01ARZ3")
