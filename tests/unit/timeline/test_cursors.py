"""The opaque cursor."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.errors import InvalidInputError
from vyane_cli.timeline.cursors import Cursor, check_cursor, parse_cursor, render_cursor

hexadecimal = st.text("0123456789abcdef", min_size=1, max_size=32)
marks = st.text("0123456789abcdef", max_size=8)
cursors = st.builds(
    Cursor, hexadecimal.map("vs-{}".format), hexadecimal, st.integers(0, 10**9), marks
)
CURSOR = Cursor("vs-0123456789ab", "a" * 32, 7, "00c0ffee")


@given(cursors)
def test_a_cursor_comes_back_as_it_was(cursor) -> None:
    text = render_cursor(cursor)

    assert text.startswith("vc1.")
    assert parse_cursor(text) == cursor


@given(cursors, st.data())
def test_a_cursor_with_one_character_changed_is_malformed(cursor, data) -> None:
    text = render_cursor(cursor)
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from(sorted(set(string.printable + "é") - {text[place]})))

    with pytest.raises(InvalidInputError) as caught:
        parse_cursor(text[:place] + other + text[place + 1 :])

    assert caught.value.slug == "cursor_malformed"


@given(st.text())
def test_any_other_text_is_a_malformed_cursor_and_never_another_error(text) -> None:
    with pytest.raises(InvalidInputError, match=r"is not a cursor"):
        parse_cursor("vc1." + text if len(text) % 2 else text)


def test_a_cursor_of_the_task_ledger_is_no_cursor_of_a_timeline() -> None:
    with pytest.raises(InvalidInputError):
        parse_cursor("vt1." + render_cursor(CURSOR)[4:])


@pytest.mark.parametrize(
    "session, epoch, seq, slug",
    [
        ("vs-ffffffffffff", "a" * 32, 9, "cursor_session_mismatch"),
        ("vs-0123456789ab", "b" * 32, 9, "cursor_epoch_mismatch"),
        ("vs-0123456789ab", "a" * 32, 6, "cursor_future"),
        ("vs-0123456789ab", "", 0, "cursor_epoch_mismatch"),
    ],
)
def test_a_cursor_that_does_not_fit_says_how(session, epoch, seq, slug) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_cursor(CURSOR, session, epoch, seq)

    assert caught.value.slug == slug


def test_a_cursor_of_a_timeline_that_was_still_empty_fits_its_first_epoch() -> None:
    check_cursor(Cursor("vs-0123456789ab", "", 0), "vs-0123456789ab", "a" * 32, 5)
