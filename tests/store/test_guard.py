"""
The guard, run by each shell that stands in for a system's `sh`, with an interpreter that only
writes down how it was called. Whatever is broken, it must not end with 2: to the host that blocks.
"""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from vyane_cli.home import Home
from vyane_cli.setup.guard import install_guard
from vyane_cli.storage.settings import data_folder

SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"], ["mksh"]]
PRESENT = [[found, *rest] for name, *rest in SHELLS if (found := shutil.which(name))]
SESSION = "0e1f-AZ_09"
EVERY_CALL = [
    ("SessionStart",),
    ("SessionStart", "rewake"),
    ("CwdChanged",),
    ("UserPromptSubmit",),
    ("PreToolUse",),
    ("PostToolBatch",),
    ("Stop",),
    ("StopFailure",),
    ("SessionEnd",),
    ("FileChanged", "rewake"),
    ("Notification", "rewake"),
    ("AnEventToCome",),
    (),
]

FAKE = """\
#!/bin/sh
printf '%s\\n' "$@" >>"$CALLS/words"
printf '\\036' >>"$CALLS/words"
if [ -n "$DIE" ] && [ -n "$EARLY" ] && [ ! -e "$CALLS/died" ]; then
    : >"$CALLS/died"; kill -s "$DIE" $$
fi
cat >>"$CALLS/stdin"
echo "$SAY_OUT"
echo "$SAY_ERR" >&2
if [ -n "$DIE" ] && [ ! -e "$CALLS/died" ]; then : >"$CALLS/died"; kill -s "$DIE" $$; fi
exit "${STATUS:-0}"
"""


@dataclass
class Guard:
    """A guard for one root, and what its fake interpreter was called with."""

    shell: list[str]
    path: Path
    root: Path
    calls: Path

    def run(self, *args: str, stdin: str = "", session: str | None = SESSION, **env: str):
        """One call as the host makes it."""
        base = {"PATH": os.environ["PATH"], "CALLS": str(self.calls)}
        if session is not None:
            base["CLAUDE_CODE_SESSION_ID"] = session
        return subprocess.run(
            [*self.shell, str(self.path), *args],
            input=stdin,
            env=base | env,
            capture_output=True,
            text=True,
            check=False,
        )

    def words(self) -> list[list[str]]:
        """The words of each start of the interpreter."""
        file = self.calls / "words"
        text = file.read_text() if file.exists() else ""
        return [call.splitlines() for call in text.split("\x1e")[:-1]]

    def mark(self, suffix: str) -> Path:
        """Write a file that the guard tests."""
        path = self.root / "wake" / (SESSION + suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    @property
    def beat(self) -> Path:
        return self.root / "beat" / SESSION


def make(tmp_path: Path, monkeypatch, root: Path, shell: list[str], python: str | None = None):
    """A guard as the install writes it."""
    tmp_path.mkdir(parents=True, exist_ok=True)
    fake = tmp_path / "bin" / "python it's"
    fake.parent.mkdir(exist_ok=True)
    fake.write_text(FAKE)
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", python or str(fake))
    home = Home(str(root))
    install_guard(home)
    calls = tmp_path / "calls"
    calls.mkdir(exist_ok=True)
    return Guard(shell, Path(home.layout.guard), root, calls)


@pytest.fixture(params=PRESENT, ids=lambda shell: Path(shell[0]).name)
def guard(request, tmp_path, monkeypatch) -> Guard:
    return make(tmp_path, monkeypatch, tmp_path / "vyane", request.param)


def silent(done) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, "", "")


def read_only(folder: Path) -> bool:
    """Take the right to write; False for a user whom that does not stop."""
    folder.chmod(0o500)
    return not os.access(folder, os.W_OK)


# --- with nothing to do -------------------------------------------------------------------


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolBatch"])
def test_a_tool_with_nothing_to_do_is_a_heartbeat_and_no_process(guard, event) -> None:
    guard.beat.parent.mkdir(exist_ok=True)
    guard.beat.touch()
    os.utime(guard.beat, (1, 1))
    done = guard.run(event, PATH="/nonexistent")

    assert silent(done)
    assert guard.words() == []
    assert time.time() - guard.beat.stat().st_mtime < 60


def test_a_heartbeat_is_readable_by_its_owner_alone(guard) -> None:
    guard.run("PreToolUse")

    assert stat.S_IMODE(guard.beat.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "event, suffix, starts",
    [
        ("PreToolUse", ".pending", False),
        ("PreToolUse", ".control", True),
        ("PreToolUse", ".proof", True),
        ("PreToolUse", ".armed", False),
        ("PreToolUse", "", False),
        ("PostToolBatch", ".pending", True),
        ("PostToolBatch", ".control", True),
        ("PostToolBatch", ".proof", True),
        ("PostToolBatch", ".armed", False),
        ("PostToolBatch", "", False),
    ],
)
def test_a_tool_starts_the_tick_only_for_its_markers(guard, event, suffix, starts) -> None:
    guard.mark(suffix)
    guard.run(event)

    assert len(guard.words()) == starts


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolBatch"])
@pytest.mark.parametrize("session", [None, "", "a/b", "../x", "a b", "ä", "a.b", "$(id)", "a\nb"])
def test_a_tool_of_a_session_without_a_usable_id_is_passed_over(guard, event, session) -> None:
    before = sorted(guard.root.rglob("*"))
    done = guard.run(event, session=session)

    assert silent(done)
    assert guard.words() == []
    assert sorted(guard.root.rglob("*")) == before


def test_another_event_of_a_session_without_a_usable_id_goes_to_the_tick(guard) -> None:
    guard.run("Stop", session="a/b")
    guard.run("Stop", session=None)

    assert len(guard.words()) == 2


# --- starting the tick --------------------------------------------------------------------


def test_the_tick_gets_the_call_its_input_and_the_guards_process(guard) -> None:
    done = guard.run("Stop", stdin='{"x": "é"}\n', SAY_OUT="{}")
    ((*python, program, package), options) = guard.words()[0][:5], guard.words()[0][5:]

    assert python == ["-I", "-S", "-c"]
    assert program.endswith("from vyane_cli.hook import main; main()")
    assert (Path(package) / "vyane_cli").is_dir()
    at = options.index("--guard") + 1
    assert options.pop(at).isdecimal()
    assert options == (
        f"tick --host claude-code --home {guard.root} --guard --protocol 1 --event Stop".split(" ")
    )
    assert (guard.calls / "stdin").read_text() == '{"x": "é"}\n'
    assert done.stdout == "{}\n"


def test_a_background_hook_says_so_to_the_tick(guard) -> None:
    guard.run("FileChanged", "rewake")

    assert guard.words()[0][-3:] == ["--event", "FileChanged", "--rewake"]


def test_ten_megabytes_of_input_arrive_whole(guard) -> None:
    guard.run("Stop", stdin="x" * 10_000_000)

    assert (guard.calls / "stdin").stat().st_size == 10_000_000


def test_the_standard_error_of_the_tick_is_the_text_of_a_wake_and_else_dropped(guard) -> None:
    waited_for = guard.run("Stop", SAY_ERR="Traceback")
    background = guard.run("FileChanged", "rewake", SAY_ERR="mail", STATUS="42")

    assert waited_for.stderr == ""
    assert (background.returncode, background.stderr) == (2, "mail\n")


@pytest.mark.parametrize("event", ["SessionStart", "FileChanged", "Notification"])
def test_a_background_hook_of_an_unattended_session_ends_at_once(guard, event) -> None:
    done = guard.run(event, "rewake", CLAUDE_CODE_SESSION_ATTENDED="0", STATUS="42")

    assert silent(done)
    assert guard.words() == []


def test_a_hook_that_is_waited_for_runs_in_an_unattended_session(guard) -> None:
    guard.run("Stop", CLAUDE_CODE_SESSION_ATTENDED="0")

    assert len(guard.words()) == 1


# --- exit status --------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["0", "1", "2", "3", "41", "42", "43", "126", "127", "128"])
def test_only_the_status_of_a_wake_becomes_2_and_only_in_the_background(guard, status) -> None:
    assert guard.run("Stop", STATUS=status).returncode == 0
    background = guard.run("FileChanged", "rewake", STATUS=status).returncode
    assert background == (2 if status == "42" else 0)
    assert len(guard.words()) == 2


@pytest.mark.parametrize("name", ["KILL", "SEGV", "TERM", "ABRT", "INT"])
@pytest.mark.parametrize("call", [("Stop",), ("FileChanged", "rewake")])
def test_a_tick_that_a_signal_ended_runs_once_more_with_an_empty_input(guard, name, call) -> None:
    done = guard.run(*call, stdin="payload", DIE=name)
    first, second = guard.words()

    assert second == [*first, "--rerun"]
    assert (guard.calls / "stdin").read_text() == "payload"
    assert done.returncode == 0
    assert "Kill" not in done.stderr
    assert "dumped" not in done.stderr


def test_a_tick_that_ended_before_it_had_read_leaves_nothing_to_the_second_run(guard) -> None:
    guard.run("Stop", stdin="payload", DIE="KILL", EARLY="yes")

    assert len(guard.words()) == 2
    assert (guard.calls / "stdin").read_text() == ""


def test_the_second_run_is_the_last(guard) -> None:
    done = guard.run("Stop", STATUS=str(128 + signal.SIGKILL))

    assert len(guard.words()) == 2
    assert silent(done) or done.stdout == "\n\n"


def test_the_second_run_may_be_a_wake(guard) -> None:
    assert guard.run("FileChanged", "rewake", DIE="KILL", STATUS="42").returncode == 2


# --- whatever is broken -------------------------------------------------------------------


@pytest.mark.parametrize("call", EVERY_CALL)
def test_nothing_happens_without_a_state_folder(guard, call, tmp_path) -> None:
    guard.path = guard.path.rename(tmp_path / "guard")
    shutil.rmtree(guard.root)
    done = guard.run(*call)

    assert done.returncode == 0
    assert done.stderr.strip() == ""
    assert not guard.root.exists()


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolBatch"])
def test_a_heartbeat_that_cannot_be_written_is_silent(guard, event) -> None:
    guard.beat.mkdir(parents=True)  # a folder in its place stops root too

    assert silent(guard.run(event))
    shutil.rmtree(guard.beat.parent)
    guard.beat.parent.touch()
    assert silent(guard.run(event))


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolBatch"])
def test_a_read_only_heartbeat_folder_is_silent(guard, event) -> None:
    folder = guard.beat.parent
    folder.mkdir(exist_ok=True)
    stops_us = read_only(folder)
    try:
        assert silent(guard.run(event))
        assert guard.beat.exists() != stops_us
    finally:
        folder.chmod(0o700)


@pytest.mark.parametrize("shell", PRESENT, ids=lambda shell: Path(shell[0]).name)
@pytest.mark.parametrize("kind", ["missing", "not executable", "a folder", "no interpreter of its"])
@pytest.mark.parametrize("call", [("Stop",), ("FileChanged", "rewake"), ("SessionStart",)])
def test_an_interpreter_that_cannot_start_is_passed_over(
    shell, kind, call, tmp_path, monkeypatch
) -> None:
    python = tmp_path / "python"
    if kind == "a folder":
        python.mkdir()
    elif kind != "missing":
        python.write_text("#!/nowhere/python\n")
        python.chmod(0o755 if kind.startswith("no") else 0o644)
    guard = make(tmp_path, monkeypatch, tmp_path / "vyane", shell, str(python))
    done = guard.run(*call)

    assert (done.returncode, done.stdout) == (0, "")
    if len(call) == 1 or kind in ("missing", "not executable"):
        assert done.stderr == "" or (os.geteuid() == 0 and kind == "not executable")


def test_the_guard_runs_by_its_own_path_alone(guard) -> None:
    """In exec form: no shell and no interpreter is named in the settings."""
    guard.shell = []

    assert guard.run("FileChanged", "rewake", STATUS="42").returncode == 2
    assert stat.S_IMODE(guard.path.stat().st_mode) == 0o700


# --- CwdChanged ---------------------------------------------------------------------------

ODD = [
    "plain",
    "it's",
    'a "b"',
    "back\\slash",
    "$HOME `id`",
    "%s %d",
    "中文",
    "tab\tnew\nline",
    "-n",
]


@pytest.mark.parametrize("shell", PRESENT, ids=lambda shell: Path(shell[0]).name)
@pytest.mark.parametrize("name", ODD)
def test_a_change_of_folder_names_the_wake_file_whatever_the_roots_name(
    shell, name, tmp_path, monkeypatch
) -> None:
    root = tmp_path / name / "vyane"
    guard = make(tmp_path, monkeypatch, root, shell)
    wake = guard.mark("")
    done = guard.run("CwdChanged", stdin="{}")

    assert json.loads(done.stdout) == {
        "hookSpecificOutput": {"hookEventName": "CwdChanged", "watchPaths": [str(wake)]}
    }
    assert (done.returncode, done.stderr) == (0, "")
    assert guard.words() == []


@pytest.mark.parametrize("shell", PRESENT, ids=lambda shell: Path(shell[0]).name)
@pytest.mark.parametrize("name", ODD)
def test_no_character_of_a_path_has_a_meaning(shell, name, tmp_path, monkeypatch) -> None:
    guard = make(tmp_path / name, monkeypatch, tmp_path / name / "vyane", shell)
    guard.run("PreToolUse")
    guard.run("Stop")

    assert guard.beat.exists()
    assert str(guard.root) in "\n".join(guard.words()[0])


def test_a_change_of_folder_without_a_wake_file_is_silent(guard) -> None:
    assert silent(guard.run("CwdChanged"))
    assert silent(guard.run("CwdChanged", session=None))
    assert silent(guard.run("CwdChanged", session="../wake"))


# --- the template, and the plugin's guard -------------------------------------------------


def test_no_place_of_the_template_is_left_empty(guard) -> None:
    for name in ("guard", "vyane"):
        text = (guard.path.parent / name).read_text()
        for word in ("@HOME@", "@HOMEJSON@", "@PYTHON@", "@PACKAGE@", "@PROTOCOL@"):
            assert word not in text


@pytest.mark.parametrize("shell", PRESENT, ids=lambda shell: Path(shell[0]).name)
def test_the_plugins_guard_hands_the_call_on_and_is_silent_without_an_installation(
    shell, guard, tmp_path
) -> None:
    inner, installed = Path(data_folder("hooks"), "claude-code/plugin/hooks/guard"), guard.path
    guard.shell, guard.path = shell, inner
    home = {"VYANE_HOME": str(guard.root)}
    config = {"XDG_CONFIG_HOME": str(guard.root.parent)}

    assert guard.run("FileChanged", "rewake", STATUS="42", **home).returncode == 2
    assert guard.run("FileChanged", "rewake", STATUS="42", **config).returncode == 2
    installed.unlink()
    for call in EVERY_CALL:
        assert silent(guard.run(*call, **home))


@pytest.mark.parametrize("shell", PRESENT, ids=lambda shell: Path(shell[0]).name)
def test_a_guard_that_goes_while_the_plugin_looks_for_it_does_not_block(shell, tmp_path) -> None:
    text = Path(data_folder("hooks"), "claude-code/plugin/hooks/guard").read_text()
    script = tmp_path / "guard"
    script.write_text(text.replace("[ -r", "[ ! -r"))  # as if it had been there a moment ago
    env = {"VYANE_HOME": str(tmp_path / "nowhere")}
    done = subprocess.run([*shell, str(script), "Stop"], env=env, capture_output=True, check=False)

    assert done.returncode == 0


def test_the_plugins_vyane_says_what_to_do_without_an_installation(tmp_path) -> None:
    script = Path(data_folder("hooks"), "claude-code", "plugin", "bin", "vyane")
    done = subprocess.run(
        [str(script), "inbox"],
        env={"VYANE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 127
    assert f"vyane is not installed for {tmp_path}" in done.stderr


def test_the_plugins_vyane_runs_the_recorded_one(guard) -> None:
    script = Path(data_folder("hooks"), "claude-code", "plugin", "bin", "vyane")
    env = {"PATH": os.environ["PATH"], "CALLS": str(guard.calls), "VYANE_HOME": str(guard.root)}
    subprocess.run([str(script), "send", "bob", "a b"], env=env, check=True, capture_output=True)

    assert guard.words()[0][-3:] == ["send", "bob", "a b"]
