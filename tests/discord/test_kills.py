"""Push and pull killed at every request, and every answer lost: the threads read the same."""

from __future__ import annotations

import pytest

from tests.discord.kills import (
    OPERATIONS,
    Reading,
    killed_at_each_step,
    losing_each_answer,
    undisturbed,
)
from tests.discord.mockcord import Contract


@pytest.fixture(scope="module")
def expected(contract: Contract) -> Reading:
    return undisturbed(contract)


def test_what_is_expected_is_what_a_person_should_read(expected: Reading) -> None:
    threads, words, status = expected

    assert (words, status) == (["please do B"], "consumed")
    names = ["💤 project", "✅ [project]: check", "📌 messages"]
    assert [name for name, _, _ in threads] == names
    assert [archived for _, archived, _ in threads] == [False, True, False]
    assert [text for text, *_ in threads[2][2]][1:] == ["**ann**: 1.2 is out"]
    assert [text for text, *_ in threads[0][2]][1:3] == ["✅ first", "✅ second"]
    assert "".join(text for text, *_ in threads[1][2]).count("x = 1") == 1


def test_killed_at_any_step_the_threads_read_as_after_an_undisturbed_run(
    contract: Contract, expected: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at_each_step(contract, expected, monkeypatch)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_whichever_answer_is_lost_the_threads_read_as_after_an_undisturbed_run(
    contract: Contract, expected: Reading, operation: str
) -> None:
    losing_each_answer(contract, expected, operation)
