"""A chat service that fails: killed at every request, every answer lost.

They are run here against the mock that checks each request by the official document; in a full run
with a kill at every call that changes a file as well.
"""

from __future__ import annotations

import pytest

from tests.discord.conftest import contract
from tests.discord.kills import (
    EVERY,
    OPERATIONS,
    Reading,
    killed_at_each_step,
    losing_each_answer,
    undisturbed,
)
from tests.discord.mockcord import Contract
from tests.reliability.scale import FULL

__all__ = ["contract"]


@pytest.fixture(scope="module")
def expected(contract: Contract) -> Reading:
    return undisturbed(contract)


def test_killed_at_any_step_the_threads_read_as_after_an_undisturbed_run(
    contract: Contract, expected: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at_each_step(contract, expected, monkeypatch, 1 if FULL else EVERY)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_whichever_answer_is_lost_the_threads_read_as_after_an_undisturbed_run(
    contract: Contract, expected: Reading, operation: str
) -> None:
    losing_each_answer(contract, expected, operation)
