"""`vyane timeline`, `watch` and `turn`: the record of a session, read and written."""

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from vyane_cli.cli.context import state_of
from vyane_cli.cli.message import parse_object
from vyane_cli.cli.render.human import Screen, counted, safe
from vyane_cli.cli.render.story import tell_chapter, tell_event, tell_markdown
from vyane_cli.errors import InvalidInputError
from vyane_cli.history.delete import DeletedTimeline, delete_timeline
from vyane_cli.history.export import FORMATS, WrittenExport, export_timeline, write_whole
from vyane_cli.history.producer import emit_event, finish_turn, start_turn
from vyane_cli.history.queries import WatchMode, check_watch, show_timeline, verify_timeline, watch
from vyane_cli.history.story import CaughtUp, TimelineEvent
from vyane_cli.kernel.durations import parse_duration_s
from vyane_cli.upkeep.purge import delete_and_purge

READ = "read"


class ReadByDefault(TyperGroup):
    """Group of `vyane timeline`, where `timeline W --history` runs `watch W --history`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the reading command first, unless the first word is a command or asks for help."""
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = [READ, *args]
        return super().parse_args(ctx, args)


timeline_app = typer.Typer(
    cls=ReadByDefault,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What a session did. `vyane timeline W --history`, `--follow` and `--tail` read it event "
    "by event, as `vyane watch` does.",
)

Who = Annotated[
    str, typer.Argument(help="Worker (name, id or its beginning) or vs-…; else your own.")
]


@timeline_app.command("show")
def show_command(
    context: typer.Context,
    session: Who = "",
    turns: Annotated[int, typer.Option(help="How many of the last turns.", min=1)] = 10,
) -> None:
    """Tell the last turns: who asked, which tools, what was delivered, how each ended."""
    state = state_of(context)
    data = show_timeline(state.home, session, turns)

    def human(screen: Screen) -> None:
        if not data.story:
            screen.say(f"{safe(data.name)} has done nothing yet", "dim")
            return
        screen.heading(f"{safe(data.name)}, {counted(data.turns, 'turn')}")
        if data.earlier:
            screen.say(f"{data.earlier} earlier ones: --turns {data.turns}", "dim")
        for chapter in data.story:
            for text, style in tell_chapter(chapter):
                screen.line(text, style)

    state.show(data, human)


@timeline_app.command("verify")
def verify_command(context: typer.Context, session: Who = "") -> None:
    """Check every line. Exit 7 names the file, the line and what is wrong with it."""
    state = state_of(context)
    if state.as_json:
        state.show(verify_timeline(state.home, session), lambda screen: None)
        return
    with state.screen.progress("checking") as progress:
        data = verify_timeline(state.home, session, progress)

    def human(screen: Screen) -> None:
        counts = ((data.events, "event"), (data.turns, "turn"), (data.bytes, "byte"))
        words = ", ".join(counted(number, noun) for number, noun in counts) + ": sound"
        screen.say(words, "green")
        if data.open:
            screen.say(f"turn {data.open} is open", "dim")
        if data.torn_bytes:
            torn = f"{data.torn_bytes} bytes of an append that a crash cut short are no event"
            screen.say(torn, "dim")

    state.show(data, human)


@timeline_app.command("export")
def export_command(
    context: typer.Context,
    session: Who = "",
    form: Annotated[str, typer.Option("--format", help=", ".join(FORMATS))] = "jsonl",
    output: Annotated[str, typer.Option(help="A file; else standard output.")] = "",
) -> None:
    """Write the whole timeline: its events, the story in Markdown, or OpenTelemetry's JSON."""
    state = state_of(context)
    pieces: Iterator[str] = export_timeline(state.home, session, form, tell_markdown)
    if not output or output == "-":
        for piece in pieces:
            print(piece, end="")
        return
    size = write_whole(output, pieces)
    written = WrittenExport(file=output, format=form, bytes=size)
    state.show(written, lambda screen: screen.say(f"{size} bytes in {safe(output)}"))


@timeline_app.command("delete")
def delete_command(
    context: typer.Context,
    session: Who = "",
    yes: Annotated[bool, typer.Option("--yes", help="Really delete it.")] = False,
    purge: Annotated[
        bool,
        typer.Option(
            "--purge-messages", help="Take the text out of the settled messages to it, too."
        ),
    ] = False,
) -> None:
    """Delete a timeline with its cursors and kept calls. Messages are kept."""
    state = state_of(context)
    if not session:
        raise InvalidInputError(
            "session", "", "given: a delete names what it deletes", missing=True
        )
    if purge:
        both = delete_and_purge(state.home, session, yes=yes)
        said = f"{_deleted(both.timeline)}, and the text of {counted(both.purged, 'message')}"
        state.show(both, lambda screen: screen.say(said))
        return
    done = delete_timeline(state.home, session, yes=yes)
    state.show(done, lambda screen: screen.say(_deleted(done)))


def _deleted(done: DeletedTimeline) -> str:
    return f"deleted {counted(done.events, 'event')} of {done.session}"


def watch_command(
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
    given = ((WatchMode.HISTORY, history), (WatchMode.FOLLOW, follow), (WatchMode.TAIL, tail))
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
        since=state.home.clock().at - age_s if age_s else 0.0,
    )
    if consumer and not modes:
        print(f"vyane: following as consumer {consumer}", file=sys.stderr)

    def human(screen: Screen, item: TimelineEvent | CaughtUp) -> None:
        screen.say(tell_event(item), "dim" if isinstance(item, CaughtUp) else "")

    out = None if wanted.mode is WatchMode.HISTORY else _descriptor()
    state.stream(watch(state.home, session, wanted, out=out), human)


def _descriptor() -> int | None:
    """Return the descriptor of standard output, so that a watch ends when its reader has gone."""
    try:
        return sys.stdout.fileno()
    except (OSError, ValueError):
        return None


turn_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Record the turns of an agent that has no hooks.",
)


@turn_app.command("start")
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
        state.home,
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


@turn_app.command("emit")
def emit_command(
    context: typer.Context,
    token: Annotated[str, typer.Argument(help="The token that `turn start` printed.")],
    kind: Annotated[str, typer.Argument(help="ToolObserved, ResultObserved, Diagnostic …")],
    payload: Annotated[str, typer.Option(help="What it carries, as a JSON object.")] = "{}",
) -> None:
    """Record something that happened in the turn."""
    state = state_of(context)
    data = emit_event(state.home, token, kind, parse_object("payload", payload), flush=True)
    state.show(data, lambda screen: screen.say(tell_event(data)))


@turn_app.command("finish")
def finish_command(
    context: typer.Context,
    token: Annotated[str, typer.Argument(help="The token that `turn start` printed.")],
    outcome: Annotated[str, typer.Option(help="success, error, cancelled or interrupted.")],
    code: Annotated[str, typer.Option(help="Why, as one stable word, such as rate_limit.")] = "",
    text: Annotated[str, typer.Option(help="Why, for a person.")] = "",
) -> None:
    """Finish the turn. The same again is harmless; another outcome is refused."""
    state = state_of(context)
    data = finish_turn(state.home, token, outcome, code, text)
    state.show(data, lambda screen: screen.say(tell_event(data)))


timeline_app.command(READ, hidden=True)(watch_command)
