"""`vyane spawn --tmux`: the interactive program in a pane, and its result."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.children import inbox, wait, workers
from tests.hostlab.waiting import wait_until
from tests.simulated import World, vyane
from vyane_cli.children import launches

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="there is no tmux")

PROGRAM = """
import json, os, subprocess, sys, time
assert os.isatty(0) and os.isatty(1)
with open(sys.argv[1], "w") as file:
    json.dump({"argv": sys.argv[2:], "environ": dict(os.environ), "cwd": os.getcwd(),
               "front": os.tcgetpgrp(0) == os.getpgrp()}, file)
line = input()
if line.startswith("report "):
    vyane = [sys.executable, "-m", "vyane_cli"]
    subprocess.run([*vyane, "report", "--result", line[7:]], check=True)
sys.exit(int(line) if line.isdigit() else 0)
"""


class Terminal:
    """A tmux server of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = str(folder / "tmux-socket")
        self.run("new-session", "-d", "-x", "80", "-y", "24", "sleep 600")
        shown = self.run("display-message", "-p", "#{socket_path},#{pid},0 #{pane_id}").split()
        self.environ = {"TMUX": shown[0], "TMUX_PANE": shown[1]}

    def run(self, *words: str) -> str:
        keep = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C.UTF-8"}
        mine = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "other", "CODEX_THREAD_ID": "t"}
        done = subprocess.run(
            ["tmux", "-S", self.socket, "-f", "/dev/null", *words],
            capture_output=True, text=True, check=True, env={**keep, **mine},
        )  # fmt: skip
        return done.stdout.strip()

    def panes(self) -> list[str]:
        return self.run("list-panes", "-a", "-F", "#{pane_id}").split()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    found = Terminal(tmp_path)
    yield found
    subprocess.run(["tmux", "-S", found.socket, "kill-server"], check=False)


@pytest.fixture
def shown(world: World) -> Callable[[], Any]:
    """What the interactive program was started with, once it runs."""
    folder = Path(world.layout.root).parent
    (folder / "look.py").write_text(PROGRAM)
    command = [sys.executable, str(folder / "look.py"), str(folder / "seen"), "{session_id}",
               "{prompt}"]  # fmt: skip
    with Path(world.layout.config).open("a") as file:
        file.write(f"\n[runtimes.look]\nspawn = ['true']\ninteractive = {json.dumps(command)}\n")

    def look() -> Any:
        seen = folder / "seen"
        wait_until(lambda: seen.exists() and bool(seen.read_text()), "it has written", timeout_s=20)
        return json.loads((folder / "seen").read_text())

    return look


def open_child(world: World, terminal: Terminal, where: str, **environ: str) -> Any:
    given = ["spawn", "LOOK", "--parent", "bob", "--runtime", "look", "--tmux", where]
    given += ["--no-inherit-context", "--cwd", "/tmp", "--json"]
    ran = vyane(world.layout.root, *given, environ={**terminal.environ, **environ})
    assert ran.status == 0, ran.err
    return json.loads(ran.out)


@pytest.mark.parametrize("where", ["pane", "window"])
def test_the_program_has_the_terminal_and_none_of_a_hosts_variables(
    world,
    terminal,
    shown,
    where,
):
    """The tmux server's environment has some; the prompt says how to report."""
    child = open_child(world, terminal, where, CLAUDE_CONFIG_DIR="/c")
    seen = shown()
    assert (seen["front"], seen["cwd"]) == (True, "/tmp")
    assert seen["argv"][1].startswith("LOOK\n\n")
    assert "vyane report --result" in seen["argv"][1]
    assert not [n for n in seen["environ"] if n.startswith(("CLAUDE", "CODEX", "GEMINI"))]
    assert seen["environ"]["VYANE_WORKER"] == child["id"]
    assert seen["environ"]["TMUX_PANE"] in terminal.panes()
    windows = terminal.run("list-windows", "-F", "#{window_name}").split()
    assert len(windows) == (1 if where == "pane" else 2)
    launch = launches.load(world.layout, child["id"])
    assert launch is not None
    assert launch.session == seen["argv"][0]


def test_what_it_reports_is_its_result_and_its_end_is_no_second_one(world, terminal, shown):
    """The pane closes with the program."""
    child = open_child(world, terminal, "pane")
    pane = shown()["environ"]["TMUX_PANE"]
    terminal.run("send-keys", "-t", pane, "report FOUND", "Enter")
    assert wait(world, child["id"])[0]["summary"] == "FOUND"
    wait_until(lambda: pane not in terminal.panes(), "the pane is closed", timeout_s=20)
    assert len(inbox(world, "bob")) == 1


@pytest.mark.parametrize(
    "end, error",
    [("keys", "it exited with status 3"), ("close", "it ")],
)
def test_a_program_that_ends_without_a_word_has_failed_by_its_status(
    world,
    terminal,
    shown,
    end,
    error,
):
    """Also when the person closes the pane: the launcher outlives it, and says so."""
    child = open_child(world, terminal, "window")
    pane = shown()["environ"]["TMUX_PANE"]
    if end == "keys":
        terminal.run("send-keys", "-t", pane, "3", "Enter")
    else:
        terminal.run("kill-pane", "-t", pane)
    (ended,) = wait(world, child["id"])
    assert (ended["status"], ended["success"]) == ("FAILED", False)
    (message,) = inbox(world, "bob")
    assert message["payload"]["error"].startswith(error)


def test_ctrl_c_is_the_programs_and_not_the_launchers(world, terminal, shown):
    """It ends the program here, and its end is told."""
    child = open_child(world, terminal, "window")
    terminal.run("send-keys", "-t", shown()["environ"]["TMUX_PANE"], "C-c")
    assert wait(world, child["id"])[0]["status"] == "FAILED"
    assert len(inbox(world, "bob")) == 1


def test_outside_of_tmux_a_window_is_a_session_to_attach_to(world, shown, tmp_path):
    """A person's script, or an agent without a terminal, has no pane to split."""
    given = ["spawn", "LOOK", "--parent", "bob", "--runtime", "look", "--tmux"]
    refused = vyane(world.layout.root, *given, "pane")
    assert refused.status == 2
    assert b"--tmux window" in refused.err
    environ = {"TMUX_TMPDIR": str(tmp_path)}
    ran = vyane(world.layout.root, *given, "window", environ=environ)
    try:
        assert ran.status == 0, ran.err
        assert b"tmux attach -t vyane-w-" in ran.out
        shown()
    finally:
        subprocess.run(["tmux", "kill-server"], env={**os.environ, **environ}, check=False)
    (child,) = [w for w in workers(world).values() if w["parent_worker_id"]]
    assert wait(world, child["id"])[0]["status"] == "FAILED"


@pytest.mark.parametrize(
    "words, says",
    [
        (("--runtime", "look", "--tmux", "tab"), "one of pane, window"),
        (("--runtime", "sh", "--tmux", "window"), "one for a pane"),
    ],
)
def test_a_place_or_program_that_will_not_do_is_refused(world, shown, words, says):
    """Nothing is stored, nothing is opened."""
    ran = vyane(world.layout.root, "spawn", "x", "--parent", "bob", *words)
    assert ran.status == 2
    assert says in ran.err.decode()
    assert len(workers(world)) == 1


def test_without_tmux_it_is_refused(world, shown, tmp_path):
    """And says what is missing."""
    environ = {"PATH": str(tmp_path)}
    ran = vyane(
        world.layout.root, "spawn", "x", "--parent", "bob", "--runtime", "look",
        "--tmux", "window", environ=environ,
    )  # fmt: skip
    assert ran.status == 2
    assert b"there is no tmux" in ran.err
