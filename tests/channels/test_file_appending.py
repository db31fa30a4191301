"""A post and a person's words that are appended to one file at the same moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.channels.bench import opened, post
from tests.channels.file_bench import FileBench
from vyane_cli.channels.file import adapter
from vyane_cli.channels.file.thread import parse_thread
from vyane_cli.channels.port import ChannelVerdict, Opening, Part

WORDS = "A person wrote this line, and it is a long one.\n"


@pytest.fixture
def bench(tmp_path: Path) -> FileBench:
    return FileBench(tmp_path)


def writes_before(monkeypatch: pytest.MonkeyPatch, call: str, path: Path) -> None:
    """A person appends right before this call changes the file, once."""
    done: list[str] = []

    def step(name: str, where: str) -> None:
        if name == call and where == str(path) and not done:
            done.append(name)
            with path.open("a") as thread:
                thread.write(WORDS)

    monkeypatch.setattr(adapter, "step", step)


@pytest.mark.parametrize("call", ["open", "write"])
def test_a_line_that_is_appended_while_a_post_is_written_is_kept(
    bench: FileBench, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    channel = bench.channel()
    where = opened(channel)
    writes_before(monkeypatch, call, bench.path(where))

    post(channel, where, "a short answer")

    outcome = channel.read(where, "")
    assert outcome.page is not None
    assert [one.text for one in outcome.page.messages] == [WORDS.strip()]
    assert bench.shown(where)[1:] == ["a short answer"]


@pytest.mark.parametrize("call", ["rename", "open", "write"])
def test_a_line_that_is_appended_while_a_cut_block_is_taken_away_is_kept(
    bench: FileBench, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    channel = bench.channel()
    where = opened(channel)
    path = bench.path(where)
    with path.open("a") as thread:
        thread.write("> <!-- vyane:post n9 3 -->\n> one\n")
    writes_before(monkeypatch, call, path)

    channel.post(where, Part("one\ntwo\nthree"), "n9")
    channel.post(where, Part("one\ntwo\nthree"), "n9")

    assert path.read_text().count(WORDS) == 1
    assert bench.shown(where)[1:] == ["one\ntwo\nthree"]


def test_a_full_disk_leaves_the_beginning_of_a_block_that_the_next_post_takes_away(
    bench: FileBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = bench.channel()
    where = opened(channel)
    write = adapter.os.write
    monkeypatch.setattr(adapter.os, "write", lambda fd, data: write(fd, data[:30]))
    assert channel.post(where, Part("one\ntwo"), "n9").verdict is ChannelVerdict.LATER
    monkeypatch.undo()
    assert parse_thread(bench.path(where).read_text()).unfinished

    post(channel, where, "one\ntwo", "n9")

    assert bench.shown(where)[1:] == ["one\ntwo"]


def test_zeros_that_a_loss_of_power_left_are_no_words_and_the_next_post_takes_them_away(
    bench: FileBench,
) -> None:
    channel = bench.channel()
    where = opened(channel)
    path = bench.path(where)
    with path.open("a") as thread:
        thread.write("mine\n" + "\0" * 100)
    assert [line.text for line in parse_thread(path.read_text()).lines] == ["mine"]

    post(channel, where, "one\ntwo", "n9")

    assert "\0" not in path.read_text()
    assert bench.shown(where)[1:] == ["one\ntwo"]


def test_a_thread_is_known_by_its_head_and_not_by_what_is_quoted_in_it(bench: FileBench) -> None:
    channel = bench.channel()
    said = "see\n<!-- vyane:thread vs-b open -->\nand <!-- vyane:thread vs-b open -->"
    channel.open(Opening("vs-a", "a", Part(said), "n1"))
    with (bench.folder / "a.vs-a.md").open("a") as thread:
        thread.write("<!-- vyane:thread vs-b open -->\n")

    outcome = channel.open(Opening("vs-b", "b", Part("mine"), "n2"))

    assert not outcome.found
    assert outcome.conversation is not None
    assert outcome.conversation.id == "b.vs-b"
