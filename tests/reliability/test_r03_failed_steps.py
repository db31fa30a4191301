"""Every command that writes, with each call that changes a file refused."""

import errno
from functools import partial

import pytest

from tests.operations.faults import failing_at
from tests.reliability import acts, steps
from tests.reliability.scale import FULL

EVER = 100_000
ERRORS = "ENOSPC EIO EDQUOT EROFS EMFILE EACCES".split()
QUICK = [("ENOSPC", EVER), ("EIO", 1)]
"""A disk that is full stays full; one that has an error has it once."""
WAYS = [(name, times) for name in ERRORS for times in (1, EVER)] if FULL else QUICK


@pytest.mark.parametrize("error, times", WAYS, ids=[f"{n}-{t}" for n, t in WAYS])
@pytest.mark.parametrize("name", acts.ACTS)
def test_a_command_whose_call_fails_says_truly_what_became_of_it(name, error, times, count):
    """
    Exit 0 or 8: it is done. Another code: nothing of it is visible. The next one works; no
    temporary file is left; no error is a surprise.
    """
    found: list[str] = []
    with steps.act(name) as act:
        before = acts.temporaries(act.lab)
        for k in range(1, 10_000):
            act.restore()
            outcome = act.run(partial(failing_at, k, number=getattr(errno, error), times=times))
            if outcome.finished:
                break
            if acts.temporaries(act.lab) != before:
                found.append(f"{outcome.at}: left {acts.temporaries(act.lab)}")
            found += steps.faults_after(act, outcome)
    count(failures=k - 1, violations=len(found))

    assert not found, "\n".join(found[:30])
