"""`vyane watch`: read what a session did, to the end or as it happens."""

import sys
from typing import Annotated

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen
from vyane_cli.cli.render.story import tell_event
from vyane_cli.history.queries import Mode, check_watch, watch
from vyane_cli.history.story import CaughtUp, TimelineEvent
from vyane_cli.kernel.durations import parse_duration_s


def command(
    context: typer.Context,
    session: Annotated[
        str, typer.Argument(help="Worker (name, id or its beginning) or vs-…; else your own.")
    ] = "",
    history: Annotated[bool, typer.Option("--history", help="What is there, then end.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="What is there, one caught-up mark, then what comes.")
    ] = False,
    tail: Annotated[bool, typer.Option("--tail", help="Only what comes.")] = False,
    after: Annotated[str, typer.Option(help="Go on after this event: its cursor.")] = "",
    consumer: Annotated[
        str, typer.Option(help="Go on where this name was; its cursor is kept for it.")
    ] = "",
    reset: Annotated[str, typer.Option(help="Begin anew: earliest or latest.")] = "",
    kind: Annotated[list[str] | None, typer.Option(help="Only this kind; may be repeated.")] = None,
    category: Annotated[str, typer.Option(help="Only this family, such as tool or error.")] = "",
    turn: Annotated[str, typer.Option(help="Only this turn: its id or its number.")] = "",
    since: Annotated[str, typer.Option(help="Only what is younger than this, such as 2h.")] = "",
) -> None:
    """Read a session's timeline: --history, --follow or --tail.

    With --consumer it follows from where that consumer was, unless --history ends it.
    """
    state = state_of(context)
    given = ((Mode.HISTORY, history), (Mode.FOLLOW, follow), (Mode.TAIL, tail))
    modes = tuple(str(mode) for mode, on in given if on)
    age_s = parse_duration_s("since", since) if since else 0.0
    wanted = check_watch(
        modes,
        after=after,
        consumer=consumer,
        reset=reset,
        kinds=tuple(kind or ()),
        category=category,
        turn=turn,
        since=state.runtime.clock().at - age_s if age_s else 0.0,
    )
    if consumer and not modes:
        print(f"vyane: following as consumer {consumer}", file=sys.stderr)

    def human(screen: Screen, item: TimelineEvent | CaughtUp) -> None:
        screen.say(tell_event(item), "dim" if isinstance(item, CaughtUp) else "")

    out = None if wanted.mode is Mode.HISTORY else _descriptor()
    state.stream(watch(state.runtime, session, wanted, out=out), human)


def _descriptor() -> int | None:
    """Standard output, so that a watch ends when nobody reads it any more."""
    try:
        return sys.stdout.fileno()
    except (OSError, ValueError):
        return None
