"""`vyane turn`: the turns of an agent that has no hooks."""

from typing import Annotated

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.message import parse_object
from vyane_cli.cli.render.human import Screen
from vyane_cli.cli.render.story import tell_event
from vyane_cli.history.producer import emit_event, finish_turn, start_turn

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Record the turns of an agent that has no hooks.",
)


@app.command("start")
def start_command(
    context: typer.Context,
    session: Annotated[
        str, typer.Argument(help="Worker (name, id or its beginning) or vs-…; else your own.")
    ] = "",
    trigger: Annotated[
        str, typer.Option(help="What made it: producer, human, peer …")
    ] = "producer",
    prompt_chars: Annotated[
        int | None, typer.Option(help="How long its prompt is; the text itself is never kept.")
    ] = None,
    pid: Annotated[
        int, typer.Option(help="The process with which the turn ends; else the session's.")
    ] = 0,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Close an open turn that has no process first.")
    ] = False,
) -> None:
    """Start a turn. Its token is what `emit` and `finish` take."""
    state = state_of(context)
    data = start_turn(
        state.runtime,
        session,
        trigger=trigger,
        prompt_chars=prompt_chars,
        pid=pid,
        abandon=abandon,
    )

    def human(screen: Screen) -> None:
        screen.say(f"turn {data.event.turn_number} of {data.event.session}: {data.event.turn}")
        screen.say(data.token)

    state.show(data, human)


@app.command("emit")
def emit_command(
    context: typer.Context,
    token: Annotated[str, typer.Argument(help="The token that `turn start` printed.")],
    kind: Annotated[str, typer.Argument(help="ToolObserved, ResultObserved, Diagnostic …")],
    payload: Annotated[str, typer.Option(help="What it carries, as a JSON object.")] = "{}",
) -> None:
    """Record something that happened in the turn."""
    state = state_of(context)
    data = emit_event(state.runtime, token, kind, parse_object("payload", payload), flush=True)
    state.show(data, lambda screen: screen.say(tell_event(data)))


@app.command("finish")
def finish_command(
    context: typer.Context,
    token: Annotated[str, typer.Argument(help="The token that `turn start` printed.")],
    outcome: Annotated[str, typer.Option(help="success, error, cancelled or interrupted.")],
    code: Annotated[str, typer.Option(help="Why, as one stable word, such as rate_limit.")] = "",
    text: Annotated[str, typer.Option(help="Why, for a person.")] = "",
) -> None:
    """Finish the turn. The same again is harmless; another outcome is refused."""
    state = state_of(context)
    data = finish_turn(state.runtime, token, outcome, code, text)
    state.show(data, lambda screen: screen.say(tell_event(data)))
