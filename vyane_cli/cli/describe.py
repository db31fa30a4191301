"""`vyane describe`: the command line as data."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from vyane_cli import __version__
from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen
from vyane_cli.errors import EXIT_CODES, InvalidInputError
from vyane_cli.kernel.config import every_key
from vyane_cli.mail.message import DIRECTIONS, PAYLOADS, Kind, Lane, Status


def command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="One command; else everything.")] = "",
) -> None:
    """Print commands, kinds, settings and exit codes as data."""
    state = state_of(context)
    root = context.find_root()
    assert isinstance(root.command, TyperGroup)
    commands = {
        one: _command(root.command.get_command(root, one))
        for one in root.command.list_commands(root)
    }
    if name:
        if name not in commands:
            raise InvalidInputError("command", name, "one of " + ", ".join(commands))
        data: dict[str, Any] = {"name": name, **commands[name]}
    else:
        data = {
            "version": __version__,
            "commands": commands,
            "kinds": {
                str(kind): {
                    "payload": {
                        k: [t.__name__ for t in types] for k, types in PAYLOADS[kind].items()
                    },
                    "from": [str(relation) for relation in DIRECTIONS[kind]],
                }
                for kind in Kind
            },
            "lanes": [str(lane) for lane in Lane],
            "statuses": [str(status) for status in Status],
            "settings": {
                key: {"default": known.default, "doc": known.doc}
                for key, known in every_key(state.runtime.channel_keys).items()
            },
            "exit_codes": dict(EXIT_CODES),
        }

    def human(screen: Screen) -> None:
        shown = {name: commands[name]} if name else commands
        for one, about in shown.items():
            screen.heading(f"vyane {one}")
            screen.say(f"  {about['help']}")
            for option in about["params"]:
                screen.say(f"    {' '.join(option['names'])}  {option['help']}", "dim")
        if not name:
            kinds = "".join(
                f"\n  {kind}: payload {', '.join(PAYLOADS[kind]) or 'free'}" for kind in Kind
            )
            screen.say(f"kinds of messages (a * marks what is required):{kinds}")

    state.show(data, human)


def _command(one: Any) -> dict[str, Any]:
    if one is None:
        return {}
    data: dict[str, Any] = {
        "help": (one.help or "").strip(),
        "params": [
            {
                "names": list(param.opts) + list(param.secondary_opts),
                "kind": param.param_type_name,
                "required": param.required,
                "type": param.type.name,
                "default": param.default if not callable(param.default) else None,
                "help": getattr(param, "help", "") or "",
            }
            for param in one.params
            if "--help" not in param.opts
        ],
    }
    if isinstance(one, TyperGroup):
        data["commands"] = {name: _command(sub) for name, sub in one.commands.items()}
    return data
