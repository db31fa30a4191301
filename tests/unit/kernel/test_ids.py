"""Ids: ULIDs as others read them, in order whatever the clock does; names fit for files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from vyane_cli.api import connect
from vyane_cli.kernel import ids

entropy = st.binary(min_size=10, max_size=10)
moments = st.integers(0, (1 << 48) - 1)


@given(moments, entropy)
def test_a_ulid_is_what_another_implementation_makes_of_the_same_bytes(now_ms, random):
    """48 bits of milliseconds, 80 of randomness, Crockford's alphabet."""
    text = ids.render_ulid(now_ms, random)

    assert text == str(ULID.from_bytes(now_ms.to_bytes(6, "big") + random))
    assert ids.is_ulid(text)
    assert ids.parse_ulid(text) == int(ULID.from_str(text))


@given(st.lists(st.tuples(st.integers(0, 1 << 40), entropy), max_size=40))
def test_ids_of_one_process_sort_as_they_were_made_whatever_the_clock_does(readings):
    """Within a millisecond, and after the clock was set back by a minute or a day."""
    made, last = [], ""
    for now_ms, random in readings:
        last = ids.next_ulid(last, now_ms, random)
        made.append(last)

    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert all(ids.is_ulid(one) for one in made)


@given(st.lists(st.tuples(st.integers(0, 1 << 40), entropy), max_size=40))
def test_the_python_api_makes_the_same_ids_by_python_ulid(readings):
    """The hook path has its own twenty lines, and they may not differ."""
    api = connect("/nowhere").home
    last = ""
    for now_ms, random in readings:
        api.entropy = lambda _size, random=random: random
        last = ids.next_ulid(last, now_ms, random)

        assert api.new_id(now_ms) == last


def test_a_thousand_ids_of_one_millisecond_are_in_order():
    """Also when the randomness is at its end."""
    made = [ids.render_ulid(5, b"\xff" * 9 + b"\x00")]
    for _ in range(255):
        made.append(ids.next_ulid(made[-1], 5, bytes(10)))

    assert made == sorted(set(made))


@given(st.text(max_size=30))
def test_a_text_that_is_no_ulid_is_refused(text):
    """Never guessed at."""
    if ids.is_ulid(text):
        assert str(ULID.from_str(text)) == text
    else:
        with pytest.raises(ValueError, match="is not a ULID"):
            ids.parse_ulid(text)


@given(st.text(max_size=140))
def test_only_letters_digits_dash_and_underscore_become_part_of_a_file_name(text):
    """Letters and digits of ASCII: no path, no Unicode that a file system folds."""
    allowed = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")

    assert ids.is_safe_id(text) == (0 < len(text) <= 128 and set(text) <= allowed)


@pytest.mark.parametrize("text", ["", ".", "..", "../x", "a/b", "a\0", "a\n", "é", "x" * 129, "١"])
def test_what_could_leave_the_folder_is_not_safe(text):
    """Each of these has got out of some program's folder."""
    assert not ids.is_safe_id(text)


@given(entropy)
def test_the_ids_that_people_type_have_their_form(random):
    """`w-` and `vs-` with 12 hexadecimal digits; both are fit for file names."""
    worker, session = ids.worker_id(random), ids.logical_session_id(random)

    assert len(worker) == 14
    assert ids.is_safe_id(worker)
    assert ids.is_logical_session_id(session)
    assert not ids.is_logical_session_id(session.upper())
    assert not ids.is_logical_session_id(session[:-1])


@given(moments, entropy)
def test_the_span_of_a_turn_is_the_low_half_of_its_id(now_ms, random):
    """16 hexadecimal digits, as tracing systems take them."""
    turn = ids.render_ulid(now_ms, random)

    assert int(ids.span_id(turn), 16) == int(ULID.from_str(turn)) & ((1 << 64) - 1)
    assert len(ids.span_id(turn)) == 16
    assert ids.span_id("no turn") == ""
