"""`vyane relay`: pass a text on to a child."""

from typing import Annotated

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.message import read_text, show_sent
from vyane_cli.delivery.reply import relay
from vyane_cli.mail.send import Draft


def command(
    context: typer.Context,
    child: Annotated[str, typer.Argument(help="A child's name, or the beginning of its id.")],
    text: Annotated[str, typer.Argument(help="The text; `-` reads it from standard input.")],
    idempotency_key: Annotated[
        str, typer.Option(help="The same key again stores nothing twice.")
    ] = "",
) -> None:
    """Pass a text on to a child; a person: to any worker."""
    state = state_of(context)
    draft = Draft(child, read_text(text), idempotency_key=idempotency_key or None)
    show_sent(state, relay(state.runtime, draft))
