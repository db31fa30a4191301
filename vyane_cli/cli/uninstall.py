"""`vyane uninstall`: leave no trace, in the order that harms no open session."""

import os
from typing import Annotated

import typer

from vyane_cli.cli.context import State, state_of
from vyane_cli.cli.render.human import Screen, safe
from vyane_cli.cli.workers import shorten
from vyane_cli.errors import InvalidInputError
from vyane_cli.hosts import claude_settings
from vyane_cli.sessions.identity import require_person, whoami
from vyane_cli.setup.removal import remove_all


def command(
    context: typer.Context,
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove the state too: messages, timelines, everything.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Disconnect every host; with --purge remove the state too.

    The settings entries go first. Open sessions may call the guard for a moment longer, so the
    state goes two seconds later.
    """
    state = state_of(context)
    runtime = state.runtime
    require_person(runtime, whoami(runtime), "uninstall vyane")
    if purge and not yes:
        _ask(state, runtime.layout.root)
    done = remove_all(runtime, claude_settings, os.getcwd(), purge=purge)

    def human(screen: Screen) -> None:
        for path in done.settings:
            screen.say(f"{shorten(path)}: vyane's entries are out")
        for name in done.timers:
            screen.say(f"{safe(name)}: no timer runs rounds any more")
        if done.purged:
            screen.say(f"{shorten(done.home)}: removed")
        else:
            screen.say(f"the state stays in {shorten(done.home)}; --purge removes it", "dim")
        screen.say("the program itself: pip uninstall vyane (or pipx uninstall vyane)", "dim")

    state.show(done, human)


def _ask(state: State, root: str) -> None:
    sure = False
    if not state.as_json:
        try:
            sure = typer.confirm(f"remove {root} with every message in it?")
        except typer.Abort as error:  # nobody is there to answer, or Ctrl-C
            if isinstance(error.__context__, KeyboardInterrupt):
                raise
            print(flush=True)
    if not sure:
        hint = "without a question: vyane uninstall --purge --yes"
        raise InvalidInputError(
            "yes", "", "given: nothing was removed", missing=True, hint=hint, slug="confirm"
        )
