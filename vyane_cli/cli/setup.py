"""`vyane init`: make the state folder and its commented settings."""

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen
from vyane_cli.setup.home import initialise


def command(context: typer.Context) -> None:
    """Make the state folder. Twice is harmless."""
    state = state_of(context)
    made = initialise(state.runtime)

    def human(screen: Screen) -> None:
        word = "made" if made.created else "there already"
        screen.say(f"state folder {made.home}: {word}")
        screen.say("next: vyane hooks install", "dim")

    state.show(made, human)
