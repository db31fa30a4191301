"""`vyane uninstall --purge`: all of vyane's state, and nothing that is not."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.simulated import vyane
from vyane_cli.errors import ExitCode
from vyane_cli.setup import home as removal
from vyane_cli.storage import layout

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "state-files.md"


def purge(home, *words: str, **more):
    """The command as a person runs it."""
    return vyane(home, "uninstall", "--purge", *words, **more)


def test_what_the_page_lists_is_what_may_be_removed():
    page = set(re.findall(r"^## `([^/`]+)", PAGE.read_text(), re.M))

    assert page | {"threads"} == layout.OURS, "threads: of the file channel, unless it is set"


@pytest.mark.parametrize("stranger", ["src", ".git", "notes.md", "config.toml.bak"])
def test_a_folder_that_holds_anything_else_is_left_whole(home, stranger):
    """VYANE_HOME=$PWD in a repository: its own `hooks` and `projects` look like ours."""
    (home / stranger).mkdir()
    ran = purge(home, "--yes", "--json")
    error = json.loads(ran.err)["error"]

    assert ran.status == ExitCode.REFUSED
    assert error["code"] == "not_ours"
    assert stranger in error["message"]
    assert (home / "worker-registry.json").exists()


@pytest.mark.parametrize("name", ["config.toml", "hooks", "messages", "sessions", "projects"])
def test_a_folder_with_a_name_of_ours_is_not_ours_for_that(tmp_path, name):
    """Other programs have a `config.toml` and `sessions` too."""
    (tmp_path / name).mkdir()
    ran = purge(tmp_path, "--yes")

    assert ran.status == ExitCode.REFUSED
    assert (tmp_path / name).exists()


def test_all_of_it_goes_what_a_crash_left_too(home):
    (home / ".config.toml.123.tmp").write_text("half")
    assert vyane(home, "init").status == 0

    assert purge(home, "--yes").status == 0
    assert not home.exists()


def test_a_home_that_is_a_link_goes_with_what_it_names(home, tmp_path, monkeypatch):
    monkeypatch.setattr(removal, "SETTLE_S", 0.0)
    link = tmp_path / "link"
    link.symlink_to(home)

    assert purge(link, "--yes").status == 0
    assert not home.exists()
    assert not os.path.lexists(link)


@pytest.mark.parametrize("words, answer", [((), b""), ((), b"n\n"), (("--json",), b"y\n")])
def test_without_a_yes_nothing_is_removed_and_it_says_how(home, words, answer):
    """Nobody there, a no, or a program that asked for JSON."""
    ran = purge(home, *words, stdin=answer)

    assert ran.status == ExitCode.INVALID_INPUT
    assert b"--purge --yes" in ran.err
    assert home.exists()
    if words:
        assert ran.out == b""
        assert json.loads(ran.err)["error"]["code"] == "confirm"


def test_no_mode_is_changed_beside_what_is_not_ours(home):
    """`doctor --fix` in a repository would take the x from every program in it."""
    program = home / "bin" / "run"
    program.parent.mkdir(mode=0o755)
    program.touch(mode=0o755)
    (home / "worker-names").chmod(0o644)
    ran = vyane(home, "doctor", "--fix", "--json")
    (check,) = (one for one in ran.document if one["check"] == "modes")

    assert program.stat().st_mode & 0o777 == 0o755
    assert (home / "worker-names").stat().st_mode & 0o777 == 0o644
    assert not check["ok"]
    assert "worker-names" in check["detail"]
    assert "bin/" not in check["detail"]
    assert "bin" in check["fix"]
    program.unlink()
    program.parent.rmdir()
    vyane(home, "doctor", "--fix")
    assert (home / "worker-names").stat().st_mode & 0o777 == 0o600


def test_gc_takes_no_temporary_file_of_others(home):
    """`.NAME.PID.tmp` is vyane's form; others have files that end in `.tmp` too."""
    ours = home / "messages" / ".x.json.123.tmp"
    theirs = (home / "bin" / ".x.json.123.tmp", home / "messages" / ".swap.tmp")
    for path in (ours, *theirs):
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (1, 1))
    assert vyane(home, "gc").status == 0

    assert not ours.exists()
    assert all(path.exists() for path in theirs)
