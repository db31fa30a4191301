"""The opaque token of a turn: what a producer needs to emit for that turn, and for no other."""

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
    """Of its TurnStarted: where to look for it."""
    secret: str


def render_token(token: Token) -> str:
    """The form that a producer is given."""
    return seal(PREFIX, (token.session, token.turn, str(token.seq), token.secret))


def parse_token(text: str) -> Token:
    """The token from its text; InvalidInputError (`unknown_turn`) when it is not one of ours."""
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
