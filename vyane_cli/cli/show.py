"""`vyane show`: one message, whole."""

from typing import Annotated

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, ago, clock_time
from vyane_cli.mail.lookup import MessageText, ShownMessage, find_message, whole_text
from vyane_cli.mail.message import body_of


def command(
    context: typer.Context,
    message: Annotated[str, typer.Argument(help="The message's id, or six characters of it.")],
    full: Annotated[
        bool, typer.Option("--full", help="Only the text, whole: of a long result all of it.")
    ] = False,
) -> None:
    """Show a message with all its text. It settles nothing."""
    state = state_of(context)
    found = find_message(state.runtime, message)
    if full:
        text = whole_text(state.runtime, found.message)
        data = MessageText(id=found.message.id, text=text)
        state.show(data, lambda screen: screen.body(text))
        return
    entry = found.entry

    def human(screen: Screen) -> None:
        one = found.message
        rows = [
            ("id", one.id),
            ("from", f"{one.from_kind} {one.from_name} ({one.from_id})"),
            ("to", f"{one.to_kind} {one.to_id}"),
            ("kind", f"{one.kind}, lane {one.lane}"),
            ("sent", f"{clock_time(one.ts)} ({ago(one.ts)})"),
            ("status", entry.status),
        ]
        moments = (("delivered", entry.delivered_at), ("consumed", entry.consumed_at))
        rows += [(name, clock_time(at)) for name, at in moments if at]
        links = (
            ("failure reason", entry.failure_reason),
            ("parent message id", one.parent_message_id),
            ("correlation id", one.correlation_id),
            ("task id", one.task_id),
        )
        rows += [(name, value) for name, value in links if value]
        screen.pairs(rows)
        screen.say("")
        screen.body(body_of(one))

    state.show(ShownMessage(entry=entry), human)
