"""What people type by accident: nothing, too much, a name that is none."""

import json
from pathlib import Path

import pytest

from tests.simulated import files_of, vyane
from vyane_cli.errors import ExitCode

NO_SESSION = "vs-000000000000"


@pytest.mark.parametrize(
    "words",
    [
        ("send", "project", "x", "--idempotency-key", ""),
        ("send", "project", "x", "--reply-to", ""),
        ("send", "project", "x", "--ttl="),
        ("relay", "project", "x", "--idempotency-key", ""),
        ("spawn", "x", "--parent", "project", "--worktree", ""),
        ("takeover", "project", "--resolve", "", "--decision", "go"),
        ("project", "join", "", "project"),
        ("project", "create", "shop", "--dir", ""),
        ("task", "add", "x", "--after", ""),
        ("need-user", "add", "--reason", "x", "--ask", "y", "--project", ""),
        ("workers", "--session", ""),
        ("workers", "list", "--session", ""),
        ("watch", "project", "--history", "--kind", ""),
        ("topology", ""),
        ("workers", "--home", ""),
        ("schedule", "remove", "--project", ""),
    ],
    ids=" ".join,
)
def test_a_value_that_is_empty_is_not_taken_for_one_that_was_not_given(one, run, words):
    """`--idempotency-key "$KEY"`, and KEY is not set: without an error it would send twice."""
    before = files_of(one.home)
    code, out, err = run("--json", *words)
    error = json.loads(err)["error"]

    assert (code, out) == (ExitCode.INVALID_INPUT, "")
    assert "empty" in error["message"]
    assert "give it a value" in error["hint"]
    assert files_of(one.home) == before


@pytest.mark.parametrize(
    "words",
    [
        ("send", "project", "x", "--summary", ""),
        ("send", "project", "", "--payload", '{"text": "x"}'),
        ("config", "set", "notify.urls", ""),
        ("cancel", "project", "--reason", "", "--wait", "0.1", "--from-kind", "human"),
    ],
    ids=" ".join,
)
def test_a_text_may_be_empty_where_that_says_something(run, words):
    code, _, err = run(*words)

    assert code in (ExitCode.DONE, ExitCode.REFUSED), err


@pytest.mark.parametrize(
    "words",
    [
        ("send", "{}", "x"),
        ("workers", "rename", "{}", "y"),
        ("inbox", "--limit", "{}"),
        ("project", "show", "{}"),
        ("{}",),
        ("workers", "--{}"),
        ("spawn", "x", "--parent", "project", "--runtime", "{}"),
        ("mirror", "push", "--channel", "{}"),
        ("timeline", "export", "project", "--output", "{}"),
    ],
    ids=" ".join,
)
def test_an_error_is_short_however_long_the_value_is(run, words):
    code, _, err = run(*(word.replace("{}", "x" * 100_000) for word in words))

    assert code in (ExitCode.INTERNAL, ExitCode.INVALID_INPUT, ExitCode.NOT_FOUND)
    assert len(err) < 1000
    assert "xxx" in err


@pytest.mark.parametrize(
    "words",
    [
        ("workers", "--session", NO_SESSION),
        ("workers", "--session", "projct"),
        ("workers", "list", "--session", NO_SESSION),
        ("bindings", "list", "--session", "projct"),
        ("unbind", "--session", "projct", "--reason", "x"),
        ("route", "projct"),
    ],
    ids=" ".join,
)
def test_a_session_that_is_none_is_not_found_and_the_nearest_is_named(run, words):
    code, out, err = run(*words)

    assert (code, out) == (ExitCode.NOT_FOUND, "")
    assert NO_SESSION in words or "did you mean project?" in err


def test_workers_of_a_session_are_found_by_a_workers_name_too(one, run):
    _, by_id, _ = run("--json", "workers", "--session", one.logical)
    _, by_name, _ = run("--json", "workers", "--session", "project")

    assert [row["id"] for row in json.loads(by_id)] == [one.worker]
    assert json.loads(by_name) == json.loads(by_id)


def test_an_inbox_is_asked_for_in_one_way(one, run):
    code, _, err = run("inbox", "project", "--session", one.logical)

    assert code == ExitCode.INVALID_INPUT
    assert "WHO" in err


def test_a_person_has_no_inbox_and_is_told_to_name_one(run):
    code, _, err = run("inbox")

    assert code == ExitCode.INVALID_INPUT
    assert "vyane workers" in err


@pytest.mark.parametrize("group", ["turn", "hooks", "config", "bindings", "mirror", "schedule"])
def test_a_group_without_a_command_is_an_error_as_json_and_help_for_a_person(run, group):
    code, out, err = run("--json", group)
    assert (code, out) == (ExitCode.INVALID_INPUT, "")
    assert json.loads(err)["error"]["code"] == "usage"

    code, out, err = run(group)
    assert (code, err) == (ExitCode.INVALID_INPUT, "")
    assert "Commands" in out


@pytest.mark.parametrize(
    "words",
    [
        ("workers", "register", "bob", "--type", "a\nb"),
        ("workers", "register", "bob", "--type", "x" * 1000),
        ("need-user", "add", "--reason", "x", "--ask", "y", "--who", "x" * 10_000),
        ("unbind", "--session", "project", "--reason", "x" * 10_000),
        ("cancel", "project", "--reason", "x" * 10_000, "--from-kind", "human"),
        ("watch", "project", "--history", "--turn", "zz"),
    ],
    ids=lambda words: " ".join(words)[:60],
)
def test_what_would_be_kept_has_a_form_and_a_length(one, run, words):
    before = files_of(one.home)
    code, _, err = run(*words)

    assert code == ExitCode.INVALID_INPUT, err
    assert files_of(one.home) == before


def test_what_is_wrong_in_the_settings_is_said_once(one, run):
    with open(one.world.layout.config, "a") as file:
        file.write("[delivery]\nzzz = 3\n")
    _, _, err = run("--json", "send", "project", "x")
    error = json.loads(err)["error"]

    assert error["message"].count("delivery.zzz") == 1
    assert error["message"].startswith(one.world.layout.config)


@pytest.mark.parametrize(
    "words",
    ["workers", "inbox x", "project", "schedule list", "task list", "bindings list", "need-user",
     "topology", "mirror status", "gc", "send a b", "wake", "spawn x --parent a"],
)  # fmt: skip
def test_a_home_that_is_a_file_is_an_error_and_not_an_empty_home(tmp_path, words):
    """An empty list would be a wrong answer."""
    home = tmp_path / "home"
    home.write_text("notes")
    ran = vyane(str(home), *words.split())

    assert ran.status == ExitCode.INTERNAL
    assert "not a directory" in ran.err.decode()
    assert home.read_text() == "notes"


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_setting_is_set_without_touching_another_byte(one, run, mark):
    """Line ends, a byte order mark and bytes that are no UTF-8 stay; it is read, too."""
    path = Path(one.world.layout.config)
    before = mark + b'# caf\xe9\r\n[delivery]\r\ntmux = "never"\r\n'
    path.write_bytes(before)
    assert json.loads(run("--json", "config", "get", "delivery.tmux")[1])["value"] == "never"
    assert run("config", "set", "delivery.resume", "children")[0] == 0

    after = path.read_bytes()
    assert after.startswith(before)
    assert after.removeprefix(before).strip() == b'resume = "children"'
