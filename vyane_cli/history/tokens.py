"""Turn tokens: the opaque text that a producer needs to emit for one turn, and for no other."""

from __future__ import annotations

from typing import NamedTuple

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.opaque import seal, unseal

PREFIX = "vyt1."


class Token(NamedTuple):
    """The capability of one turn."""

    session: str
    turn: str
    seq: int
    """The seq of the turn's TurnStarted event, which locates it."""
    secret: str


def render_token(token: Token) -> str:
    """Return the text of a token, as a producer gets it."""
    return seal(PREFIX, (token.session, token.turn, str(token.seq), token.secret))


def parse_token(text: str) -> Token:
    """Return the token from its text; InvalidInputError (`unknown_turn`) for any other text."""
    fields = unseal(PREFIX, text)
    if fields is None or len(fields) != 4 or not fields[2].isdecimal():
        raise InvalidInputError(
            "token",
            text,
            "the token of a turn",
            slug="unknown_turn",
            hint="`vyane turn start` prints it",
        )
    return Token(fields[0], fields[1], int(fields[2]), fields[3])
