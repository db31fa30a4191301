"""Addresses: what a text names, by its form alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.errors import InvalidInputError
from vyane_cli.mail.message import ToKind
from vyane_cli.mail.routing import parse_address


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
