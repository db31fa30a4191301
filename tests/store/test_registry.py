"""What the registry's documents say of a session, and which files of a folder are documents."""

import os

import pytest

from vyane_cli.sessions import registry
from vyane_cli.sessions.session import HostSession
from vyane_cli.storage import files, processes
from vyane_cli.storage.layout import Layout


@pytest.fixture
def layout(tmp_path) -> Layout:
    return Layout(str(tmp_path / "vyane"))


@pytest.fixture
def session(layout) -> HostSession:
    """A session on record, published as its worker's present one."""
    found = HostSession(
        id="s-1", worker="w-1", logical_session="vs-1", name="bob", host="claude-code",
        process=processes.identify(os.getpid()),
    )  # fmt: skip
    registry.save_session(layout, found)
    registry.write_current(layout, "w-1", "s-1")
    known = registry.load_session(layout, "s-1")
    assert known is not None
    return known


def test_the_present_session_is_the_one_that_was_published(layout, session) -> None:
    assert registry.current_session(layout, "w-1") == session
    assert registry.current_session(layout, "w-2") is None


@pytest.mark.parametrize("text", ["", "../x", "s-2"])
def test_a_worker_whose_file_names_no_session_has_none(layout, session, text) -> None:
    """Damage of a small file, or a record that is gone."""
    registry.write_current(layout, "w-1", text)

    assert registry.current_session(layout, "w-1") is None


def test_a_session_has_ended_by_its_word_or_by_the_proven_end_of_its_process(
    session, monkeypatch
) -> None:
    assert registry.has_ended(None)
    assert registry.has_ended(session._replace(ended="clear"))
    assert not registry.has_ended(session)
    monkeypatch.setattr(processes, "is_present", lambda process: False)
    assert registry.has_ended(session)
    monkeypatch.setattr(processes, "is_present", lambda process: None)
    assert not registry.has_ended(session), "what cannot be told may still run"


def test_the_documents_of_a_folder_are_named_without_what_a_writer_left(tmp_path) -> None:
    for name in ("b.json", "a.json", "a-1.json", ".a.json.12.tmp", ".c.json", "d.jsonl"):
        (tmp_path / name).touch()

    assert files.json_names(str(tmp_path)) == ["a-1", "a", "b"]
    assert files.json_names(str(tmp_path / "nothing")) == []
