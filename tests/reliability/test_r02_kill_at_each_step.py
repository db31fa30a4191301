"""Every command that writes, killed just before each call that changes a file."""

from functools import partial

import pytest

from tests.operations.faults import stopped_at
from tests.reliability import acts, steps
from tests.reliability.scale import FULL

STARTS = ["normal", "damaged"] if FULL else ["normal"]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", acts.ACTS)
def test_a_command_killed_at_any_call_leaves_old_or_new_and_the_next_one_ends_it(
    name, start, count
):
    """Nothing is damaged, at most one temporary file is left, no message is lost."""
    found: list[str] = []
    with steps.act(name, start) as act:
        before = len(acts.temporaries(act.lab))
        for k in range(1, 10_000):
            act.restore()
            outcome = act.run(partial(stopped_at, k))
            if outcome.finished:
                break
            left = len(acts.temporaries(act.lab)) - before
            if left > 1:
                found.append(f"{outcome.at}: {left} temporary files")
            found += steps.faults_after(act, outcome)
    count(kills=k - 1, violations=len(found))

    assert not found, "\n".join(found[:30])
    assert k > 1
