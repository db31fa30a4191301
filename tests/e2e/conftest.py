"""One installation for the whole run; for each test a lab, a state root and sessions of its own."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from hostlab.lab import ClientMissingError, Lab, find_client

from e2e.installation import Installation, build_wheel, install
from e2e.world import World, open_world


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put what vyane says of every message beside a failure, while the lab is still open."""
    report = yield
    world = next((w for w in getattr(item, "funcargs", {}).values() if isinstance(w, World)), None)
    if report.failed and call.when == "call" and world is not None:
        report.sections.append(("vyane", world.story()))
    return report


@pytest.fixture(scope="session", autouse=True)
def real_client() -> str:
    """The client. Without it every test here fails: skipped, it would seem to have passed."""
    problem = ""
    try:
        return find_client()
    except ClientMissingError as error:
        problem = str(error)
    pytest.fail(problem, pytrace=False)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all pytest-xdist workers of this run have in common."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return folder / "vyane-e2e"


@pytest.fixture(scope="session")
def wheel(shared: Path) -> Path:
    """The project's wheel, built once a run."""
    folder = shared / "wheel"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(shared / "wheel.lock"):
        built = [*folder.glob("*.whl")]
        return built[0] if built else build_wheel(folder)


@pytest.fixture(scope="session")
def installation(shared: Path, wheel: Path) -> Installation:
    """The installation that all tests use which do not break it."""
    done = shared / "installed"
    with FileLock(shared / "installed.lock"):
        if done.exists():
            return Installation(shared / "venv")
        made = install(wheel, shared / "venv")
        done.touch()
        return made


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A user's machine with the client on it, and without vyane."""
    with Lab(tmp_path / "lab") as lab:
        yield lab


@pytest.fixture
def world(lab: Lab, installation: Installation, tmp_path: Path) -> World:
    """The same with vyane set up for the user."""
    return open_world(lab, installation, tmp_path / "vyane")


@pytest.fixture
def fragile_world(lab: Lab, wheel: Path, tmp_path: Path) -> World:
    """The same with an installation of its own, which the test may break."""
    return open_world(lab, install(wheel, tmp_path / "venv"), tmp_path / "vyane")
