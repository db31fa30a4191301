"""Fixtures for all tests: a home, a state root and an environment that belong to the test only.

No test sees the user's state.
"""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.simulated import Host, World, fast_folder, machine, memory, new_world

# A deadline measures the machine, not the code; the other health checks stay on.
settings.register_profile("ci", deadline=None)
settings.load_profile("ci")

# `tmp_path` is in memory too, because thousands of flushes would otherwise wait for a disk.
if folder_in_memory := memory():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", folder_in_memory)

# A shell starts background jobs with Ctrl-C ignored, and child processes inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).parent
ON_DEMAND = ("e2e", "reliability")
PREFIXES = ("CLAUDE", "CODEX_", "GEMINI_", "VYANE_", "XDG_", "TMUX")
NAMES = ("COLUMNS", "FORCE_COLOR", "LANGUAGE", "NO_COLOR", "PY_COLORS")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the slow folders, unless the command line names a folder or a path in it."""
    for name in ON_DEMAND:
        if collection_path == HERE / name and not any(
            Path(config.invocation_params.dir, arg.split("::")[0])
            .resolve()
            .is_relative_to(HERE / name)
            for arg in config.args
        ):
            return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name in ON_DEMAND:
            if item.path.is_relative_to(HERE / name):
                item.add_marker(name)


@pytest.fixture(autouse=True)
def own_environment(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("user")
    home = folder / "home"
    home.mkdir()
    for name in [*os.environ]:
        if name.startswith(PREFIXES) or name in NAMES:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("VYANE_HOME", str(folder / "vyane"))  # missing: tests cover its creation
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


@pytest.fixture
def world() -> Iterator[World]:
    """A state root, and nobody in it."""
    with fast_folder() as folder:
        yield new_world(folder)


@pytest.fixture
def host() -> Iterator[Callable[..., Host]]:
    """Yield a function that makes sessions on one state root."""
    with machine() as make:
        yield make


@pytest.fixture
def one(host: Callable[..., Host]) -> Host:
    """Return a started session that is called `project`."""
    made = host()
    made.start()
    return made
