"""`vyane cancel`: stop a worker and all that it spawned."""

from typing import Annotated

import typer

from vyane_cli.children.cancel import cancel
from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, safe
from vyane_cli.errors import ExitCode
from vyane_cli.kernel.durations import parse_duration_s


def command(
    context: typer.Context,
    worker: Annotated[str, typer.Argument(help="Worker: name, id or its beginning.")],
    reason: Annotated[str, typer.Option(help="Why; it is told.")] = "",
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="End its process, if it is proven to be its own: TERM, KILL after 5 s."
        ),
    ] = False,
    no_propagate: Annotated[
        bool, typer.Option("--no-propagate", help="Leave its children alone.")
    ] = False,
    wait: Annotated[
        str, typer.Option(help="How long to wait for the outcomes, such as 5s.")
    ] = "5s",
    operation: Annotated[
        str, typer.Option(help="An id of your own; the same again goes on where it ended.")
    ] = "",
    from_kind: Annotated[str, typer.Option(help="human, for a person's own script.")] = "",
) -> None:
    """Stop a worker and all that it spawned, children first.

    The next tool call of each does not run and its turn ends there. Independent children, with what
    is below them, are skipped and listed. Prints an outcome for each; the exit code is 5 while one
    is unknown or refused: the same command then goes on.
    """
    state = state_of(context)
    done = cancel(
        state.runtime,
        worker,
        reason=reason,
        force=force,
        propagate=not no_propagate,
        wait_s=parse_duration_s("wait", wait),
        operation=operation,
        from_kind=from_kind or None,
    )
    plan = done.cancel

    def human(screen: Screen) -> None:
        rows = [(safe(done.names.get(m, m)), m, o) for m, o in plan.outcomes.items()]
        rows += [(safe(done.names.get(m, m)), m, "skipped: independent") for m in plan.skipped]
        screen.table(("worker", "id", "outcome"), rows)
        if done.unknown:
            more = "" if plan.force else " (--force ends its process)"
            again = f"vyane cancel {plan.root} --operation {plan.operation}"
            screen.say(f"go on with: {again}{more}", "dim")

    state.show(done.report, human)
    if done.incomplete:
        raise typer.Exit(int(ExitCode.REFUSED))
