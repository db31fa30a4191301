"""`vyane show`: one message, whole."""

from typing import Annotated

import typer

from vyane_cli.commands.state import state_of
from vyane_cli.core.mailbox import render_entry
from vyane_cli.core.messages import body_of
from vyane_cli.operations.lookup import find_message, whole_text
from vyane_cli.render.human import Screen, ago, clock_time


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
        state.show({"id": found.message.id, "text": text}, lambda screen: screen.body(text))
        return
    data = render_entry(found.entry)

    def human(screen: Screen) -> None:
        one = found.message
        rows = [
            ("id", one.id),
            ("from", f"{one.from_kind} {one.from_name} ({one.from_id})"),
            ("to", f"{one.to_kind} {one.to_id}"),
            ("kind", f"{one.kind}, lane {one.lane}"),
            ("sent", f"{clock_time(one.ts)} ({ago(one.ts)})"),
            ("status", data["status"]),
        ]
        for key in ("delivered_at", "consumed_at"):
            if data[key]:
                rows.append((key.removesuffix("_at"), clock_time(data[key])))
        for key in ("failure_reason", "parent_message_id", "correlation_id", "task_id"):
            if data[key]:
                rows.append((key.replace("_", " "), data[key]))
        screen.pairs(rows)
        screen.say("")
        screen.body(body_of(one))

    state.show(data, human)
