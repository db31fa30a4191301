"""Texts: their length, what is made visible in them, and the nearest of some names."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.kernel.text import RESERVED, cut_utf16, nearest_names, neutralise, utf16_length


@given(st.text(max_size=10), st.lists(st.text(max_size=10), max_size=6))
def test_the_nearest_names_are_known_ones(text, names):
    """At most three."""
    found = nearest_names(text, names)

    assert set(found) <= set(names)
    assert len(found) <= 3


HIDDEN = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u200e\u200f\ufeff\u2060"
CONTROLS = "".join(map(chr, [*range(9), *range(11, 32), *range(127, 160)]))


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@given(st.text(), st.integers(0, 50))
def test_length_is_counted_as_hosts_count_it(text, size):
    """A character beyond U+FFFF counts twice, and is never cut in half."""
    assert utf16_length(text) == units(text)
    cut = cut_utf16(text, size)
    assert text.startswith(cut)
    assert units(cut) <= size
    assert cut == text or units(text[: len(cut) + 1]) > size


@pytest.mark.parametrize("start", [p.lower() for p in RESERVED] + [p.title() for p in RESERVED])
def test_letter_case_is_no_way_around(start):
    """A model reads `[System Takeover]` like the other."""
    for line in neutralise(f"x\n{start}] now").split("\n")[1:]:
        assert not line.lstrip().lower().startswith(start.lower())


@given(st.text(st.characters(codec=None), max_size=80))
def test_control_characters_and_invisible_marks_become_visible(text):
    """Nothing in a body can turn the reading direction, move a cursor or hide a word."""
    clean = neutralise(text + CONTROLS + HIDDEN + "\x1b[2J\x07\ud800")

    assert not set(clean) & (set(CONTROLS) | set(HIDDEN))
    assert not re.search("[\ud800-\udfff]", clean)
    assert "\\x1b" in clean
    clean.encode("utf-8")
