"""Small texts that people type: settings, durations, addresses, names."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.errors import ConflictError, InvalidInputError, NotFoundError
from vyane_cli.kernel.config import (
    DEFAULTS,
    KEYS,
    DeliveryLimits,
    check_key,
    check_value,
    parse_config,
    parse_value,
)
from vyane_cli.kernel.durations import parse_duration_s
from vyane_cli.kernel.text import nearest_names, slug
from vyane_cli.mail.message import ToKind
from vyane_cli.mail.routing import parse_address
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

# ------------------------------------------------------------------ settings


@pytest.mark.parametrize("key", KEYS)
def test_every_setting_has_a_meaning_and_a_default_that_is_valid(key):
    """The table is what the file, the docs and the command share."""
    assert KEYS[key].doc.endswith(".")
    assert check_value(key, KEYS[key].default) == KEYS[key].default
    assert DEFAULTS[key] == KEYS[key].default


def test_the_defaults_of_the_settings_are_those_of_the_gates():
    """One number, in two places that agree."""
    assert DEFAULTS.limits == DeliveryLimits()


def test_an_unknown_setting_names_the_nearest():
    """A typing error is no new setting."""
    with pytest.raises(InvalidInputError) as caught:
        check_key("delivery.too_son_s")
    assert "delivery.too_soon_s" in caught.value.hint
    with pytest.raises(InvalidInputError):
        parse_config({"delivery": {"nope": 1}})


@pytest.mark.parametrize(
    "key, value",
    [
        ("language", "fr"),
        ("language", 1),
        ("delivery.too_soon_s", "soon"),
        ("delivery.too_soon_s", True),
        ("delivery.too_soon_s", -1),
        ("delivery.starts_per_hour", 0),
        ("authority.workers", "bob"),
        ("authority.workers", [1]),
        ("authority.workers", ["w-1\0"]),
        ("wake.runtime", "\0"),
        ("delivery.too_soon_s", math.nan),
        ("delivery.too_soon_s", math.inf),
    ],
)
def test_a_value_that_does_not_fit_is_refused(key, value):
    """By the name of the setting; a NaN would pass every comparison."""
    with pytest.raises(InvalidInputError, match=key):
        check_value(key, value)


@given(st.sampled_from(list(KEYS)), st.text(max_size=12))
def test_a_typed_value_is_taken_or_refused(key, text):
    """Total: no other exception."""
    try:
        value = parse_value(key, text)
    except InvalidInputError:
        return
    assert check_value(key, value) == value


# ------------------------------------------------------------------ durations


@pytest.mark.parametrize(
    "text, seconds",
    [("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86_400), ("1w", 604_800), ("45", 45),
     ("1.5h", 5400), (" 2H ", 7200), ("5min", 300)],
)  # fmt: skip
def test_a_duration_is_a_number_with_a_unit(text, seconds):
    """Or a bare number of seconds."""
    assert parse_duration_s("ttl", text) == seconds


@pytest.mark.parametrize("text", ["", "h", "0", "0s", "-1h", "1y", "1h30m", "nan", "inf", "1e99d"])
def test_what_is_no_duration_is_refused(text):
    """By the name of the option."""
    with pytest.raises(InvalidInputError, match="ttl"):
        parse_duration_s("ttl", text)


@pytest.mark.parametrize("text, why", [("99999999d", "30,000 years"), ("0s", "more than zero")])
def test_a_duration_out_of_bounds_says_which(text, why):
    with pytest.raises(InvalidInputError, match=why):
        parse_duration_s("ttl", text)


@given(st.text(max_size=10))
def test_any_text_is_a_duration_or_refused(text):
    """Total."""
    try:
        assert 0 < parse_duration_s("ttl", text) < math.inf
    except InvalidInputError:
        pass


# ------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    "text, kind",
    [
        ("all", ToKind.BROADCAST),
        ("vs-0123456789ab", ToKind.LOGICAL_SESSION),
        ("channel:general", ToKind.CHANNEL),
        ("parent", ToKind.WORKER),
        ("children", ToKind.WORKER),
        ("api-main", ToKind.WORKER),
        ("w-0123456789ab", ToKind.WORKER),
    ],
)
def test_an_address_says_what_it_names(text, kind):
    """By its form alone."""
    assert parse_address(text).kind is kind


@pytest.mark.parametrize(
    "text",
    ["", " ", " w1 ", "w1\n", "vs-1", "vs-0123456789aG", "channel:", "channel:a\nb", "host:w1"],
)
def test_an_address_of_no_form_is_refused(text):
    """Nothing is guessed and nothing is trimmed."""
    with pytest.raises(InvalidInputError, match="to"):
        parse_address(text)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_refused(text):
    """Total."""
    try:
        assert parse_address(text).text
    except InvalidInputError:
        pass


# ------------------------------------------------------------------ names


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


@given(st.text(max_size=10), st.lists(st.text(max_size=10), max_size=6))
def test_the_nearest_names_are_known_ones(text, names):
    """At most three."""
    found = nearest_names(text, names)

    assert set(found) <= set(names)
    assert len(found) <= 3


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
