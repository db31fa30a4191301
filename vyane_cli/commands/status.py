"""`vyane status`: everything at a glance."""

import typer

from vyane_cli.commands.state import state_of
from vyane_cli.commands.workers import show_workers
from vyane_cli.operations.overview import overview as look_over
from vyane_cli.render.human import Screen, ago, safe


def command(context: typer.Context) -> None:
    """Who is there, what waits, and what you are needed for."""
    overview(context)


def overview(context: typer.Context) -> None:
    """The same, also for `vyane` alone."""
    state = state_of(context)
    seen = look_over(state.runtime)

    def human(screen: Screen) -> None:
        if not seen["initialised"]:
            screen.heading("vyane: coding-agent sessions on this machine work together")
            screen.say("")
            screen.say("It is not set up yet. Two commands:")
            screen.say("  vyane init             make the state folder")
            screen.say("  vyane hooks install    connect Claude Code")
            screen.say("")
            screen.say("`vyane demo` shows what it does, `vyane --help` lists the commands.", "dim")
            return
        show_workers(screen, seen["workers"])
        if seen["pending"]:
            screen.say("")
            old = ago(seen["oldest_pending_at"])
            screen.say(f"{seen['pending']} pending; the oldest was sent {old}", "yellow")
        for need in seen["need_user"]:
            screen.say(f"you are needed: {safe(need['text'])}", "bold")
        if seen["quarantined"]:
            screen.say(f"{seen['quarantined']} damaged pieces are set aside: vyane doctor", "red")

    state.show(seen, human)
