"""`vyane report`: a child's word to its parent."""

from typing import Annotated

import typer

from vyane_cli.commands.send import read_text, show_sent
from vyane_cli.commands.state import state_of
from vyane_cli.core.durations import parse_duration_s
from vyane_cli.errors import InvalidInputError
from vyane_cli.operations.report import report_long_running, report_progress, report_result
from vyane_cli.render.human import Screen, clock_time


def command(
    context: typer.Context,
    result: Annotated[
        str | None, typer.Option(help="The result; `-` reads it from standard input.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="The result is that it failed.")] = False,
    progress: Annotated[str | None, typer.Option(help="How far it is; wakes nobody.")] = None,
    long_running: Annotated[
        str | None, typer.Option(help="For so long silence is no sign of trouble, such as 2h.")
    ] = None,
) -> None:
    """Report to the parent, from inside a child: its result, progress, or a longer silence.

    A result is the last word: the child has ended with it, and a second one is refused.
    """
    state = state_of(context)
    given = [one for one in (result, progress, long_running) if one is not None]
    if len(given) != 1 or (failed and result is None):
        raise InvalidInputError(
            "report", ", ".join(given), "exactly one of --result, --progress, --long-running"
        )
    if progress is not None:
        show_sent(state, report_progress(state.runtime, read_text(progress)))
    elif long_running is not None:
        seconds = parse_duration_s("long-running", long_running)
        worker = report_long_running(state.runtime, seconds)
        until = worker.long_running_until or 0.0
        data = {"worker": worker.id, "long_running_until": until}
        state.show(data, lambda screen: screen.say(f"silence is expected to {clock_time(until)}"))
    else:
        settled = report_result(state.runtime, read_text(result or ""), failed=failed)
        child, message = settled
        sent = {
            "worker": child.id,
            "status": str(child.status),
            "message_id": message.id if message is not None else None,
        }

        def human(screen: Screen) -> None:
            screen.say(f"{child.name} is {child.status}; result {sent['message_id']} is stored")

        state.show(sent, human)
