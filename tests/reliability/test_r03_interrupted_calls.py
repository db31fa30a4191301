"""Calls that the kernel breaks off, and calls that fail where the seam is not: by strace."""

import json
import shutil

import pytest

from tests.reliability import acts, steps, tracing
from tests.reliability.scale import FULL

CALLS = {"pwrite64": 2, "fsync": 12, "ftruncate": 1, "flock": 2, "mkdir": 3, "rename": 2}
"""And how many of each a send makes at most, and one more. An openat that fails is a seam's."""
ERRORS = ["EINTR", "EIO", "ENOSPC", "EMFILE", "EACCES"] if FULL else ["EINTR"]

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")


@pytest.mark.parametrize("error", ERRORS)
def test_a_send_whose_system_call_is_broken_off_is_stored_or_says_that_it_is_not(error, count):
    """EINTR is no error: the call is made again. Others: exit 0 and 8 it is there, 1 it is not."""
    runs = 0
    with steps.act("send (first)") as act:
        environ = {**act.lab.environ(), **act.case.environ}
        argv = tracing.command(("--json", *act.case.words))
        for name, most in CALLS.items():
            for k in range(1, most + 1):
                act.restore()
                inject = f"{name}:error={error}:when={k}"
                code, out, err = tracing.injected(inject, argv, environ, b"")
                runs += 1
                where = (inject, code, err)
                assert b"Traceback" not in err, where
                if code in (0, 8):
                    assert act.case.seen() == act.after, where
                else:
                    assert code == 1, where
                    assert error != "EINTR", where
                    assert act.case.seen() == act.before, where
                    assert json.loads(err)["error"]["message"], where
                if code == 0:
                    assert json.loads(out)["status"] == "pending", where
                assert acts.unsound(act.lab) == [], where
    count(runs=runs, violations=0)
