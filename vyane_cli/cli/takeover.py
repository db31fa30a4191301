"""`vyane takeover` and `vyane cancel`: interrupt a session, or stop it with its children."""

from typing import Annotated

import typer

from vyane_cli.children.cancel import cancel
from vyane_cli.cli.context import state_of
from vyane_cli.cli.message import read_text, show_sent
from vyane_cli.cli.render.human import Screen, safe
from vyane_cli.delivery.takeover import resolve, take_over
from vyane_cli.errors import ExitCode, InvalidInputError
from vyane_cli.kernel.durations import parse_duration_s

INTERRUPTED = {
    "requested_by_hook": "its next tool call was stopped for it",
    "timed_out": "its next tool call will be stopped for it; none came so far",
    "escape_sent": "Escape was typed in its pane",
    "not_needed": "nothing ran that had to be interrupted",
    "none": "it was not interrupted",
}


def takeover_command(
    context: typer.Context,
    worker: Annotated[str, typer.Argument(help="Worker: name, id or its beginning.")],
    instruction: Annotated[
        str, typer.Argument(help="What it shall do; `-` reads it from standard input.")
    ] = "",
    interrupt: Annotated[
        str,
        typer.Option(
            help="hook: its next tool call does not run. tmux: one Escape to its proven pane. "
            "none: wait for its next turn."
        ),
    ] = "hook",
    timeout: Annotated[
        str, typer.Option(help="How long to wait until the session has it, such as 5s.")
    ] = "5s",
    resolve_id: Annotated[
        str,
        typer.Option("--resolve", help="A takeover that is decided: older work goes on."),
    ] = "",
    decision: Annotated[str, typer.Option(help="With --resolve: what was decided.")] = "",
    from_kind: Annotated[str, typer.Option(help="human, for a person's own script.")] = "",
) -> None:
    """Break into a session: it stops and reads your instruction.

    For the person alone; an agent that runs this is refused. Work that was sent before waits until
    the turn that read the takeover has ended. Prints `delivered` when the session has it,
    `pending` when it is stored and waits.
    """
    state = state_of(context)
    if resolve_id:
        if instruction:
            raise InvalidInputError(
                "instruction", instruction, "needed with --resolve", hint="say it with --decision"
            )
        text = read_text(decision)
        sent = resolve(state.home, worker, resolve_id, text, from_kind=from_kind or None)
        show_sent(state, sent)
        return
    if decision:
        raise InvalidInputError("decision", decision, "needed without --resolve MESSAGE")
    taken = take_over(
        state.home,
        worker,
        read_text(instruction),
        interrupt=interrupt,
        timeout_s=parse_duration_s("timeout", timeout),
        from_kind=from_kind or None,
    )
    message_id = taken.sent.message.id

    def human(screen: Screen) -> None:
        how = INTERRUPTED[taken.interrupt]
        screen.say(f"{taken.status}: {message_id} for {safe(taken.worker.name)}; {how}")
        if taken.typed:
            screen.say("what stood in its input box is in its timeline:", "dim")
            screen.say(safe(taken.typed))
        if taken.status == "pending":
            screen.say(f"it is stored and comes by itself: vyane why {message_id}", "dim")

    state.show(taken.report, human)


def cancel_command(
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
        state.home,
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
