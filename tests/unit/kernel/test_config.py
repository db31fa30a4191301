"""The settings: each has a meaning, a default that is valid, and values that it refuses."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.config import (
    DEFAULTS,
    KEYS,
    DeliveryLimits,
    check_key,
    check_value,
    parse_config,
    parse_value,
)


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
