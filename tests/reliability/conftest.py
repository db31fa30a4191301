"""Rules by their id, counts for the report, and a run that goes on where the last one stopped."""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reliability import report
from tests.reliability.actors import Stage
from tests.simulated import machine

ROOT = Path(__file__).parents[2]
RULE = re.compile(r"test_r(\d\d)_")
PARAMETER = re.compile(r"\[(R\d+)\]$")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("reliability")
    group.addoption(
        "--rule",
        action="append",
        default=[],
        metavar="R7",
        help="only the tests of this rule; may be given more than once",
    )
    group.addoption(
        "--resume", action="store_true", help="leave out what has passed at this version already"
    )
    group.addoption(
        "--minutes", type=float, default=30.0, help="how long the soak takes (default: 30)"
    )


def rule_of(nodeid: str) -> str:
    """By the parameter, if that is a rule; else by the file."""
    named = PARAMETER.search(nodeid)
    found = RULE.match(Path(nodeid.split("::")[0]).name)
    return named[1] if named else f"R{int(found[1])}" if found else ""


def version() -> str:
    """The commit, and whether the files differ from it."""

    def git(*words: str) -> str:
        ran = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return ran.stdout.strip()

    head = git("rev-parse", "--short", "HEAD") or "no-git"
    return head + ("+" if git("status", "--porcelain", "--", "vyane_cli") else "")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return  # the process that hands out the tests keeps the record
    config.stash[KEPT] = Record(report.path(), version())
    config.pluginmanager.register(config.stash[KEPT], "reliability-record")


class Record:
    """Every finished test of this version, one line each: for the report and for `--resume`."""

    def __init__(self, path: Path, at: str) -> None:
        self.path, self.version = path, at

    def passed(self) -> set[str]:
        rows = report.load(self.path, self.version)
        return {row["test"] for row in rows if row["outcome"] == "passed"}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if "tests/reliability/" not in report.nodeid:
            return
        if report.when != "call" and report.outcome == "passed":
            return
        counts: dict[str, int] = {}
        for name, value in report.user_properties:
            if name == "counts" and isinstance(value, dict):
                counts = dict(value)
        row = {
            "version": self.version,
            "rule": rule_of(report.nodeid),
            "test": report.nodeid,
            "outcome": report.outcome,
            "seconds": round(report.duration, 1),
            "counts": counts,
            "at": int(time.time()),
        }
        if report.skipped and isinstance(report.longrepr, tuple):
            row["why"] = str(report.longrepr[2])
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        lines = report.table(report.load(self.path, self.version))
        if lines:
            terminalreporter.section(f"reliability at {self.version}")
            for line in lines:
                terminalreporter.write_line(line)


KEPT: pytest.StashKey[Record] = pytest.StashKey()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = {rule.upper() for rule in config.getoption("--rule")}
    done: set[str] = set()
    if config.getoption("--resume"):
        done = Record(report.path(), version()).passed()
    kept, left = [], []
    for item in items:
        rule = rule_of(item.nodeid)
        out = (wanted and rule not in wanted) or item.nodeid in done
        (left if out else kept).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


@pytest.fixture
def count(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Add to what this test counts: kills, runs, messages."""
    counts: dict[str, int] = {}  # no Counter: it goes from one test process to another
    request.node.user_properties.append(("counts", counts))

    def add(**numbers: int) -> None:
        for name, number in numbers.items():
            counts[name] = counts.get(name, 0) + number

    return add


@pytest.fixture
def soak_s(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--minutes")) * 60


@pytest.fixture(autouse=True)
def small_umask() -> Any:
    before = os.umask(0)  # what is made 0600 must not owe it to the umask
    yield
    os.umask(before)


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A home with a session in the middle of a turn."""
    with machine() as make:
        host = make()
        host.start()
        host.prompt()
        yield Stage(host, Path(host.home).parent / "logs")
