"""Somebody holds every lock and is stopped, as by Ctrl-Z: who waits, how it ends, what is left."""

from pathlib import Path

import pytest

from tests.reliability import acts, steps
from tests.reliability.scale import size
from tests.simulated import stopped_holder
from vyane_cli.storage.locks import STRIPES, LockKind

ROUNDS = size(1, 10)
WAIT = "\n[locks]\nwait_s = 0.2\n"


def every_lock() -> list[tuple[LockKind, str]]:
    """A key for each stripe of each kind."""
    import zlib

    wanted = []
    for kind in LockKind:
        stripes = STRIPES.get(kind, 1)
        found: dict[int, str] = {}
        number = 0
        while len(found) < stripes:
            found.setdefault(zlib.crc32(str(number).encode()) % stripes, str(number))
            number += 1
        wanted += [(kind, key) for key in found.values()]
    return wanted


@pytest.mark.parametrize("name", acts.ACTS)
def test_a_command_gives_up_a_lock_that_nobody_lets_go_and_has_done_nothing(name, count):
    """
    Exit 6, which names the lock; a hook ends with 0 and prints nothing. When the holder goes on,
    the same command works and no message is lost.
    """
    with steps.act(name) as act:
        config = act.lab.home / "config.toml"
        for _ in range(ROUNDS):
            act.restore()
            with config.open("a") as file:
                file.write(WAIT)
            before = act.case.seen()
            home = Path(act.case.words[1]) if act.case.words[0] == "--home" else act.lab.home
            with stopped_holder(str(home), *every_lock()):
                outcome = act.run(steps.untouched)
                code = act.code(outcome)
                out, err = acts.printed(act.lab)
            assert not outcome.surprise, outcome.error
            if name == "tick":
                assert (code, out) == (0, b"")
            elif code == 6:
                assert b"locked for" in err + out
            else:  # it needs none, or goes on without what the lock guards
                assert code in act.case.codes, (code, err)
            if code == 6:
                assert act.case.seen() in (before, *act.case.between)
            found = steps.faults_after(act, outcome)
            count(commands=1, given_up=code == 6, violations=len(found))
            assert not found, "\n".join(found)
