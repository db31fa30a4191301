"""A thread file in the hands of a person: renamed, put elsewhere, saved by another editor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.channels.bench import opened, part_of, post
from tests.channels.file_bench import FileBench
from vyane_cli.channels.file import adapter
from vyane_cli.channels.port import ChannelVerdict


@pytest.fixture
def bench(tmp_path: Path) -> FileBench:
    return FileBench(tmp_path)


def test_a_renamed_thread_goes_on_in_its_file(bench: FileBench) -> None:
    channel = bench.channel()
    where = opened(channel)
    renamed = bench.folder / "the api.md"
    bench.path(where).rename(renamed)
    post(channel, where, "a result")
    with renamed.open("a") as thread:
        thread.write("my answer\n")

    outcome = channel.read(where, "")
    assert outcome.page is not None
    assert [one.text for one in outcome.page.messages] == ["my answer"]
    assert "> a result" in renamed.read_text()
    assert channel.probe(where).verdict is ChannelVerdict.DONE
    assert not bench.path(where).exists()


def test_a_file_that_only_quotes_the_key_is_not_taken_for_a_renamed_one(bench: FileBench) -> None:
    channel = bench.channel()
    where = opened(channel)
    text = bench.path(where).read_text()
    bench.path(where).unlink()
    (bench.folder / "notes.md").write_text(f"as it was:\n{text}")

    assert channel.read(where, "").verdict is ChannelVerdict.GONE


def test_a_thread_saved_with_other_line_ends_is_the_same_thread(bench: FileBench) -> None:
    channel = bench.channel()
    where = opened(channel)
    post(channel, where, "a result", "n1")
    bench.say(where, "my answer\nin two lines")
    first = channel.read(where, "")
    assert first.page is not None
    path = bench.path(where)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    with path.open("ab") as thread:
        thread.write(b"more\r\nof it\r\n")

    again = channel.read(where, first.page.cursor)
    assert again.page is not None
    assert [one.text for one in again.page.messages] == ["more\nof it"]
    assert channel.find_post(where, part_of(channel, "a result"), "n1", "").id == "n1"
    assert channel.edit(where, "n1", part_of(channel, "another")).verdict is ChannelVerdict.DONE
    assert "> another" in path.read_text()


@pytest.mark.parametrize("above", ["\n", "\n  \n", "\r\n", "\ufeff"])
def test_an_empty_line_above_the_head_makes_no_words_of_it(bench: FileBench, above: str) -> None:
    channel = bench.channel()
    where = opened(channel)
    path = bench.path(where)
    path.write_text(above + path.read_text(), newline="")
    bench.say(where, "my answer")

    outcome = channel.read(where, "")
    assert outcome.page is not None
    assert [one.text for one in outcome.page.messages] == ["my answer"]
    channel.mark(where, title="another")
    assert path.read_text().strip("\n \ufeff").startswith("# another\n<!-- vyane:thread vs-")
    assert path.read_text().count("vyane:thread") == 1


def test_a_folder_that_is_not_there_ends_no_conversation(bench: FileBench) -> None:
    channel = bench.channel()
    where = opened(channel)
    away = bench.folder.rename(bench.home / "away")

    lost = channel.read(where, "")
    away.rename(bench.folder)

    assert (lost.verdict, lost.reason) == (ChannelVerdict.OFF, "folder-unusable")
    assert "put it back" in lost.fix
    assert channel.read(where, "").verdict is ChannelVerdict.DONE


@pytest.mark.parametrize(
    "closed, verdict, named",
    [
        ("file", ChannelVerdict.LOCKED, "may not be read"),
        ("folder", ChannelVerdict.OFF, "permission denied"),
    ],
)
def test_what_may_not_be_read_is_named_as_it_is(
    bench: FileBench,
    monkeypatch: pytest.MonkeyPatch,
    closed: str,
    verdict: ChannelVerdict,
    named: str,
) -> None:
    """Root may read everything: that the account may not is said for it here."""
    channel = bench.channel()
    where = opened(channel)

    def refuse(path: object, *rest: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(adapter, "open", refuse, raising=False)
    monkeypatch.setattr(adapter.os, "access", lambda path, mode: closed == "file")
    outcome = channel.read(where, "")

    assert outcome.verdict is verdict
    assert named in outcome.detail
    thread = str(bench.path(where))
    assert (thread in outcome.detail, "chmod u+rw" in outcome.fix) == (closed == "file",) * 2
