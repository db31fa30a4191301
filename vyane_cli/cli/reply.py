"""`vyane reply`: answer a message."""

from typing import Annotated

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.message import read_text, show_sent
from vyane_cli.delivery.reply import reply
from vyane_cli.mail.send import Draft


def command(
    context: typer.Context,
    message: Annotated[str, typer.Argument(help="The message's id, or six characters of it.")],
    text: Annotated[str, typer.Argument(help="The answer; `-` reads it from standard input.")],
    idempotency_key: Annotated[
        str, typer.Option(help="The same key again stores nothing twice.")
    ] = "",
) -> None:
    """Answer a message: to its sender, in its chain."""
    state = state_of(context)
    draft = Draft("", read_text(text), idempotency_key=idempotency_key or None)
    show_sent(state, reply(state.runtime, message, draft))
