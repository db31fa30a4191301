"""The table of acts is whole: every command that writes is in it, and what only reads, does."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from tests.operations.faults import Say, stopped_at
from tests.reliability.acts import (
    ACTS,
    CHANGING,
    ELSEWHERE,
    READS,
    Case,
    Lab,
    files,
    lab,
    preload,
    run_here,
)
from vyane_cli.cli import app

ENDLESS = 100_000


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command that does something by itself, by its words."""
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), (*words, name))
    else:
        yield " ".join(words)


def test_every_command_is_in_a_table() -> None:
    """A command that writes has a row in ACTS; one that only reads has one in READS."""
    known = {name.split(" (")[0] for name in ACTS} | set(READS) | set(ELSEWHERE)
    there = set(commands(typer.main.get_command(app.app)))

    assert there - known == set(), "these need a row in tests/reliability/acts.py"
    assert known - there == set(), "these are no commands any more"
    assert not {name.split(" (")[0] for name in ACTS} & set(READS)


@pytest.mark.parametrize("age_ms", [900, 80_000, 9_900_000, 99_000_000, 8_640_000_000])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["journal", "document"])
def test_what_two_runs_left_is_compared_without_the_age_of_the_machine(age_ms, separators):
    """A record that a machine wrote just after its start has fewer digits, and is the same."""

    def shown(boot_ms: int) -> str:
        process = {"pid": 19367, "start": boot_ms // 10}
        record = {"op": "claim", "at": 1_764_000_000_000, "boot_ms": boot_ms, "by": process}
        return CHANGING.sub("#", json.dumps({**record, "again_ms": boot_ms}, separators=separators))

    assert shown(age_ms) == shown(123_456_789_012)


@pytest.fixture(scope="module")
def one_lab() -> Iterator[Lab]:
    preload()
    with lab() as made:
        yield made


@pytest.mark.parametrize("name", READS)
def test_a_command_that_reads_changes_no_byte(one_lab, name):
    words = tuple(word.format(waiting=one_lab.waiting) for word in READS[name])
    case = Case(words, lambda: None)
    before = files(one_lab.home)

    def action(say: Say) -> None:
        run_here(one_lab, case, say)

    outcome = stopped_at(ENDLESS, action)

    assert not outcome.surprise, outcome.error
    assert outcome.said[0]["code"] in (0, 1, 2, 3, 5), one_lab.path("err").read_text()
    assert files(one_lab.home) == before


@pytest.mark.parametrize("name", ACTS)
def test_a_command_that_writes_changes_something_and_says_so(name):
    """So that the rigs have something to break."""
    with lab() as one_lab:
        case = ACTS[name](one_lab)
        before = files(one_lab.home.parent)
        locks = lock_files(one_lab)
        seen = case.seen()
        outcome = stopped_at(ENDLESS, lambda say: run_here(one_lab, case, say))

        assert not outcome.surprise, outcome.error
        assert outcome.said[0]["code"] in case.codes, one_lab.path("err").read_text()
        assert files(one_lab.home.parent) != before
        if name not in ("gc", "tick"):
            assert case.seen() != seen
        assert locks.items() <= lock_files(one_lab).items(), "a lock file is never made anew"


def lock_files(one_lab: Lab) -> dict[str, int]:
    """Every lock file and its inode: whoever waits at another one is not kept out."""
    return {str(path): path.stat().st_ino for path in one_lab.home.rglob("*.lock")}
