"""Every command that writes, with each call that changes a file refused."""

import errno
from functools import partial

import pytest

from tests.reliability import acts, steps
from tests.reliability.scale import FULL
from tests.store.faults import failing_at

QUICK = [errno.ENOSPC, errno.EIO]
MORE = [errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.EACCES] if FULL else []
EVER = 100_000


@pytest.mark.parametrize("times", [1, EVER], ids=["once", "for-ever"])
@pytest.mark.parametrize("number", [*QUICK, *MORE], ids=errno.errorcode.get)
@pytest.mark.parametrize("name", acts.ACTS)
def test_a_command_whose_call_fails_says_truly_what_became_of_it(name, number, times, count):
    """
    Exit 0 or 8: it is done. Another code: nothing of it is visible. The next one works; no
    temporary file is left; no error is a surprise.
    """
    if times == EVER and number != errno.ENOSPC and not FULL:
        pytest.skip("one error for ever is enough in a quick run")
    found: list[str] = []
    with steps.act(name) as act:
        before = acts.temporaries(act.lab)
        for k in range(1, 10_000):
            act.restore()
            outcome = act.run(partial(failing_at, k, number=number, times=times))
            if outcome.finished:
                break
            if acts.temporaries(act.lab) != before:
                found.append(f"{outcome.at}: left {acts.temporaries(act.lab)}")
            found += steps.faults_after(act, outcome)
    count(failures=k - 1, violations=len(found))

    assert not found, "\n".join(found[:30])
