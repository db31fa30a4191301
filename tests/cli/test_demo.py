"""`vyane demo`: the real hooks on a temporary home, and exit 0 only if all was seen."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.simulated import Ran, vyane
from vyane_cli.setup import demo, simulation
from vyane_cli.setup.demo import Scene, play, stage_at


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary homes are made."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def run(scratch: Path, home: Path, *words: str) -> Ran:
    return vyane(home, "demo", *words, environ={"TMPDIR": str(scratch), "HOME": str(home)})


def processes_of(scratch: Path) -> list[str]:
    """Processes that still run in the temporary home."""
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in found.stdout.splitlines() if str(scratch) in line]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path, Path]:
    """The demo, run once: what it said, the folder of its home, the home of the user."""
    scratch, home = tmp_path_factory.mktemp("scratch"), tmp_path_factory.mktemp("home")
    return run(scratch, home), scratch, home


def test_the_demo_shows_each_step_and_exits_0(shown):
    ran, _, _ = shown
    text = ran.out.decode()

    assert ran.status == 0, text + ran.err.decode()
    for words in (
        "bob got it after the tool call",
        "bob was woken with the message",
        "carol got it when she came back",
        "shown again, marked",
        "output-failed",
        "worker-registry.json",
    ):
        assert words in text
    assert "✗" not in text
    assert text.splitlines()[-2].endswith("expectations met")
    assert "vyane hooks install" in text.splitlines()[-1]


def test_the_demo_leaves_nothing_behind_and_never_touches_the_users_home(shown):
    _, scratch, home = shown

    assert list(home.iterdir()) == []
    assert list(scratch.iterdir()) == []
    assert processes_of(scratch) == []


def test_a_kept_home_can_be_looked_at(scratch, tmp_path):
    ran = run(scratch, tmp_path, "--keep", "--json")
    result = json.loads(ran.out)

    workers = json.loads(vyane(result["home"], "workers", "--json").out)

    assert result["ok"]
    assert sorted(worker["name"] for worker in workers) == ["api-main", "docs-main", "web-main"]


def test_what_was_not_seen_fails_the_demo(scratch, monkeypatch):
    """Every hook is silent, as with a guard that does nothing."""
    monkeypatch.setattr(simulation.Ran, "context", "")

    with stage_at(keep=False) as stage:
        scenes = []
        for scene in play(stage):
            scenes.append(scene)
            if len(scenes) == 3:
                break

    assert [scene.ok for scene in scenes] == [True, False, False]


def test_a_failed_expectation_is_exit_1(monkeypatch, capsys):
    from vyane_cli.cli import app

    def failing(stage: object) -> list[Scene]:
        scene = Scene("a step")
        scene.expect(False, "the sky is green")
        return [scene]

    monkeypatch.setattr("vyane_cli.cli.demo.play", failing)

    assert app.run(["demo"]) == 1
    assert "✗ the sky is green" in capsys.readouterr().out


def test_processes_end_though_the_demo_fails(scratch):
    entered = stage_at(keep=False)
    process = entered.__enter__().process()

    assert not entered.__exit__(RuntimeError, RuntimeError(), None), "the error goes on"
    assert process.returncode is not None
    assert list(scratch.iterdir()) == []


def test_a_demo_whose_terminal_is_closed_leaves_nothing(scratch, tmp_path):
    environ = {**os.environ, "TMPDIR": str(scratch), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "vyane_cli", "demo"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)

    assert process.returncode == 130
    assert list(scratch.iterdir()) == []


def test_a_demo_that_is_interrupted_ends_without_a_word(scratch, tmp_path):
    """Ctrl-C reaches every process of the terminal, those that play a session too."""
    environ = {**os.environ, "TMPDIR": str(scratch), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "vyane_cli", "demo"]
    pipe = subprocess.PIPE
    running = subprocess.Popen(
        command, env=environ, stdout=pipe, stderr=pipe, start_new_session=True
    )
    with running as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while not process.stdout.readline().startswith(b"3  "):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr.read() == b""

    assert process.returncode == 130
    assert list(scratch.iterdir()) == []


def test_the_hosts_own_variables_do_not_reach_the_stage(scratch, monkeypatch):
    """The demo may be run by an agent, in a session of its own."""
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "outer")
    monkeypatch.setenv("VYANE_WORKER", "w-outer")

    with stage_at(keep=False) as stage:
        names = set(stage.environ) | set(stage.session("api").environ)

    assert "VYANE_WORKER" not in names
    assert stage.environ.get("CLAUDE_CODE_SESSION_ID") is None


def test_the_listing_counts_what_is_there_and_shows_no_empty_folder(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "x").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "z").touch()

    lines = demo.listing(str(tmp_path)).splitlines()
    assert [line.split() for line in lines] == [["a/", "1", "file"], ["z"]]


def test_a_deaf_reader_makes_the_output_of_a_command_fail(scratch):
    program = "import os\ntry: os.write(1, b'x')\nexcept OSError: raise SystemExit(7)"

    with stage_at(keep=False) as stage:
        ran = stage.run([sys.executable, "-c", program], os.environ, "/", deaf=True)

    assert ran.status == 7
