"""A thread file that people edit by hand: what is new, what is not, what is nobody's."""

from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.channels.file.thread import extend, parse_thread, render_block

HEAD = "# t\n<!-- vyane:thread vs-1 open -->\n\n"


def texts(cursor: str, body: str) -> tuple[list[tuple[str, bool]], str]:
    found, onward = extend(cursor, parse_thread(HEAD + body).lines)
    return [(one.text, one.edited) for one in found], onward


lines = st.lists(
    st.sampled_from(["", "one", "two", "    indented", "> quote", "# heading", "```", "- [ ] x"])
    | st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=["Cs"]), max_size=9),
    max_size=8,
)


@given(lines, lines, st.text("ab> \n<!-", max_size=30))
def test_a_thread_comes_back_byte_for_byte_and_blocks_are_never_the_person_s(
    before, after, said
) -> None:
    text = HEAD + "".join(f"{one}\n" for one in before) + render_block(said, "n1")
    text += "".join(f"{one}\n" for one in after)
    thread = parse_thread(text)

    assert thread.render() == text
    if not any(one.startswith(">") for one in before + after):
        assert thread.holds("n1")
        assert [line.text for line in thread.lines] == [
            one for one in before + after if one.strip()
        ]


@given(st.lists(lines, max_size=5))
def test_lines_that_are_only_appended_come_once_each_and_in_order(batches) -> None:
    body, cursor, seen = "", "", []
    for number, batch in enumerate(batches):
        body += "".join(f"{one}\n" for one in batch) + render_block("an answer", f"n{number}")
        found, cursor = texts(cursor, body)
        assert not any(edited for _, edited in found)
        seen += [text for text, _ in found]
        assert texts(cursor, body)[0] == []

    wanted = [one for batch in batches for one in batch if one.strip()]
    if not any(one.startswith(">") for one in wanted):
        assert [one for text in seen for one in text.split("\n") if one.strip()] == wanted


def test_a_line_counts_once_its_end_is_written() -> None:
    found, cursor = texts("", "half a sent")
    assert found == []

    found, cursor = texts(cursor, "half a sentence\n")
    assert found == [("half a sentence", False)]
    assert texts(cursor, "half a sentence")[0] == []  # an editor that takes the last newline away


def test_blank_lines_and_indentation_inside_a_message_are_kept() -> None:
    found, _ = texts("", "\n```\n    code\n\n\nmore\n```\n\n")

    assert found == [("```\n    code\n\n\nmore\n```", False)]


def test_a_removed_line_says_nothing_and_the_rest_is_not_new() -> None:
    _, cursor = texts("", "one\ntwo\nthree\n")

    assert texts(cursor, "one\nthree\n")[0] == []
    assert texts(cursor, "")[0] == []


def test_a_changed_line_is_an_edit_of_its_message() -> None:
    block = render_block("ok", "n1")
    first, cursor = extend("", parse_thread(HEAD + "one\n" + block + "two\n").lines)
    again, _ = extend(cursor, parse_thread(HEAD + "uno\n" + block + "two\n").lines)

    assert [(one.id, one.text, one.edited) for one in again] == [(first[0].id, "uno", True)]


def test_a_moved_line_is_not_taken_in_again() -> None:
    _, cursor = texts("", "one\ntwo\nthree\n")

    assert texts(cursor, "two\nthree\none\n")[0] == []


def test_the_same_words_said_again_are_a_new_message() -> None:
    _, cursor = texts("", "yes\n" + render_block("sure?", "n1"))

    assert texts(cursor, "yes\n" + render_block("sure?", "n1") + "yes\n")[0] == [("yes", False)]


def test_a_block_that_lost_its_mark_is_a_quote_and_no_message() -> None:
    block = render_block("/takeover do as I say", "n1").split("\n", 1)[1]

    assert texts("", block)[0] == []


def test_a_mark_without_its_lines_hides_nothing_of_the_person_s() -> None:
    assert texts("", "> <!-- vyane:post n1 3 -->\nmine\n")[0] == [("mine", False)]


def test_a_block_that_was_cut_short_at_the_end_is_unfinished() -> None:
    block = render_block("one\ntwo\nthree", "n1")
    for size in range(1, len(block)):
        thread = parse_thread(HEAD + "mine\n" + block[:size])
        assert thread.holds("n1") == (size == len(block) - 1), size
        if not thread.holds("n1") and size >= len("> <!--"):
            assert thread.unfinished == len(block[:size].encode()), size
        assert [line.text for line in thread.lines if line.whole] == ["mine"]


def test_a_file_that_is_no_thread_is_all_the_person_s() -> None:
    found, _ = extend("", parse_thread("just\nnotes\n").lines)

    assert [one.text for one in found] == ["just\nnotes"]
