"""`vyane init`, `uninstall`, `config`, `completion` and `describe`."""

import os
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from vyane_cli import __version__
from vyane_cli.cli.context import CommandState, state_of
from vyane_cli.cli.render.human import Screen, safe, shorten
from vyane_cli.errors import EXIT_CODES, InvalidInputError
from vyane_cli.hosts import claude_settings
from vyane_cli.kernel.config import every_key
from vyane_cli.mail.message import DIRECTIONS, PAYLOADS, Lane, MessageKind, MessageStatus
from vyane_cli.sessions.authority import require_person
from vyane_cli.sessions.identity import whoami
from vyane_cli.setup.home import initialise, remove_all, script
from vyane_cli.setup.settings import get_setting, list_settings, set_setting


def init_command(context: typer.Context) -> None:
    """Make the state folder. Twice is harmless."""
    state = state_of(context)
    made = initialise(state.home)

    def human(screen: Screen) -> None:
        word = "made" if made.created else "there already"
        screen.say(f"state folder {made.home}: {word}")
        screen.say("next: vyane hooks install", "dim")

    state.show(made, human)


def uninstall_command(
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
    home = state.home
    require_person(home, whoami(home), "uninstall vyane")
    if purge and not yes:
        _ask(state, home.layout.root)
    done = remove_all(home, claude_settings, os.getcwd(), purge=purge)

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


def _ask(state: CommandState, root: str) -> None:
    sure = False
    if not state.as_json:
        try:
            sure = typer.confirm(f"remove {root} with every message in it?")
        except typer.Abort as error:  # no answer (end of input), or Ctrl-C
            if isinstance(error.__context__, KeyboardInterrupt):
                raise
            print(flush=True)
    if not sure:
        hint = "without a question: vyane uninstall --purge --yes"
        raise InvalidInputError(
            "yes", "", "given: nothing was removed", missing=True, hint=hint, slug="confirm"
        )


config_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Read and change settings (config.toml).",
)


@config_app.command("list")
def list_command(context: typer.Context) -> None:
    """Every key with its value, and whether that is the default."""
    state = state_of(context)
    rows = list_settings(state.home)

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


@config_app.command("get")
def get_command(
    context: typer.Context, key: Annotated[str, typer.Argument(help="Such as language.")]
) -> None:
    """The value in force of one key."""
    state = state_of(context)
    value = get_setting(state.home, key)
    state.show({"key": key, "value": value}, lambda screen: screen.say(typed(value)))


@config_app.command("set")
def set_command(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="Such as delivery.too_soon_s.")],
    value: Annotated[str, typer.Argument(help="The value; lists: comma-separated.")],
) -> None:
    """Set one key. Comments and order of the file stay."""
    state = state_of(context)
    kept = set_setting(state.home, key, value)
    state.show({"key": key, "value": kept}, lambda screen: screen.say(f"{key} = {typed(kept)}"))


def typed(value: object) -> str:
    """Return a value in the form that `config set` accepts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


class Shell(StrEnum):
    """Shells that have a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion_command(
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


def describe_command(
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
                for kind in MessageKind
            },
            "lanes": [str(lane) for lane in Lane],
            "statuses": [str(status) for status in MessageStatus],
            "settings": {
                key: {"default": known.default, "doc": known.doc}
                for key, known in every_key(state.home.channel_keys).items()
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
                f"\n  {kind}: payload {', '.join(PAYLOADS[kind]) or 'free'}" for kind in MessageKind
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
