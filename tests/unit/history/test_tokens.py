"""The opaque token of a turn."""

import pytest

from vyane_cli.errors import InvalidInputError
from vyane_cli.history.tokens import Token, parse_token, render_token
from vyane_cli.timeline.cursors import Cursor, parse_cursor, render_cursor

CURSOR = Cursor("vs-0123456789ab", "a" * 32, 7, "00c0ffee")


def test_a_token_is_no_cursor_and_a_cursor_no_token() -> None:
    token = render_token(Token("vs-0123456789ab", "01" * 13, 1, "secret"))

    assert parse_token(token).secret == "secret"
    with pytest.raises(InvalidInputError) as caught:
        parse_token(render_cursor(CURSOR))
    assert caught.value.slug == "unknown_turn"
    with pytest.raises(InvalidInputError):
        parse_cursor(token)
