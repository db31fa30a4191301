"""Durations as people type them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.durations import parse_duration_s


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
