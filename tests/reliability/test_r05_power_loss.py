"""The power goes after any call: replayed from the calls that strace saw."""

import shutil

import pytest

from tests.reliability import acts, power
from tests.reliability.disk import Bytes, Disk, Names
from tests.reliability.scale import FULL
from tests.reliability.tracing import Call

QUICK = (
    "send (first)",
    "send",
    "send (keyed)",
    "report (result)",
    "workers register",
    "gc",
    "timeline export",
)
NAMES = list(acts.ACTS) if FULL else QUICK

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")


@pytest.mark.parametrize("name", NAMES)
def test_what_was_acknowledged_survives_a_loss_of_power_after_any_call(name, count):
    """
    Whatever was not flushed is kept, dropped, zeroed or halved, and names that were not flushed
    are there or not. The next command starts from each of these states and comes to its end.
    Each write to a journal is of whole lines.
    """
    losses = power.lose_power(name)
    found = [*losses.violations, *power.indiscreet(losses.calls)]
    count(states=losses.states, violations=len(found))

    assert not found, "\n".join(found[:30])
    assert losses.states > 1


def test_the_replay_knows_what_a_disk_may_forget(tmp_path):
    """A file's bytes by its own flush, its name by its folder's; a rename may be undone."""
    (tmp_path / "old").write_bytes(b"old")
    disk = Disk(tmp_path)
    new, old = str(tmp_path / "new"), str(tmp_path / "old")
    disk.apply(Call("openat", new, flags=", O_RDWR|O_CREAT"))
    disk.apply(Call("pwrite64", new, b"bytes", 0))

    def trees() -> set[tuple[tuple[str, bytes | None], ...]]:
        return {state.tree for state in disk.states("")}

    assert (("new", b"bytes"), ("old", b"old")) in trees()
    assert (("new", b""), ("old", b"old")) in trees()
    assert (("new", bytes(5)), ("old", b"old")) in trees()
    assert (("new", b"by"), ("old", b"old")) in trees()
    assert (("old", b"old"),) in trees()
    disk.apply(Call("fsync", new))
    assert trees() == {(("new", b"bytes"), ("old", b"old")), (("old", b"old"),)}
    disk.apply(Call("rename", old, source=new))
    assert trees() == {(("old", b"bytes"),), (("old", b"old"),)}
    disk.apply(Call("fsync", str(tmp_path)))
    assert trees() == {(("old", b"bytes"),)}
    assert len(Bytes) * len(Names) == 8
