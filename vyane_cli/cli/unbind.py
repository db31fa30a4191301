"""`vyane unbind`: take a session's place away."""

from typing import Annotated

import typer

from vyane_cli.cli.bind import shown
from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen
from vyane_cli.conversations.binding_forms import render_binding
from vyane_cli.conversations.bindings_2 import unbind


def command(
    context: typer.Context,
    binding: Annotated[str, typer.Option("--id", help="Id of the binding, or its beginning.")] = "",
    session: Annotated[
        str, typer.Option(help="All bindings of this session: vs-…, or a worker's whole name.")
    ] = "",
    reason: Annotated[str, typer.Option(help="Why. Required; it is kept.")] = "",
) -> None:
    """End one binding, or all of a session. Prints the records that it ended.

    The next `vyane mirror push` says goodbye in the conversation; nothing of it is deleted.
    """
    state = state_of(context)
    ended = unbind(state.runtime, binding_id=binding, session=session, reason=reason)

    def human(screen: Screen) -> None:
        for one in ended:
            screen.say(f"unbound {one.id}: {shown(one)} ↔ {one.target_session}")
        if not ended:
            screen.say("nothing was bound")

    state.show([render_binding(one) for one in ended], human)
