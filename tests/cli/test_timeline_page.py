"""docs/reference/timeline.md and docs/how-to/own-agent.md agree with the code."""

import re
from pathlib import Path

import pytest

from vyane_cli.hosts.port import Trigger
from vyane_cli.timeline.check import TimelineDamage
from vyane_cli.timeline.events import CATEGORIES, DURABLE, PRODUCED, SCHEMAS, EventKind, TurnOutcome

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "timeline.md").read_text()
OWN = (DOCS / "how-to" / "own-agent.md").read_text()
WORDS = {str: "text", int: "number", bool: "yes/no", list: "list"}


def row(kind: EventKind) -> str:
    keys = (
        f"`{key}` {' or '.join(WORDS[kind_of] for kind_of in types)}"
        for key, types in SCHEMAS[kind].items()
    )
    flags = " | ".join("yes" if kind in table else "no" for table in (DURABLE, PRODUCED))
    return f"| `{kind}` | {CATEGORIES[kind]} | {', '.join(keys)} | {flags} |"


def test_the_table_of_events_is_that_of_the_code() -> None:
    there = [
        line for line in PAGE.splitlines() if re.match(r"\| `[A-Z][a-z]+[A-Z]?[a-z]*` \|", line)
    ]

    assert there == [row(kind) for kind in EventKind]


@pytest.mark.parametrize("word", [*Trigger, *TurnOutcome, *TimelineDamage])
def test_each_word_of_the_closed_lists_is_on_the_page(word) -> None:
    assert f"`{word}`" in PAGE


@pytest.mark.parametrize("kind", PRODUCED)
def test_the_guide_names_what_a_producer_emits(kind) -> None:
    assert kind in OWN


def test_the_python_of_the_guide_runs(tmp_path, monkeypatch, capsys) -> None:
    from vyane_cli.api import connect
    from vyane_cli.sessions.register import register_worker

    monkeypatch.setenv("VYANE_HOME", str(tmp_path))
    register_worker(connect().home, "builder", session_id="", cwd="/", pid=0, worker_type="generic")
    (code,) = re.findall(r"```python\n(.*?)```", OWN, re.DOTALL)
    exec(compile(code, "own-agent.md", "exec"), {})

    assert capsys.readouterr().out == "success vc1.\n"
