"""`vyane timeline`: what a session did: as a story, event by event, checked, exported, deleted."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from vyane_cli.cli import watch
from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, counted, safe
from vyane_cli.cli.render.story import tell_chapter, tell_markdown
from vyane_cli.errors import InvalidInputError
from vyane_cli.history.delete import DeletedTimeline, delete_timeline
from vyane_cli.history.export import FORMATS, WrittenExport, export_timeline, write_whole
from vyane_cli.history.show import show_timeline
from vyane_cli.history.verify import verify_timeline
from vyane_cli.upkeep.purge import delete_and_purge

READ = "read"


class ReadByDefault(TyperGroup):
    """`vyane timeline W --history` is `vyane watch W --history`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the reading command first, unless a command or a call for help is there."""
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = [READ, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=ReadByDefault,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What a session did. `vyane timeline W --history`, `--follow` and `--tail` read it event "
    "by event, as `vyane watch` does.",
)
app.command(READ, hidden=True)(watch.command)

Who = Annotated[
    str, typer.Argument(help="Worker (name, id or its beginning) or vs-…; else your own.")
]


@app.command("show")
def show_command(
    context: typer.Context,
    session: Who = "",
    turns: Annotated[int, typer.Option(help="How many of the last turns.", min=1)] = 10,
) -> None:
    """Tell the last turns: who asked, which tools, what was delivered, how each ended."""
    state = state_of(context)
    data = show_timeline(state.runtime, session, turns)

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


@app.command("verify")
def verify_command(context: typer.Context, session: Who = "") -> None:
    """Check every line. Exit 7 names the file, the line and what is wrong with it."""
    state = state_of(context)
    if state.as_json:
        state.show(verify_timeline(state.runtime, session), lambda screen: None)
        return
    with state.screen.progress("checking") as progress:
        data = verify_timeline(state.runtime, session, progress)

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


@app.command("export")
def export_command(
    context: typer.Context,
    session: Who = "",
    form: Annotated[str, typer.Option("--format", help=", ".join(FORMATS))] = "jsonl",
    output: Annotated[str, typer.Option(help="A file; else standard output.")] = "",
) -> None:
    """Write the whole timeline: its events, the story in Markdown, or OpenTelemetry's JSON."""
    state = state_of(context)
    pieces: Iterator[str] = export_timeline(state.runtime, session, form, tell_markdown)
    if not output or output == "-":
        for piece in pieces:
            print(piece, end="")
        return
    size = write_whole(output, pieces)
    written = WrittenExport(file=output, format=form, bytes=size)
    state.show(written, lambda screen: screen.say(f"{size} bytes in {safe(output)}"))


@app.command("delete")
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
        both = delete_and_purge(state.runtime, session, yes=yes)
        said = f"{_deleted(both.timeline)}, and the text of {counted(both.purged, 'message')}"
        state.show(both, lambda screen: screen.say(said))
        return
    done = delete_timeline(state.runtime, session, yes=yes)
    state.show(done, lambda screen: screen.say(_deleted(done)))


def _deleted(done: DeletedTimeline) -> str:
    return f"deleted {counted(done.events, 'event')} of {done.session}"
