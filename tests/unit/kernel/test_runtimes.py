"""How a child is started: tables of the settings, argument lists, an environment of its own."""

import pytest

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.config import parse_config
from vyane_cli.kernel.runtimes import (
    BUILT_IN,
    ChildRuntime,
    child_environment,
    fill,
    find_runtime,
    parse_runtimes,
    takes_prompt,
)


def test_the_settings_take_runtimes_of_any_name_and_nothing_else_unknown():
    """Beside the documented keys, which stay as they are."""
    config = parse_config(
        {"language": "zh", "runtimes": {"mine": {"spawn": ["run", "{prompt_file}"]}}}
    )
    assert config["language"] == "zh"
    assert config.runtimes["mine"] == ChildRuntime(("run", "{prompt_file}"))
    assert not parse_config({}).runtimes
    with pytest.raises(InvalidInputError):
        parse_config({"runtime": {"mine": {"spawn": ["run"]}}})


@pytest.mark.parametrize(
    "data",
    [
        [],
        {"x": []},
        {"x": {}},
        {"x": {"spawn": "run it"}},
        {"x": {"spawn": []}},
        {"x": {"spawn": [""]}},
        {"x": {"spawn": ["a\0b"]}},
        {"x": {"spawn": ["a", 1]}},
        {"x": {"spawn": ["a"], "shell": True}},
        {"x": {"spawn": ["a"], "hooks": "yes"}},
        {"x": {"spawn": ["a"], "keep": "PATH"}},
        {"x": {"spawn": ["a"], "interactive": "a"}},
        {"X y": {"spawn": ["a"]}},
    ],
)
def test_a_runtime_that_is_none_is_refused(data):
    """With the key that is wrong."""
    with pytest.raises(InvalidInputError, match="runtimes"):
        parse_runtimes(data)


def test_a_table_for_a_built_in_runtime_changes_only_what_it_names():
    """So that one line is enough to pass a variable on."""
    (claude,) = parse_runtimes({"claude": {"keep": ["CLAUDE_CONFIG_DIR"]}}).values()
    assert claude == BUILT_IN["claude"]._replace(keep=("CLAUDE_CONFIG_DIR",))


def test_an_unknown_runtime_lists_the_known():
    """The built-in ones and the configured."""
    with pytest.raises(InvalidInputError) as caught:
        find_runtime("gpt", {"mine": ChildRuntime(("x",))})
    assert "claude, codex, mine" in caught.value.hint
    assert find_runtime("mine", {"mine": ChildRuntime(("x",))}).spawn == ("x",)


def test_placeholders_are_filled_once_and_other_braces_stay():
    """A prompt may hold what looks like one."""
    values = {"prompt": "say {worker}", "worker": "w-1", "cwd": "/", "session_id": "s",
              "prompt_file": "f"}  # fmt: skip
    filled = fill(["x", "--p={prompt}", '{"a": {worker}}', "{other}"], values)
    assert filled == ("x", "--p=say {worker}", '{"a": w-1}', "{other}")
    assert takes_prompt(["{prompt}"])
    assert takes_prompt(["--file={prompt_file}"])
    assert not takes_prompt(BUILT_IN["claude"].spawn)


def test_a_child_has_none_of_its_parents_host_ids():
    """What the user names to keep aside."""
    parent = {
        "PATH": "/bin",
        "CLAUDECODE": "1",
        "CLAUDE_CODE_SESSION_ID": "s",
        "CLAUDE_CONFIG_DIR": "/c",
        "CODEX_SESSION_ID": "s",
        "GEMINI_CLI": "1",
        "VYANE_WORKER": "w-parent",
        "ANTHROPIC_API_KEY": "k",
    }
    home = ChildRuntime(("x",), keep=("CLAUDE_CONFIG_DIR",))
    assert child_environment(parent, home, "/home", "w-child") == {
        "PATH": "/bin",
        "CLAUDE_CONFIG_DIR": "/c",
        "ANTHROPIC_API_KEY": "k",
        "VYANE_HOME": "/home",
        "VYANE_WORKER": "w-child",
    }
