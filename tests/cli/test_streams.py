"""What a command does when a stream is closed, full, or no file that can be read."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from tests.simulated import vyane
from vyane_cli.errors import ExitCode


def shell(home, words: str, streams: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """A command with the shell's own redirections; `{}` in `words` is `vyane`."""
    command = f"{shlex.quote(sys.executable)} -m vyane_cli"
    return subprocess.run(
        ["sh", "-c", f"{words.replace('{}', command)} {streams}"],
        capture_output=True,
        env={**os.environ, "VYANE_HOME": str(home), **environ},
        check=False,
        start_new_session=True,
    )


def texts(home) -> list[str]:
    """The texts in bob's inbox."""
    return [row["payload"]["text"] for row in json.loads(vyane(home, "inbox", "bob", "--json").out)]


@pytest.mark.parametrize("flag", ["", " --json"])
def test_an_answer_that_cannot_be_written_is_no_fault_and_says_that_it_was_done(home, flag):
    """Exit 8: it is stored, and the word of it is missing. A retry without a key sends twice."""
    ran = shell(home, "{} send bob hello" + flag, ">/dev/full")

    assert ran.returncode == ExitCode.DURABILITY_UNKNOWN
    assert texts(home) == ["hello"]
    assert b"standard output: no space left on device" in ran.stderr
    assert b"done all the same" in ran.stderr
    assert b"fault" not in ran.stderr
    if flag:
        assert json.loads(ran.stderr)["error"]["code"] == "output"


@pytest.mark.parametrize(
    "words", ["workers", "workers --json", "describe --json", "send --help", "--version"]
)
def test_whatever_is_printed_a_full_output_ends_with_a_documented_code(home, words):
    ran = shell(home, f"{{}} {words}", ">/dev/full")

    assert ran.returncode == ExitCode.DURABILITY_UNKNOWN
    assert ran.stderr.count(b"standard output: no space left on device") == 1


@pytest.mark.parametrize("words", ["send bob hello", "workers --json", "inbox bob", "--version"])
def test_a_closed_output_is_nobody_who_reads(home, words):
    ran = shell(home, f"{{}} {words}", ">&-")

    assert (ran.returncode, ran.stderr) == (0, b"")


def test_mail_for_a_closed_output_stays_pending(home):
    """The text must not go into whatever file has the number of standard output by then."""
    assert vyane(home, "send", "bob", "hello").status == 0
    before = {path: path.read_bytes() for path in home.rglob("*.lock")}
    ran = shell(home, "{} tick --host generic --worker bob", ">&-")

    assert ran.returncode == 0
    (row,) = json.loads(vyane(home, "inbox", "bob", "--json").out)
    assert row["status"] == "pending"
    assert all(path.read_bytes() == data for path, data in before.items())
    assert b"hello" in vyane(home, "tick", "--host", "generic", "--worker", "bob").out


@pytest.mark.parametrize("streams", ["<&-", "0>/dev/null"])
@pytest.mark.parametrize("words", ["send bob -", "send bob --from-json -"])
def test_an_input_that_cannot_be_read_is_the_callers_error(home, words, streams):
    ran = shell(home, f"{{}} {words}", streams)

    assert ran.returncode == ExitCode.INVALID_INPUT
    assert b"fault" not in ran.stderr
    assert texts(home) == []


@pytest.mark.parametrize("words", ["send bob -", "send bob --from-json -"])
def test_an_input_without_end_is_refused(home, words):
    ran = shell(home, f"{{}} {words}", "</dev/zero")

    assert ran.returncode == ExitCode.INVALID_INPUT
    assert b"16 MiB" in ran.stderr


@pytest.mark.parametrize("streams", ["2>/dev/full", "2>&-", ">&- 2>&- <&-"])
@pytest.mark.parametrize("flag", ["", " --json"])
def test_an_error_that_cannot_be_told_keeps_its_exit_code(home, flag, streams):
    ran = shell(home, "{} send nobody hello" + flag, streams)

    assert ran.returncode == ExitCode.NOT_FOUND


def test_a_width_of_nothing_hides_nothing(home):
    """COLUMNS=0 is what a terminal says that does not know its width."""
    ran = shell(home, "{} send nobody hello", "", COLUMNS="0", FORCE_COLOR="1")

    assert b"nobody" in ran.stderr
    listed = shell(home, "{} workers --help", "", COLUMNS="0")
    assert b"--session" in listed.stdout
    assert listed.stdout.strip()


def test_a_generic_call_prints_json_when_asked_to(home):
    """Mail or none: one document."""
    words = ("tick", "--host", "generic", "--worker", "bob", "--json")
    assert json.loads(vyane(home, *words).out) == {"text": ""}
    assert vyane(home, "send", "bob", "hello").status == 0

    told = json.loads(vyane(home, *words).out)
    assert "hello" in told["text"]
    (row,) = json.loads(vyane(home, "inbox", "bob", "--json", "--all").out)
    assert row["status"] == "delivered"


def test_a_word_behind_two_dashes_is_no_option(home):
    """The error of `vyane send nobody -- --json` is for a person."""
    ran = vyane(home, "send", "nobody", "--", "--json")

    assert ran.status == ExitCode.NOT_FOUND
    assert ran.err.startswith(b"vyane: ")
