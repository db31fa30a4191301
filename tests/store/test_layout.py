"""Where the state lies: by the environment, and by the account where that says nothing useful."""

import os
import pwd
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.simulated import vyane
from vyane_cli.errors import InvalidInputError
from vyane_cli.home import Home
from vyane_cli.storage.layout import find_root

NO_HOMES = ["", "/", "//", "~", "~/x", "home/ann", "."]
"""What cron, a service manager or a quoted `~` leave in HOME."""


@pytest.mark.parametrize("home", NO_HOMES)
def test_a_home_that_is_none_is_the_accounts(home, monkeypatch):
    """Nothing is made in `/`, in a folder named `~`, or wherever the command happens to run."""
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir="/users/ann"))

    assert find_root({"HOME": home}) == "/users/ann/.config/vyane"
    assert find_root({"HOME": home, "VYANE_HOME": "~/state"}) == "/users/ann/state"
    assert find_root({"HOME": home, "XDG_CONFIG_HOME": "/cfg"}) == "/cfg/vyane"
    assert Home("~/state", {"HOME": home}).layout.root == "/users/ann/state"


@pytest.mark.parametrize("home", NO_HOMES)
@pytest.mark.parametrize("entry", [None, "/", ""])
def test_an_account_without_a_home_is_told_what_to_set(home, entry, monkeypatch):
    def of_account(uid: int) -> SimpleNamespace:
        if entry is None:
            raise KeyError(uid)
        return SimpleNamespace(pw_dir=entry)

    monkeypatch.setattr(pwd, "getpwuid", of_account)
    with pytest.raises(InvalidInputError, match="HOME") as raised:
        find_root({"HOME": home})

    assert "VYANE_HOME" in raised.value.hint
    assert find_root({"HOME": home, "VYANE_HOME": "/state"}) == "/state"


def test_a_relative_folder_of_settings_is_passed_over():
    """As the standard that has the variable wants it: else each folder had a store of its own."""
    assert find_root({"HOME": "/h", "XDG_CONFIG_HOME": "cfg"}) == "/h/.config/vyane"


def test_a_relative_state_folder_is_refused_where_a_variable_names_it(tmp_path):
    """A session and a shell in two folders would have two; `--home` is what a person just typed."""
    ran = vyane("state", "init", cwd=tmp_path)
    assert ran.status == 2
    assert str(tmp_path / "state") in ran.err.decode()
    assert os.listdir(tmp_path) == []
    assert vyane("", "--home", "state", "init", cwd=tmp_path).status == 0


@pytest.mark.parametrize("words", ["doctor", "spawn x --parent a", "hooks install", "uninstall"])
def test_a_working_folder_that_was_removed_is_said_so(tmp_path, words):
    """By the commands that need it; it is no fault of vyane's."""
    gone = tmp_path / "gone"
    gone.mkdir()
    command = [sys.executable, "-P", "-m", "vyane_cli", *words.split()]
    ran = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *command],
        cwd=gone,
        env={**os.environ, "VYANE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert (ran.returncode, b"working folder was removed" in ran.stderr) == (2, True), ran.stderr


def test_a_tilde_that_no_shell_took_away_is_the_home(tmp_path):
    """In an option, in a variable; that of nobody is refused, and nothing is made."""
    here, home = tmp_path / "here", tmp_path / "home"
    here.mkdir()
    home.mkdir()
    environ = {"HOME": str(home), "VYANE_HOME": ""}
    assert vyane("", "--home", "~/a", "init", environ=environ, cwd=here).status == 0
    assert vyane("~/b", "init", environ={"HOME": str(home)}, cwd=here).status == 0
    for words, more in (
        (("--home", "~nobody-of-that-name/x", "init"), environ),
        (("init",), {**environ, "VYANE_HOME": "~nobody-of-that-name/x"}),
    ):
        ran = vyane("", *words, environ=more, cwd=here)
        assert ran.status == 2
        assert b"there is no such account" in ran.err

    assert sorted(os.listdir(home)) == ["a", "b"]
    assert os.listdir(here) == []
