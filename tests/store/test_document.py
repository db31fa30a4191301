"""A small file that is replaced whole: old or new, and nothing of its owner's is changed."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.errors import CorruptStateError, StorageError
from vyane_cli.home import Home
from vyane_cli.sessions import registry
from vyane_cli.sessions.session import (
    HostSession,
    LogicalSession,
    parse_logical_session,
    parse_session,
    render_logical_session,
    render_session,
)
from vyane_cli.setup.home import initialise
from vyane_cli.storage import document, files

texts = st.text(st.characters(codec=None), max_size=8)
objects = st.dictionaries(
    texts.filter(lambda key: key != "v"),
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | texts
    | st.lists(texts, max_size=3),
    max_size=5,
)


@given(objects)
def test_a_document_survives_its_text(value):
    """Also with texts that UTF-8 cannot say."""
    for reader in (document.loads, _orjson):
        before = document.loads
        document.loads = reader
        try:
            decoded = document.decode_document(document.encode_document(value))
        finally:
            document.loads = before
        assert {key: one for key, one in decoded.items() if key != "v"} == value


def _orjson(data: bytes) -> object:
    import orjson

    return orjson.loads(data)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_what_vyane_makes_is_for_its_owner_alone_whatever_the_umask(tmp_path, umask):
    """Directories 0700, files 0600."""
    before = os.umask(umask)
    try:
        home = Home(str(tmp_path / "a" / "vyane"), {})
        initialise(home)
        document.save(home.layout.key("k"), {"a": 1}, home.layout.root)
        files.touch(home.layout.due("w"))
        with home.held():
            pass
    finally:
        os.umask(before)
    root = Path(home.layout.root)
    for path in [root, *root.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_a_replaced_file_keeps_its_mode(tmp_path):
    """0640 stays 0640, and a new file is 0600."""
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)
    files.replace(str(path), b"new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o640)
    files.replace(str(tmp_path / "fresh"), b"new")
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root replaces files of others")
def test_a_file_that_root_replaces_keeps_its_owner(tmp_path):
    """`sudo vyane hooks install`: the user's client could not read its settings any more."""
    path = tmp_path / "settings.json"
    path.write_text("{}")
    os.chown(path, 1234, 2345)
    path.chmod(0o600)
    files.replace(str(path), b"new")
    now = path.stat()

    assert (now.st_uid, now.st_gid, now.st_mode & 0o777) == (1234, 2345, 0o600)
    assert path.read_bytes() == b"new"


def test_a_byte_order_mark_in_front_of_a_document_is_read_over(tmp_path):
    """Some editors write one."""
    path = tmp_path / "goal.json"
    path.write_bytes(b'\xef\xbb\xbf{"title": "x"}\r\n')
    assert document.load(str(path)) == {"title": "x"}


def test_links_keep_pointing_where_they_did(tmp_path):
    """file → link → link: the real file holds the change, and no temporary file is left."""
    real = tmp_path / "real" / "settings.json"
    real.parent.mkdir()
    real.write_text("old")
    real.chmod(0o600)
    middle, first = tmp_path / "dotfiles" / "settings.json", tmp_path / "settings.json"
    middle.parent.mkdir()
    middle.symlink_to(real)
    first.symlink_to(middle)
    middle.parent.chmod(0o555)
    try:
        files.replace(str(first), b"new")
    finally:
        middle.parent.chmod(0o755)

    assert first.is_symlink()
    assert middle.is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.rglob("*.tmp")] == []


def test_a_first_document_flushes_folders_that_were_there_already(tmp_path, monkeypatch):
    """ "It exists" is not "it is durable": whoever made them may have died before the flush."""
    root = tmp_path / "vyane"
    (root / "queue" / "cancels").mkdir(parents=True)
    calls: list[tuple[str, str]] = []
    monkeypatch.setattr(files, "step", lambda name, where: calls.append((name, where)))
    document.save(str(root / "queue" / "cancels" / "x.json"), {"n": 1}, str(root))
    renamed = next(n for n, (name, _) in enumerate(calls) if name == "rename")
    before = {where for name, where in calls[:renamed] if name == "fsync"}

    assert {str(tmp_path), str(root), str(root / "queue"), str(root / "queue/cancels")} <= before


@pytest.mark.parametrize("call", ["open", "ftruncate", "write", "fsync", "rename"])
def test_a_replace_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call):
    """The error names the path and the reason."""
    path = tmp_path / "file"
    path.write_text("old")

    def step(name: str, where: str) -> None:
        if name == call:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "step", step)
    with pytest.raises(StorageError, match=r"file.*no space left"):
        files.replace(str(path), b"new")

    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b'{"v":2}', b'{"v":"x"}', b"\xff", b"[" * 5000]
)
def test_a_damaged_document_is_refused_by_name_and_left_as_it_is(tmp_path, data):
    """Exit 7; a guess would overwrite what a person could still mend."""
    path = tmp_path / "file.json"
    path.write_bytes(data)
    with pytest.raises(CorruptStateError, match=r"file\.json"):
        document.load(str(path))

    assert path.read_bytes() == data


@pytest.mark.parametrize("wrong", [KeyError, TypeError, ValueError])
def test_a_document_of_another_form_is_damage_by_name(tmp_path, wrong):
    path = str(tmp_path / "d.json")
    document.save(path, {"a": 1}, str(tmp_path))

    def parse(data):
        raise wrong("field")

    with pytest.raises(CorruptStateError, match="not a cancel") as caught:
        document.load_as(path, parse, "cancel")

    assert path in str(caught.value)
    assert document.load_as(f"{path}.none", parse, "cancel") is None


def test_a_folder_in_place_of_a_document_is_damage(tmp_path):
    """Not a traceback."""
    with pytest.raises(CorruptStateError, match="folder"):
        document.load(str(tmp_path))
    assert document.load(str(tmp_path / "missing")) is None


def test_fields_of_a_later_version_survive(tmp_path):
    """The registry, a host session and a logical session keep what they do not know."""
    home = Home(str(tmp_path / "vyane"), {})
    layout = home.layout
    initialise(home)
    worker = {"name": "w", "logical_session_id": "vs-0", "colour": "red", "shape": {"a": [1]}}
    document.save(layout.registry, {"workers": {"w-1": worker}, "theme": "dark"}, layout.root)
    workers = registry.Registry(layout)
    workers.save()
    stored = document.load(layout.registry)

    assert stored["theme"] == "dark"
    assert stored["workers"]["w-1"]["colour"] == "red"
    assert stored["workers"]["w-1"]["shape"] == {"a": [1]}
    session = render_session(
        HostSession(
            id="s", host="h", worker="w", name="n", logical_session="vs", unknown={"later": 1}
        )
    )
    assert render_session(parse_session(session))["later"] == 1
    logical = render_logical_session(LogicalSession("vs", "n", "w", 1.0, unknown={"later": 1}))
    assert render_logical_session(parse_logical_session(logical))["later"] == 1
