"""Workers: who is meant by a name, what a new one is called, and the states of one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.errors import ConflictError, NotFoundError
from vyane_cli.kernel.text import slug
from vyane_cli.sessions.worker import (
    FINAL,
    TRANSITIONS,
    Worker,
    WorkerStatus,
    check_transition,
    find_worker,
    parse_worker,
    readable_name,
    render_worker,
    unique_name,
)


def worker(number: int, name: str, **more) -> Worker:
    return Worker(f"w-{number:012x}", name, "claude", "vs-000000000000", **more)


TEAM = [worker(0x100000000000, "w1"), worker(0x200000000000, "w2"), worker(3 << 44, "lead")]


@pytest.mark.parametrize("text", ["w-1", "W1", "../w1", "reviewer", "w", "w-", "1", "lea"])
def test_a_name_that_is_not_quite_one_finds_nobody(text):
    """A typing error reaches no inbox; the nearest names are offered."""
    with pytest.raises(NotFoundError) as caught:
        find_worker(text, TEAM)

    if text != "reviewer":
        assert set(caught.value.nearest) <= {"w1", "w2", "lead"}
    if text in ("w-1", "W1", "../w1"):
        assert "w1" in caught.value.hint


def test_a_worker_is_found_by_id_name_or_a_prefix_of_its_id():
    """A prefix as short as people type."""
    assert find_worker("lead", TEAM).name == "lead"
    assert find_worker(TEAM[1].id, TEAM).name == "w2"
    assert find_worker(TEAM[1].id[:7], TEAM).name == "w2"


def test_an_ambiguous_prefix_lists_the_candidates():
    """Rather than taking the first."""
    twins = [worker(0xABCDEF000001, "a"), worker(0xABCDEF000002, "b")]
    with pytest.raises(ConflictError, match=r"a.*b"):
        find_worker("w-abcdef", twins)


def test_a_live_worker_comes_before_an_ended_one_of_the_same_name():
    """A name is handed on; mail goes to whom it names now."""
    old = worker(1, "api", status=WorkerStatus.COMPLETED)
    new = worker(2, "api")

    assert find_worker("api", [new, old]) is new
    assert find_worker("api", [old, new]) is new


@given(st.text(max_size=100), st.text(max_size=100))
def test_a_name_is_made_of_letters_digits_and_dashes(folder, branch):
    """Readable, and never empty."""
    name = readable_name(folder, branch)

    assert name
    assert all(c.isalnum() or c == "-" for c in name)
    assert len(slug(folder)) <= 40


@given(st.sampled_from(["api", "x" * 90]), st.integers(0, 12))
def test_a_taken_name_gets_the_first_free_number(wanted, count):
    """Whatever the case of the letters."""
    taken: list[str] = []
    for _ in range(count):
        taken.append(unique_name(wanted, [name.upper() for name in taken]))

    assert len({name.casefold() for name in taken}) == count
    if wanted == "api":
        assert taken == ["api", *(f"api-{n}" for n in range(2, count + 1))][:count]


def test_the_states_of_a_worker_are_those_of_the_design():
    """Total, and three are final."""
    assert set(TRANSITIONS) == set(WorkerStatus)
    assert {"COMPLETED", "FAILED", "KILLED"} == FINAL
    for before in WorkerStatus:
        for after in WorkerStatus:
            if before is after or after in TRANSITIONS[before]:
                assert check_transition(before, after) is after
            else:
                with pytest.raises(ConflictError):
                    check_transition(before, after)
    assert TRANSITIONS[WorkerStatus.RELEASED] == {"RUNNING", "IDLE"}


@given(st.dictionaries(st.text(max_size=8), st.integers(), max_size=4))
def test_fields_of_a_later_version_survive_a_rewrite(unknown):
    """A worker that is read and written by an older program loses nothing."""
    stored = {**{f"x-{key}": value for key, value in unknown.items()}, **render_worker(TEAM[0])}

    assert render_worker(parse_worker(TEAM[0].id, stored)) == stored
