"""Completion in shells: each knows every command, and the names of what there is."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.projects import NAME, Scene, Table, make_project
from tests.simulated import World, fast_folder, vyane
from vyane_cli.attention import needs
from vyane_cli.projects.graph import add_node
from vyane_cli.projects.queue import GraphNode
from vyane_cli.setup.home import initialise

SCRIPTS = Path(__file__).parents[2] / "completions"
ROOT_OPTIONS = {"--json", "--home", "--version", "--help"}
NOT_SHOWN = {"read"}
"""`vyane timeline W` is short for it."""
ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_vyane
printf '%s\\n' "${COMPREPLY[@]}"
"""

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


@pytest.fixture(scope="module")
def commands() -> dict[str, set[str]]:
    """Each command with its sub-commands."""
    with fast_folder() as folder:
        ran = vyane(str(folder / "vyane"), "describe", "--json", environ={"PATH": "/usr/bin:/bin"})
    known: dict[str, Any] = json.loads(ran.out)["commands"]
    return {name: set(about.get("commands", {})) - NOT_SHOWN for name, about in known.items()}


@pytest.fixture(scope="module")
def root() -> Iterator[str]:
    """A state folder in which there is one of everything that has a name."""
    with fast_folder() as folder:
        world = World(folder / "a home" / "vyane")
        initialise(world)
        ann = world.register("ann")
        world.register("bob smith")
        project = make_project(world, ann, str(folder))
        stage = Scene(world, None, Table(), project)  # type: ignore[arg-type]
        stage.add("one")
        stage.add("two")
        add_node(world, project, GraphNode("legal").id)
        for number in range(2):
            needs.add(world.layout, f"k{number}", "why", world.clock(), world.deadline())
        yield world.layout.root


def complete(root: str, line: str) -> set[str]:
    """What bash offers at the end of a line."""
    ran = subprocess.run(
        ["bash", "-c", ASK, "bash", str(SCRIPTS / "vyane.bash"), *line.split(" ")],
        env={"PATH": "/usr/bin:/bin", "VYANE_HOME": root, "HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not ran.stderr
    return set(ran.stdout.split("\n")) - {""}


@needs_bash
def test_bash_knows_every_command_and_sub_command(root, commands):
    assert complete(root, "vyane ") == {*commands, *ROOT_OPTIONS}
    for name, below in commands.items():
        if below:
            assert below <= complete(root, f"vyane {name} "), name
            assert complete(root, f"vyane {name} ") <= {*below, "ann", "bob smith"}, name


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_knows_every_command_and_sub_command(shell, commands):
    text = (SCRIPTS / f"vyane.{shell}").read_text()
    lists = [set(re.findall(r"[a-z-]+", line)) for line in text.splitlines()]

    assert any(set(commands) <= words for words in lists), "the list of commands"
    for name, below in commands.items():
        assert not below or any({name, *below} <= words for words in lists), name


@needs_bash
@pytest.mark.parametrize(
    "line, offered",
    [
        ("vyane send ", {"ann", "bob smith"}),
        ("vyane send b", {"bob smith"}),
        ("vyane project show ", {NAME}),
        ("vyane wake --project ", {NAME}),
        ("vyane wake --schedule ", {"A", "B"}),
        ("vyane schedule set ", {"A", "B"}),
        ("vyane task show ", {"T1", "T2"}),
        ("vyane --json task report T", {"T1", "T2"}),
        (f"vyane task edit --project {NAME} ", {"T1", "T2"}),
        ("vyane task edit --project other ", set()),
        ("vyane report --task ", {"T1", "T2"}),
        ("vyane task add three --after ", {"T1", "T2", "legal"}),
        ("vyane taskgraph mark ", {"legal"}),
        ("vyane need-user resolve ", {"N1", "N2"}),
        ("vyane timeline a", {"ann"}),
    ],
)
def test_bash_knows_the_names_of_what_there_is(root, line, offered):
    assert complete(root, line) == offered


@needs_bash
@pytest.mark.parametrize("line", ["vyane task show ", "vyane send ", "vyane need-user resolve "])
def test_where_there_is_nothing_nothing_is_offered(line):
    assert complete("/nowhere", line) == set()
