"""What several tests of commands stand on."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.children import launchers
from tests.hostlab.waiting import wait_until
from tests.simulated import World, fast_folder, new_world, vyane
from vyane_cli.children import cancel, report
from vyane_cli.cli import app

CHILD = """
import json, os, sys
print(json.dumps({"prompt": sys.stdin.read(), "cwd": os.getcwd(), "environ": dict(os.environ)}))
print("a warning", file=sys.stderr)
"""


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands look sooner again at what they wait for; also those that run in a fork."""
    monkeypatch.setattr(report, "LOOK_S", 0.02)
    monkeypatch.setattr(report, "LOG_LOOK_S", 0.02)
    monkeypatch.setattr(cancel, "LOOK_EVERY_S", 0.02)


@pytest.fixture
def run(one, monkeypatch, capfd):
    """A command in this process: (exit code, standard output, standard error)."""
    monkeypatch.setenv("VYANE_HOME", one.home)
    monkeypatch.setattr("vyane_cli.sessions.identity._has_terminal", lambda: False)

    def command(*words: str) -> tuple[int, str, str]:
        code = app.run(app.hoist(words))
        out, err = capfd.readouterr()
        return int(code), out, err

    return command


@pytest.fixture
def world() -> Iterator[World]:
    """A parent, bob, and children of several kinds."""
    with fast_folder() as folder:
        world = new_world(folder)
        world.register("bob")
        (folder / "child.py").write_text(CHILD)
        kinds = {
            "says": [sys.executable, str(folder / "child.py")],
            "sh": ["sh", "-c", "{prompt}"],
            "file": ["cat", "{prompt_file}"],
            "absent": ["/no/such/program"],
        }
        with (folder / "vyane" / "config.toml").open("a") as file:
            for name, command in kinds.items():
                file.write(f"\n[runtimes.{name}]\nspawn = {json.dumps(command)}\n")
        yield world
        wait_until(lambda: not launchers(world), "no launcher writes into the folder any more")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A state root with a worker of a host without hooks, called bob."""
    home = tmp_path / "state"
    assert vyane(home, "workers", "register", "bob").status == 0
    return home
