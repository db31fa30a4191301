"""A chat service that fails: killed at every request, every answer lost, by the tests of Discord.

They are run here against the mock that checks each request by the official document; in a full run
with a kill at every call that changes a file as well.
"""

from tests.discord import test_kills
from tests.discord.conftest import contract
from tests.discord.test_kills import (
    expected,
    test_killed_at_any_step_the_threads_read_as_after_an_undisturbed_run,
    test_whichever_answer_is_lost_the_threads_read_as_after_an_undisturbed_run,
)
from tests.reliability.scale import FULL

if FULL:
    test_kills.EVERY = 1

__all__ = [
    "contract",
    "expected",
    "test_killed_at_any_step_the_threads_read_as_after_an_undisturbed_run",
    "test_whichever_answer_is_lost_the_threads_read_as_after_an_undisturbed_run",
]
