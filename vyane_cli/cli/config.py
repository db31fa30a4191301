"""`vyane config`: read and change settings."""

from typing import Annotated

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen
from vyane_cli.setup.settings import get_setting, list_settings, set_setting

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Read and change settings (config.toml).",
)


@app.command("list")
def list_command(context: typer.Context) -> None:
    """Every key with its value, and whether that is the default."""
    state = state_of(context)
    rows = list_settings(state.runtime)

    def human(screen: Screen) -> None:
        shown = [
            (r.key, typed(r.value), "" if r.value == r.default else "set", r.doc) for r in rows
        ]
        if not screen.narrow:
            screen.table(("key", "value", "", "meaning"), shown)
            return
        for key, value, changed, doc in shown:
            screen.say(f"{key} = {value}", "bold" if changed else "")
            screen.pairs([("   ", doc)])

    state.show(rows, human)


@app.command("get")
def get_command(
    context: typer.Context, key: Annotated[str, typer.Argument(help="Such as language.")]
) -> None:
    """The value in force of one key."""
    state = state_of(context)
    value = get_setting(state.runtime, key)
    state.show({"key": key, "value": value}, lambda screen: screen.say(typed(value)))


@app.command("set")
def set_command(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="Such as delivery.too_soon_s.")],
    value: Annotated[str, typer.Argument(help="The value; lists: comma-separated.")],
) -> None:
    """Set one key. Comments and order of the file stay."""
    state = state_of(context)
    kept = set_setting(state.runtime, key, value)
    state.show({"key": key, "value": kept}, lambda screen: screen.say(f"{key} = {typed(kept)}"))


def typed(value: object) -> str:
    """A value as `config set` takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
