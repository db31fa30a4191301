"""`vyane need-user`: the list of things that wait for the person, with the reason and the ask."""

from typing import Annotated, Any

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, ago, counted, safe
from vyane_cli.cli.round import say_paused
from vyane_cli.projects.catalog import named
from vyane_cli.projects.need_user import ask_person, list_needs, resolve_needs
from vyane_cli.projects.schedule import paused

need_user_app = typer.Typer(
    add_completion=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What you are needed for: who waits, and why.",
)


@need_user_app.callback()
def shown(context: typer.Context) -> None:
    """What you are needed for: who waits, and why."""
    if context.invoked_subcommand is None:
        list_command(context)


@need_user_app.command("list")
def list_command(
    context: typer.Context,
    project: Annotated[str, typer.Option(help="Only those of a project.")] = "",
) -> None:
    """List what is open, the oldest first."""
    state = state_of(context)
    name = named(state.home, project).name if project else ""
    rows = list_needs(state.home, name)

    def human(screen: Screen) -> None:
        if not rows:
            screen.say("you are not needed")
            return
        for row in rows:
            show_need(screen, row)
        screen.say("done with one: vyane need-user resolve ID", "dim")

    state.show(rows, human)


def show_need(screen: Screen, row: dict[str, Any]) -> None:
    """Print one entry: who waits and where, the reason, and the ask."""
    where = f" in {row['project']}" if row["project"] else ""
    who = f"{safe(row['who'])} waits" if row["who"] else "open"
    screen.say(f"{row['id']}  {who}{where}, {ago(row['at'])}", "bold")
    screen.say(f"    {safe(row['text'])}")
    if row["ask"]:
        screen.say(f"    → {safe(row['ask'])}", "yellow")


@need_user_app.command("add")
def add_command(
    context: typer.Context,
    reason: Annotated[str, typer.Option(help="Why somebody waits.")],
    ask: Annotated[str, typer.Option(help="The one sentence, or act, that is needed.")],
    who: Annotated[str, typer.Option(help="Who waits; else the worker that runs this.")] = "",
    project: Annotated[
        str, typer.Option(help="The project that it is about; else the declared one of the folder.")
    ] = "",
) -> None:
    """Call the person. The same reason again adds nothing while it is open."""
    state = state_of(context)
    name = named(state.home, project).name if project else ""
    row = ask_person(state.home, reason, ask, who=who, project=name)
    state.show(row, lambda screen: show_need(screen, row))


@need_user_app.command("resolve")
def resolve_command(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Such as N3; several at once.")],
) -> None:
    """Say that something is done with: it leaves the list and the page."""
    state = state_of(context)
    rows = resolve_needs(state.home, ids)
    left = len(list_needs(state.home))
    waiting = paused(state.home, [row["project"] for row in rows])

    def human(screen: Screen) -> None:
        for row in rows:
            screen.say(f"{row['id']} is resolved: {safe(row['text'])}")
        screen.say(f"{counted(left, 'entry')} left" if left == 1 else f"{left} entries left", "dim")
        say_paused(screen, waiting)

    state.show({"resolved": rows, "left": left, "paused": waiting}, human)


@need_user_app.command("notify")
def notify_command(
    context: typer.Context,
    urls: Annotated[
        list[str] | None,
        typer.Option("--url", help="Where to, as an address of apprise's; else as it is set up."),
    ] = None,
) -> None:
    """Notify you of each entry that you were not notified of. A round does it by itself."""
    from vyane_cli.attention.notify import notify

    state = state_of(context)
    done = notify(state.home, urls or [])
    data = {"sent": list(done.sent), "failed": list(done.failed), "configured": done.configured}

    def human(screen: Screen) -> None:
        if not done.configured:
            screen.say("no address is set: vyane config set notify.urls URL, or VYANE_NOTIFY_URLS")
            return
        screen.say(f"sent: {', '.join(done.sent) or 'nothing'}")
        if done.failed:
            screen.say(f"failed: {', '.join(done.failed)}; the next round tries again", "red")

    state.show(data, human)
