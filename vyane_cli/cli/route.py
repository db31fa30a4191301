"""`vyane route`: where the result of a session would go, and why."""

from typing import Annotated

import typer

from vyane_cli.channels.port import Conversation
from vyane_cli.channels.references import DEFAULT_ACCOUNT, parse_conversation
from vyane_cli.cli.bind import shown
from vyane_cli.cli.context import state_of
from vyane_cli.cli.message import parse_object
from vyane_cli.cli.render.human import Screen
from vyane_cli.conversations.route import find_destination
from vyane_cli.conversations.route_rules import TASK_COMPLETION


def command(
    context: typer.Context,
    session: Annotated[
        str, typer.Argument(help="Whose result: vs-…, or a worker's whole name.")
    ] = "",
    requester: Annotated[str, typer.Option(help="Id of the conversation that asked for it.")] = "",
    channel: Annotated[str, typer.Option(help="Channel of the requester.")] = "",
    account: Annotated[str, typer.Option(help="Account of the requester.")] = DEFAULT_ACCOUNT,
    ref: Annotated[str, typer.Option(help="The requester as one JSON object.")] = "",
    event: Annotated[str, typer.Option(help="What happened.")] = TASK_COMPLETION,
    fail_closed: Annotated[
        bool,
        typer.Option(
            "--fail-closed/--no-fail-closed",
            help="No binding is chosen that the requester does not match.",
        ),
    ] = True,
) -> None:
    """Say where the result of a session goes, if anywhere.

    It takes no text: choosing a place and making its content are two steps. What was chosen stays:
    a place that cannot be reached is tried again and never replaced.
    """
    state = state_of(context)
    asked = None
    if ref:
        asked = parse_conversation(parse_object("ref", ref), "ref")
    elif requester or channel:
        asked = Conversation(channel, account, requester)
    found = find_destination(state.runtime, session, asked, event=event, fail_closed=fail_closed)
    binding = found.binding

    def human(screen: Screen) -> None:
        where = f" → {shown(binding)}" if binding is not None else ""
        screen.say(f"{found.mode}: {found.reason}{where}")

    state.show(found, human)
