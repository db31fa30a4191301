"""What a new user types: each mistake is answered in two lines, the second is the next step."""

import json
import os
import pty
import subprocess
import sys

import pytest

from tests.simulated import vyane
from vyane_cli.errors import ExitCode

MISTAKES = {
    # words: (what is said, the next step)
    ("help",): ("not a command", "`vyane --help`"),
    ("list",): ("not a command", "`vyane workers`"),
    ("install",): ("not a command", "`vyane hooks install`"),
    ("sned", "bob", "hi"): ("not a command", "did you mean `vyane send`?"),
    ("wibble",): ("not a command", "see `vyane --help`"),
    ("send",): ("text is not given", "vyane send NAME TEXT"),
    ("send", "bob"): ("text is not given", "vyane send NAME TEXT"),
    ("send", "", "hi"): ("to is not given", "known: bob"),
    ("send", "bob", "hello", "world"): ("extra argument", "needs quotes"),
    ("send", "bob", "hi", "--ttl"): ("requires an argument", "`vyane send --help`"),
    ("send", "vs-12", "hi"): ("not a logical session", "known: bob"),
    ("send", "parent", "hi"): ("does not run in a worker's session", "`vyane workers`"),
    ("inbox",): ("who is not given", "`vyane inbox NAME`"),
    ("why", "x1"): ("'x1' is not a message id", "`vyane inbox WORKER --all`"),
    ("show", "abcdef"): ("no message 'abcdef'", "`vyane inbox WORKER --all`"),
    ("takeover", "bob"): ("instruction is not given", ""),
    ("takeover", "bob", "stop"): ("by human", "--from-kind human"),
    ("timeline", "bob"): ("mode is not given", "`vyane timeline show`"),
    ("report",): ("report is not given", ""),
    ("report", "--result", "done"): ("worker is not given", "inside the child"),
    ("workers", "register", "a\\b"): ("without backslash", ""),
    ("workers", "register", "all"): ("not free", ""),
    ("completion",): ("Choose from: bash, zsh, fish", "`vyane completion --help`"),
}


@pytest.mark.parametrize("words", MISTAKES, ids=" ".join)
def test_a_mistake_is_answered_in_two_lines_with_the_next_step(home, words):
    said, step = MISTAKES[words]
    ran = vyane(home, *words)
    what, *hints = ran.err.decode().splitlines()

    assert (ran.status != 0, ran.out) == (True, b"")
    assert what.startswith("vyane: ")
    assert said in what
    assert len(hints) == bool(step), hints
    assert step in "".join(hints)


def test_where_nobody_is_registered_it_says_how_somebody_comes_to_be(tmp_path):
    assert b"`vyane hooks install`" in vyane(tmp_path, "send", "bob", "hi").err


def test_a_refused_agent_is_named_for_a_person_who_took_the_shell_for_theirs(home):
    """`workers register NAME --pid $$` makes the shell a session: what is typed there is bob's."""
    bob = vyane(home, "workers", "--json").document[0]["id"]
    ran = vyane(home, "uninstall", environ={"VYANE_WORKER": bob})

    assert ran.status == ExitCode.REFUSED
    assert b"an agent may not uninstall vyane: this is the session of bob" in ran.err


def test_a_group_that_lists_when_it_stands_alone_says_that_no_command_is_needed(home):
    usage = {name: vyane(home, name, "--help").out.decode() for name in ("task", "hooks")}

    assert "[COMMAND]" in usage["task"]
    assert " COMMAND " in usage["hooks"]


def test_no_help_has_a_line_end_of_the_source_in_it(tmp_path):
    """The terminal wraps a paragraph; a line that ends where the source did is ragged."""
    commands = vyane(tmp_path, "describe", "--json").document["commands"]
    texts = [one["help"] for one in commands.values()]
    texts += [sub["help"] for one in commands.values() for sub in one.get("commands", {}).values()]

    assert [text for text in texts if "\n" in text.replace("\n\n", "")] == []


def test_doctor_says_one_cause_and_one_step_once(home):
    """Settings that cannot be read make every check fail that needs them."""
    (home / "config.toml").write_text("[delivery")
    (home / "config.toml").chmod(0o600)
    lines = vyane(home, "doctor").out.decode().splitlines()
    failed = [one["check"] for one in vyane(home, "doctor", "--json").document if not one["ok"]]

    assert len([line for line in lines if "table declaration" in line]) == 1
    assert len([line for line in lines if "mend it by hand" in line]) == 1
    assert {"config", "channels", "overdue"} <= set(failed)
    assert all(any(name in line for line in lines) for name in failed)


def test_a_tick_that_a_person_types_says_who_runs_it(home):
    """It is not logged as a fault of the hooks: `doctor` would go on about it for a day."""
    ours, theirs = pty.openpty()
    ran = subprocess.run(
        [sys.executable, "-m", "vyane_cli", "tick", "--json"],
        stdin=theirs,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "VYANE_HOME": str(home)},
        check=False,
    )
    os.close(ours)
    os.close(theirs)

    assert ran.returncode == 2
    assert "hooks run this" in json.loads(ran.stderr)["error"]["message"]
    assert not (home / "log" / "hook.log").exists()
