"""A task is started again after a death, and not after a failure that would repeat itself."""

from itertools import product

import pytest

from vyane_cli.projects.retry_rules import AGAIN, Again, End, Fate, Start, ask_again, fate_of


def starts(*fates: Fate) -> list[Start]:
    return [Start(f"w-{number}", fate) for number, fate in enumerate(fates)]


def test_the_table_has_every_fate_and_every_end_has_one():
    assert set(AGAIN) == set(Fate)
    seen = {
        fate_of(End(*values, status))
        for values in product((True, False), repeat=5)
        for status in (None, -9, 0, 1)
    }
    assert seen == set(Fate)


@pytest.mark.parametrize(
    "end, fate",
    [
        (End(False), Fate.UNMADE),
        (End(True, cancelled=True, spawned=True, exit_status=-15), Fate.STOPPED),
        (End(True, spawned=True), Fate.UNMADE),
        (End(True, spawned=True, launched=True), Fate.NOT_STARTED),
        (End(True, spawned=True, launched=True, had_process=True), Fate.KILLED),
        (End(True, spawned=True, launched=True, had_process=True, exit_status=-9), Fate.KILLED),
        (End(True, spawned=True, launched=True, had_process=True, exit_status=1), Fate.FAILED),
        (End(True, spawned=True, launched=True, had_process=True, exit_status=0), Fate.SILENT),
        (End(True), Fate.LEFT),
    ],
)
def test_a_death_is_told_from_a_failure_by_the_exit_status(end, fate):
    assert fate_of(end) is fate


def test_a_task_is_started_again_until_its_workers_were_killed_too_often():
    killed = starts(Fate.UNMADE, Fate.KILLED)

    assert ask_again((), 3) is None
    assert ask_again(killed, 3) is None
    refusal = ask_again([*killed, *starts(Fate.LEFT)], 3)
    assert refusal is not None
    assert refusal.attempts == 3


@pytest.mark.parametrize("fate", [fate for fate, again in AGAIN.items() if again is Again.PERSON])
def test_a_failure_waits_for_the_person_and_goes_on_when_they_have_looked(fate):
    """What was killed after that counts anew."""
    failed = starts(fate, Fate.KILLED)

    refusal = ask_again(failed, 3)
    assert refusal is not None
    assert refusal.start == failed[0]
    looked = [failed[0]._replace(looked_at=True), *starts(Fate.KILLED, Fate.KILLED)]
    assert ask_again(looked, 3) is None
