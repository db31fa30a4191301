"""`vyane completion`: the script that completes commands and names in a shell."""

from enum import StrEnum
from typing import Annotated

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.setup.completion import script


class Shell(StrEnum):
    """Shells with a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def command(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(help="Your shell.")],
) -> None:
    """Print a completion script: commands, and names of what is there.

    bash: `eval "$(vyane completion bash)"` in ~/.bashrc. zsh: the same in ~/.zshrc.
    fish: `vyane completion fish > ~/.config/fish/completions/vyane.fish`.
    """
    text = script(shell)
    state = state_of(context)
    if state.as_json:
        state.show({"shell": str(shell), "script": text}, lambda _: None)
    else:
        print(text, end="")
