"""`vyane wait`: until children have ended."""

from typing import Annotated

import typer

from vyane_cli.children.wait import wait
from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen
from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.durations import parse_duration_s


def command(
    context: typer.Context,
    workers: Annotated[list[str], typer.Argument(help="Workers to wait for.")],
    some: Annotated[bool, typer.Option("--any", help="Until one of them has ended.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Until all of them have ended (the default).")
    ] = False,
    timeout: Annotated[str, typer.Option(help="How long at most, such as 10m.")] = "10m",
) -> None:
    """Wait until workers have ended, and show their results. Exit 5 when the time runs out.

    Results arrive by themselves: this is for scripts, and for an agent that has nothing else to do.
    """
    state = state_of(context)
    if some and every:
        raise InvalidInputError("wait", "--any --all", "one of the two")
    seconds = parse_duration_s("timeout", timeout)
    enough = 1 if some else len(workers)
    if state.as_json:
        rows = wait(state.runtime, workers, enough=enough, timeout_s=seconds)
    else:
        with state.screen.progress("waiting") as progress:
            rows = wait(state.runtime, workers, enough=enough, timeout_s=seconds, progress=progress)

    def human(screen: Screen) -> None:
        for row in rows:
            screen.heading(f"{row.name or row.worker}: {row.status or 'gone'}")
            if row.summary:
                screen.body(row.summary)

    state.show(rows, human)
