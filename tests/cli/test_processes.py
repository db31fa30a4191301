"""Each verb in an interpreter of its own, as people start it, answers as in the fork of a test."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulated import Ran, program, vyane
from vyane_cli.cli.app import COMMANDS

WORDS = {
    "send": "bob hi",
    "reply": "{mail} hi",
    "relay": "bob hi",
    "inbox": "bob",
    "show": "{mail}",
    "why": "{mail}",
    "status": "",
    "workers": "",
    "topology": "",
    "spawn": "x --parent bob --runtime none",
    "wait": "nobody",
    "report": "--result done",
    "logs": "bob",
    "takeover": "bob stop --timeout 0.1s --from-kind human",
    "cancel": "bob --wait 0.1s --from-kind human",
    "project": "list",
    "task": "list --project shop",
    "taskgraph": "check --project shop",
    "goal": "show --project shop",
    "need-user": "list",
    "timeline": "show bob",
    "watch": "bob --history",
    "turn": "start bob",
    "bind": "--session bob --channel file",
    "unbind": "--session bob --reason x",
    "bindings": "list",
    "route": "bob",
    "mirror": "status",
    "wake": "--project shop --dry-run",
    "schedule": "list",
    "init": "",
    "hooks": "status",
    "doctor": "--json",
    "config": "list",
    "gc": "",
    "demo": "--real --no-such-option",
    "completion": "bash",
    "describe": "--json",
    "tick": "--host generic --worker bob",
    "uninstall": "",
}


OF_THIS_RUN = re.compile(r"vyt\S+|[0-9A-Z]{26}|\b(w|vs|evt)-[0-9a-f]+|[0-9a-f]{32,}|\d+")
"""Tokens, ids, times."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A state root with bob, his mail and a project; the id of the mail."""
    folder = tmp_path_factory.mktemp("template")
    home = folder / "home"
    for words in (
        ("workers", "register", "bob"),
        ("project", "create", "shop", "--dir", str(folder), "--main", "bob"),
        ("task", "add", "write it", "--project", "shop"),
    ):
        assert vyane(home, *words).status == 0
    return home, vyane(home, "--json", "send", "bob", "hello").document["id"]


def answer(run: Callable[..., Ran], template: tuple[Path, str], home: Path, words: str) -> object:
    """What a command says on a fresh copy, without the ids and times of this one run."""
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(template[0], home)
    ran = run(home, *words.format(mail=template[1]).split())
    said = (ran.out + b"\n---\n" + ran.err).decode()
    return ran.status, re.sub(
        r"vyt\S+|[0-9A-Z]{26}|\b(w|vs|evt)-[0-9a-f]+|[0-9a-f]{32,}|\d+", "#", said
    )


def test_each_verb_has_its_words():
    assert set(WORDS) == set(COMMANDS)


@pytest.mark.parametrize("verb", WORDS)
def test_a_verb_started_by_a_person_answers_as_in_a_fork(template, tmp_path, verb):
    words, home = f"{verb} {WORDS[verb]}", tmp_path / "home"

    assert answer(program, template, home, words) == answer(vyane, template, home, words)


@pytest.mark.parametrize("verb", WORDS)
def test_a_mistake_at_a_verb_is_told_as_in_a_fork(template, tmp_path, verb):
    host = "--host generic " if verb == "tick" else ""  # of another host it is a hook: exit 0
    words, home = f"{verb} {host}--no-such-option", tmp_path / "home"
    status, said = answer(program, template, home, words)

    assert status == 2
    assert (status, said) == answer(vyane, template, home, words)
