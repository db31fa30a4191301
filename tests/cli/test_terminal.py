"""What a person sees on a narrow terminal: an id that has to be typed is never cut."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest

from tests.simulated import vyane
from vyane_cli.cli import app

LONG = "api-main / find-every-caller-of-orders-total"
TITLE = "a title of a task that says what is to be done in more words than fit on one line"


@pytest.fixture
def home(tmp_path):
    """A worker with a long name and a message, and a project with a long task."""
    for words in (
        ("workers", "register", LONG),
        ("project", "create", "shop", "--dir", str(tmp_path)),
        ("task", "add", TITLE, "--project", "shop"),
    ):
        assert vyane(tmp_path, *words).status == 0
    return tmp_path


def seen(home, *words: str, columns: int = 80, status: int = 0) -> list[str]:
    """The lines of a command on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environ = {
        "PATH": os.environ["PATH"],
        "VYANE_HOME": str(home),
        "TERM": "xterm",
        "NO_COLOR": "1",
    }
    running = subprocess.Popen(
        [sys.executable, "-m", "vyane_cli", *words], stdout=theirs, stderr=theirs, env=environ
    )
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:  # Linux: the other end is closed
        pass
    os.close(ours)
    assert running.wait(30) == status, shown
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()


def test_a_long_title_gives_way_and_the_id_does_not(home):
    lines = seen(home, "task", "list", "--project", "shop")

    assert lines[0].split() == ["id", "is", "line", "title", "note"]
    assert lines[1].startswith("T1  pending ")
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)


def test_a_long_name_gives_way_and_the_id_does_not(home):
    worker = vyane(home, "workers", "--json").document[0]["id"]
    lines = seen(home, "workers")

    assert any(worker in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_narrow_list_of_workers_folds_no_heading(home, tmp_path):
    short = tmp_path / "short"
    assert vyane(short, "workers", "register", "web-main", "--cwd", "/").status == 0
    assert vyane(short, "takeover", "web-main", "wait", "--timeout", "0.1s",
                 "--from-kind", "human").status == 0  # fmt: skip
    lines = seen(short, "workers")

    assert lines[0].split()[-1] == "folder"
    assert "taken over" in lines[1]


def test_a_narrow_inbox_shows_the_end_of_an_id_which_any_command_takes(home):
    assert vyane(home, "send", LONG, "please look at the tax rules").status == 0
    lines = seen(home, "inbox", LONG)
    message = vyane(home, "inbox", LONG, "--json").document[0]["id"]

    assert lines[0].split()[-1] == "summary"
    assert lines[1].split()[0] == message[-8:]
    assert vyane(home, "show", message[-8:]).status == 0
    wide = seen(home, "inbox", LONG, columns=120)
    assert wide[1].split()[0] == message


def test_the_list_of_commands_has_one_line_for_each(home):
    lines = seen(home, "--help")
    listed = [line.split()[1] for line in lines if line.startswith("│ ") and line[2] != " "]

    assert [name for name in app.COMMANDS if name not in listed] == []
    assert not [line for line in lines[12:] if line.startswith("│  ")]


def test_a_key_of_the_settings_is_never_cut(home):
    keys = [row["key"] for row in vyane(home, "config", "list", "--json").document]
    lines = seen(home, "config", "list")

    assert [key for key in keys if not any(line.startswith(f"{key} = ") for line in lines)] == []
    assert max(map(len, lines)) <= 80


def test_a_setting_is_shown_as_it_is_typed(home):
    for key, value in (("mirror.after_stop", "true"), ("notify.urls", "json://a, json://b")):
        assert vyane(home, "config", "set", key, value).out.decode() == f"{key} = {value}\n"
        assert vyane(home, "config", "get", key).out.decode() == f"{value}\n"


def test_a_sentence_and_a_hint_are_broken_between_words(home):
    """Not in the middle of one, as a terminal does; a hint stays below what it belongs to."""
    _, *hint = seen(home, "watch", LONG, "--history", "--kind", "Foo", status=2)
    sent = seen(home, "send", LONG, "x")

    assert len(hint) > 1
    assert all(line.startswith("       ") and len(line) <= 80 for line in hint)
    assert all(line.rstrip().endswith(",") for line in hint[:-1])
    assert "it gets the message at its next call" in " ".join(sent)
    assert max(map(len, sent)) <= 80


def commands(found: dict, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict]]:
    """Every command of `describe`, by its words."""
    for name, command in found.items():
        yield (*path, name), command
        yield from commands(command.get("commands", {}), (*path, name))


def test_help_shows_every_word_of_every_option(capsys, monkeypatch, tmp_path):
    """Help is markup to the library that prints it: what stands in brackets could be taken away."""
    monkeypatch.setenv("COLUMNS", "500")
    app.run(["--json", "describe"])
    everything = json.loads(capsys.readouterr().out)["commands"]
    for words, command in commands(everything):
        if words == ("timeline", "read"):
            continue
        assert app.run([*words, "--help"]) == 0
        shown = capsys.readouterr().out
        for param in command["params"]:
            assert param["help"] in shown, words
        assert command["help"].splitlines()[0].strip() in shown, words
