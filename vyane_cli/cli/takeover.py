"""`vyane takeover`: the person breaks into a session in the middle of its work."""

from typing import Annotated

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.message import read_text, show_sent
from vyane_cli.cli.render.human import Screen, safe
from vyane_cli.delivery.takeover import resolve, take_over
from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.durations import parse_duration_s

INTERRUPTED = {
    "requested_by_hook": "its next tool call was stopped for it",
    "timed_out": "its next tool call will be stopped for it; none came so far",
    "escape_sent": "Escape was typed in its pane",
    "not_needed": "nothing ran that had to be interrupted",
    "none": "it was not interrupted",
}


def command(
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
        sent = resolve(state.runtime, worker, resolve_id, text, from_kind=from_kind or None)
        show_sent(state, sent)
        return
    if decision:
        raise InvalidInputError("decision", decision, "needed without --resolve MESSAGE")
    taken = take_over(
        state.runtime,
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
