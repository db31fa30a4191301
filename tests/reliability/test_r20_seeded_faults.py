"""The rig sees: each of eight faults, planted in test code alone, makes it go red.

One row for each fault: the rule whose rig must find it, in its smallest form, and that same form
without the fault, which must be green.
"""

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.operations.faults import stopped_at
from tests.reliability import clocks, history, power, seeded, steps
from tests.reliability.actors import Stage
from tests.simulated import machine

ROUNDS = 20
"""A race is lost by chance: so often a rig that depends on one may try."""


def writers() -> list[str]:
    """R6: many writers at one inbox; the lock files are the same before and after."""
    with machine() as make:
        host = make()
        host.start()
        host.world.send("project", "x:0")
        stage = Stage(host, Path(host.home).parent / "logs")
        before = {path.name: path.stat().st_ino for path in Path(host.home, "locks").iterdir()}
        pids = [stage.begin(stage.sender(f"w{n}", 80)) for n in range(8)]
        for pid in pids:
            os.waitpid(pid, 0)
        found: list[str] = []
        try:
            stored = [one for one in stage.stored() if one[1] != "x:0"]
        except AssertionError as damage:
            return [f"damaged: {damage}"]
        found += history.violations(history.gather(stage.logs), stored, delivered=False)
        after = {path.name: path.stat().st_ino for path in Path(host.home, "locks").iterdir()}
        found += [f"another lock file: {n}" for n in before if after.get(n) != before[n]]
        return found


def power_loss(name: str, fault: str = "") -> list[str]:
    """R5: the power goes after any call."""
    losses = power.lose_power(name, fault, limit=1 if fault else 10**9)
    return [*losses.violations, *power.indiscreet(losses.calls)]


def reading() -> list[str]:
    """R11: a reader by cursor while the clock jumps."""
    with machine() as make:
        host = make()
        host.world.register("builder")
        return clocks.read_by_cursor(host.world, "builder", 60)


def killed_ticks() -> list[str]:
    """R2: a tick that is killed at each call."""
    found: list[str] = []
    with steps.act("tick") as act:
        for k in range(1, 1000):
            act.restore()
            outcome = act.run(partial(stopped_at, k))
            if outcome.finished:
                return found
            found += steps.faults_after(act, outcome)
    raise AssertionError("no end")


def first_message(fault: str = "") -> list[str]:
    return power_loss("send (first)", fault)


def next_message(fault: str = "") -> list[str]:
    return power_loss("send", fault)


RIGS: dict[str, tuple[str, Callable[..., list[str]]]] = {
    "no_lock": ("R6", writers),
    "no_fsync": ("R5", first_message),
    "no_directory_fsync": ("R5", first_message),
    "acknowledge_before_write": ("R5", next_message),
    "two_writes_per_record": ("R5", next_message),
    "lock_file_unlinked": ("R6", writers),
    "cursor_by_time": ("R11", reading),
    "mark_read_before_print": ("R2", killed_ticks),
}


def test_there_is_a_rig_for_each_fault():
    assert set(RIGS) == set(seeded.FAULTS)
    assert len(RIGS) == 8


@pytest.mark.parametrize("fault", seeded.FAULTS)
def test_a_planted_fault_makes_the_rig_red(fault, count):
    rule, rig = RIGS[fault]
    if rule == "R5" and shutil.which("strace") is None:
        pytest.skip("there is no strace")
    found: list[str] = []
    for _ in range(ROUNDS):
        if rule == "R5":
            found = rig(fault)
        else:
            with seeded.planted(fault):
                found = rig()
        if found:
            break
    print(f"{fault}: {rule}: {found[:3]}")
    count(faults=1, caught=bool(found))

    assert found, f"the rig of {rule} does not see {fault}"


@pytest.mark.parametrize(
    "rig", dict.fromkeys(rig for _, rig in RIGS.values()), ids=lambda rig: rig.__name__
)
def test_the_same_rig_is_green_without_a_fault(rig):
    if rig in (first_message, next_message) and shutil.which("strace") is None:
        pytest.skip("there is no strace")

    assert rig() == []
