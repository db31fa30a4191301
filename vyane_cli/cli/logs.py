"""`vyane logs`: what a spawned worker printed."""

import sys
from typing import Annotated

import typer

from vyane_cli.children.logs import show_logs
from vyane_cli.cli.context import state_of


def command(
    context: typer.Context,
    worker: Annotated[str, typer.Argument(help="A spawned worker.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as it grows, until the worker has ended.")
    ] = False,
) -> None:
    """Show what a spawned worker printed. Its errors go to standard error."""

    def show(errors: bool, data: bytes) -> None:
        stream = sys.stderr if errors else sys.stdout
        stream.buffer.write(data)
        stream.flush()

    show_logs(state_of(context).runtime, worker, show, follow=follow)
