"""Splitting: what a person reads is what was written, however it is cut."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.discord.mockcord import fence_problems, lines_as_read
from vyane_cli.channels.discord.text import LIMIT, clean, split, title
from vyane_cli.kernel.text import utf16_length

line = st.sampled_from(
    [
        "",
        "some words of a line",
        "- a list",
        "see https://example.com/a/b",
        "🎉 done 🎉",
        "`code` here",
    ]
)
code = st.sampled_from(["", "    return 1", "\tx = 2", "print('hi')", "        deep", "🎉" * 9])
block = st.builds(
    lambda language, rows: [f"```{language}", *rows, "```"],
    st.sampled_from(["", "py", "c++", "json"]),
    st.lists(code, max_size=30),
)
documents = st.lists(st.one_of(st.lists(line, max_size=8), block), max_size=9).map(
    lambda parts: "\n".join(row for part in parts for row in part)
)
PIECES = ["```py\n", "```", "````\n", "~~~\n", "\n", "\n\n", "word ", "    ", "😀", "é", "`"]
PIECES += ["<@123456789012345678>", "x" * 70, "https://example.com/abc ", "👩‍👩‍👧‍👦", "🇩🇪"]
pieces = st.sampled_from(PIECES)
anything = st.lists(pieces, max_size=60).map("".join)


def letters(text: str) -> str:
    """What is left of a text without fences, their language, marks and white space."""
    return re.sub(r"[\s\u200b`~]|py", "", text)


@given(text=documents, limit=st.integers(120, 400))
def test_lines_of_text_and_code_are_read_as_they_were_written(text: str, limit: int) -> None:
    parts = split(text, limit)

    assert lines_as_read(parts) == lines_as_read([text])
    assert [part for part in parts if fence_problems(part) or utf16_length(part) > limit] == []


@given(text=anything, limit=st.integers(120, 400))
@example(text="a ``` b", limit=120)
@example(text="```md\n```py\nx\n```\n```\nend", limit=120)
@example(text="```\n" + "x" * 113 + "\n```", limit=120)
def test_every_message_has_balanced_fences_and_fits(text: str, limit: int) -> None:
    for part in split(text, limit):
        assert not fence_problems(part)
        assert 0 < utf16_length(part) <= limit
        assert part.strip()


@given(text=anything, limit=st.integers(120, 400))
def test_no_letter_is_lost(text: str, limit: int) -> None:
    assert letters("".join(split(text, limit))) == letters(text)


def test_a_block_that_ends_at_the_limit_keeps_its_closing_fence_within_it() -> None:
    for length in range(LIMIT - 20, LIMIT + 3):
        text = "```py\n" + "y" * 900 + "\n" + "x" * (length - 900 - 11) + "\n```"
        assert all(utf16_length(part) <= LIMIT for part in split(text))
        assert not any(map(fence_problems, split(text)))


def test_a_long_info_text_is_no_part_of_every_message() -> None:
    parts = split("```" + "l" * 3_000 + "\n" + "x\n" * 2_000 + "```")

    assert all(utf16_length(part) <= LIMIT for part in parts)


@pytest.mark.parametrize(
    "text",
    [
        "````md\nUse:\n```py\nx = 1\n```\nthen\n````\nend",
        "```md\nUse:\n```py\nx = 1\n```\nthen\n```\nend",
        "~~~md\nUse:\n```py\nx = 1\n```\nthen\n~~~\nend",
    ],
)
def test_a_block_that_holds_fences_is_shown_whole(text: str) -> None:
    (part,) = split(text)

    read = lines_as_read([part.replace("\u200b", "'")])
    assert [row.replace("'", "") for kind, row in read if kind == "code"] == [
        "Use:", "```py", "x = 1", "```", "then"
    ]  # fmt: skip
    assert read[-1] == ("text", "end")


def test_a_line_of_9000_characters_arrives_whole() -> None:
    assert "".join(split("x" * 9_000)) == "x" * 9_000


@pytest.mark.parametrize("shift", range(-12, 13))
@pytest.mark.parametrize("words", ["x", "x" * 600 + " "])
def test_a_line_near_the_limit_gets_no_break_inside_of_a_message(words: str, shift: int) -> None:
    line = (words * LIMIT)[: LIMIT + shift]
    plain = split(line)
    code = split(f"```py\n{line}\n```")

    assert "".join(plain).replace(" ", "") == line.replace(" ", "")
    assert not [part for part in plain if "\n" in part]
    assert [part.count("\n") for part in code] == [2] * len(code)
    assert max(map(len, plain + code)) <= LIMIT


@pytest.mark.parametrize("count", [999, 1_000, 1_001, 1_500, 5_000])
def test_a_line_is_cut_by_units_of_which_an_emoji_has_two(count: int) -> None:
    parts = split("😀" * count)

    assert "".join(parts) == "😀" * count
    assert max(map(utf16_length, parts)) <= LIMIT


@pytest.mark.parametrize(
    "token",
    [
        "<@123456789012345678>",
        "<:party:123456789012345678>",
        "https://example.com/a-b-c",
        "[a](https://b.c)",
    ],
)
def test_a_mention_a_link_and_an_emoji_are_not_cut_in_two(token: str) -> None:
    for shift in range(40):
        text = "x" * (LIMIT - 60 + shift) + token + "y" * 200
        assert any(token in part for part in split(text))


@given(st.integers(0, 40))
def test_what_is_one_character_to_a_reader_is_not_cut(shift: int) -> None:
    for whole in ("👩‍👩‍👧‍👦", "🇩🇪", "👍🏽", "e\u0301", "1️⃣"):
        text = "x" * shift + whole * 400
        for part in split(text, 200):
            assert part.replace("x", "").replace(whole, "") == ""


@pytest.mark.parametrize("text", ["", "  \n\t ", "\n\n", "\x1b[31m\x1b[0m"])
def test_nothing_to_show_is_no_message(text: str) -> None:
    assert split(text) == []


def test_colour_codes_and_control_characters_are_left_out() -> None:
    assert clean("\x1b[1;31mred\x1b[0m\x07 \x1b]8;;http://x\x07link\x00\r\nnext\rlast") == (
        "red link\nnext\nlast"
    )


@pytest.mark.parametrize(
    "given_title, shown",
    [
        ("a\nb\t c", "a b c"),
        ("   ", "session"),
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 99 + "…"),
        ("🎉" * 51, "🎉" * 49 + "…"),
    ],
)
def test_a_title_has_one_line_of_1_to_100_units(given_title: str, shown: str) -> None:
    assert title(given_title) == shown
    assert 1 <= utf16_length(title(given_title)) <= 100
