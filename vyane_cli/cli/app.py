"""Entry point for people: the Typer app, which turns every VyaneError into an exit code.

A command's module (`cli/*.py`) is imported when the command is called, so that start-up costs what
this command needs and not what all commands need.
"""

import importlib
import inspect
import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup

from vyane_cli import __version__
from vyane_cli.cli import streams
from vyane_cli.cli.context import CommandState, refuse_empty
from vyane_cli.cli.render import machine
from vyane_cli.errors import ExitCode, InvalidInputError, OutputError, VyaneError, shortened
from vyane_cli.home import accelerate


class Verb(NamedTuple):
    """One command: its module, its name in the module, and its heading in the help."""

    module: str
    name: str
    panel: str


MESSAGES, SESSIONS, PROJECTS = "Messages", "Sessions", "Projects"
SETUP = "Set up and look after"
PLACES = "Where people follow sessions"

COMMANDS: dict[str, Verb] = {
    "send": Verb("message", "send_command", MESSAGES),
    "reply": Verb("message", "reply_command", MESSAGES),
    "relay": Verb("message", "relay_command", MESSAGES),
    "inbox": Verb("inbox", "inbox_command", MESSAGES),
    "show": Verb("inbox", "show_command", MESSAGES),
    "why": Verb("inbox", "why_command", MESSAGES),
    "status": Verb("workers", "status_command", SESSIONS),
    "workers": Verb("workers", "workers_app", SESSIONS),
    "topology": Verb("workers", "topology_command", SESSIONS),
    "spawn": Verb("spawn", "spawn_command", SESSIONS),
    "wait": Verb("spawn", "wait_command", SESSIONS),
    "report": Verb("spawn", "report_command", SESSIONS),
    "logs": Verb("spawn", "logs_command", SESSIONS),
    "takeover": Verb("takeover", "takeover_command", SESSIONS),
    "cancel": Verb("takeover", "cancel_command", SESSIONS),
    "project": Verb("project", "project_app", PROJECTS),
    "task": Verb("task", "task_app", PROJECTS),
    "taskgraph": Verb("task", "taskgraph_app", PROJECTS),
    "goal": Verb("project", "goal_app", PROJECTS),
    "need-user": Verb("need_user", "need_user_app", PROJECTS),
    "timeline": Verb("timeline", "timeline_app", SESSIONS),
    "watch": Verb("timeline", "watch_command", SESSIONS),
    "turn": Verb("timeline", "turn_app", SESSIONS),
    "bind": Verb("bind", "bind_command", PLACES),
    "unbind": Verb("bind", "unbind_command", PLACES),
    "bindings": Verb("bind", "bindings_app", PLACES),
    "route": Verb("bind", "route_command", PLACES),
    "mirror": Verb("mirror", "mirror_app", PLACES),
    "wake": Verb("round", "wake_command", PROJECTS),
    "schedule": Verb("round", "schedule_app", PROJECTS),
    "init": Verb("setup", "init_command", SETUP),
    "hooks": Verb("hooks", "hooks_app", SETUP),
    "doctor": Verb("doctor", "doctor_command", SETUP),
    "config": Verb("setup", "config_app", SETUP),
    "gc": Verb("doctor", "gc_command", SETUP),
    "demo": Verb("demo", "demo_command", SETUP),
    "completion": Verb("setup", "completion_command", SETUP),
    "describe": Verb("setup", "describe_command", SETUP),
    "tick": Verb("hooks", "tick_command", SETUP),
    "uninstall": Verb("setup", "uninstall_command", SETUP),
}


MEANT = {
    "help": "--help", "version": "--version",
    "list": "workers", "ls": "workers", "ps": "workers", "sessions": "workers",
    "install": "hooks install", "setup": "hooks install", "connect": "hooks install",
    "mail": "inbox", "read": "inbox", "messages": "inbox",
    "kill": "cancel", "stop": "cancel",
}  # fmt: skip
"""Words that other programs use, and the command to suggest for each."""
NEAR = 0.6
"""Least similarity (0 to 1) at which a command is suggested for an unknown word."""


class LazyGroup(TyperGroup):
    """The root group: commands by name, each imported on first use."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all command names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | TyperGroup | None:
        """Import the command from its module and return it; None for an unknown name."""
        verb = COMMANDS.get(cmd_name)
        if verb is None:
            return None
        found = getattr(importlib.import_module(f"vyane_cli.cli.{verb.module}"), verb.name)
        command: TyperCommand | TyperGroup
        if isinstance(found, typer.Typer):
            command = typer.main.get_group(found)
        else:
            lone = typer.Typer(add_completion=False)
            lone.command(cmd_name, context_settings={"help_option_names": ["-h", "--help"]})(found)
            command = cast("TyperCommand", typer.main.get_command(lone))
        command.name = cmd_name
        command.rich_help_panel = verb.panel
        fill(command)
        if isinstance(command, TyperGroup):
            if command.invoke_without_command:
                command.subcommand_metavar = "[COMMAND] [ARGS]..."
            if ctx.params.get("as_json"):
                command.no_args_is_help = False  # help is not JSON, but an error is
        return cast("TyperCommand | TyperGroup", refuse_empty(command))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the first word names.

        Raises InvalidInputError for an unknown word, with the most similar commands as a hint.
        """
        name = args[0]
        if name not in COMMANDS:
            import difflib

            close = [MEANT[name]] if name in MEANT else []
            close = close or difflib.get_close_matches(name, list(COMMANDS), 2, NEAR)
            near = " or ".join(f"`vyane {one}`" for one in close)
            hint = f"did you mean {near}?" if near else "see `vyane --help`"
            raise InvalidInputError("command", name, "a command of vyane", hint=hint, slug="usage")
        return super().resolve_command(ctx, args)


def fill(command: Any) -> None:
    """Join the lines of each paragraph in the help of a command and its subcommands.

    A terminal wraps the paragraphs. A list of commands shows the first sentence of each.
    """
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(one.split()) for one in paragraphs)
    command.short_help = re.split(r"(?<=\.) ", command.help.split("\n\n")[0], maxsplit=1)[0]
    for below in getattr(command, "commands", {}).values():
        fill(below)


app = typer.Typer(
    cls=LazyGroup,
    name="vyane",
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Coding-agent sessions on one machine, and the person who runs them, work together: "
    "messages that survive crashes, sessions that wake, a record of everything.",
    epilog="`vyane COMMAND --help` shows more. `--json` and `--home` may stand anywhere.",
)


def _version(value: bool) -> None:
    if value:
        print(f"vyane {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    home: Annotated[
        str, typer.Option(help="Folder of the state. Else $VYANE_HOME, else ~/.config/vyane.")
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document, for programs.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Build what every command needs."""
    context.obj = CommandState(home, as_json)
    if context.invoked_subcommand is None:
        from vyane_cli.cli import workers

        workers.overview(context)


def hoist(words: Sequence[str]) -> list[str]:
    """Return the words with `--json` and `--home DIR` moved to the front, up to a `--`."""
    first: list[str] = []
    rest: list[str] = []
    waiting = False
    for position, word in enumerate(words):
        if waiting:
            first.append(word)
            waiting = False
        elif word == "--":
            rest += words[position:]
            break
        elif word == "--json" or word.startswith("--home="):
            first.append(word)
        elif word == "--home":
            first.append(word)
            waiting = True
        else:
            rest.append(word)
    return first + rest


def main(words: Sequence[str] | None = None) -> None:
    """Run a command and end the process with its exit code."""
    streams.prepare()
    accelerate()
    given = hoist(sys.argv[1:] if words is None else words)
    sys.exit(run(given))


def run(words: list[str]) -> int:
    """Run a command. Return its exit code. Every error becomes one clear text on stderr."""
    options = words[: words.index("--")] if "--" in words else words
    as_json = "--json" in options
    code = _run(words, as_json)
    lost = streams.finish()
    if not lost:
        return code
    error = OutputError(lost)
    complain(as_json, error.slug, error.message, error.hint, error.exit_code)
    return code or error.exit_code


def _run(words: list[str], as_json: bool) -> int:
    try:
        command = refuse_empty(typer.main.get_command(app))
        result: Any = command.main(args=words, prog_name="vyane", standalone_mode=False)
        return int(result) if isinstance(result, int) else ExitCode.DONE
    except VyaneError as error:
        return complain(as_json, error.slug, error.message, error.hint, error.exit_code, error)
    except typer.Exit as error:
        return error.exit_code
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # Typer has already printed the help
            return ExitCode.INVALID_INPUT
        message = shortened(" ".join(error.format_message().split()), 300)
        hint = _usage_hint(message, getattr(error, "ctx", None), words)
        return complain(as_json, "usage", message, hint, ExitCode.INVALID_INPUT)
    except (typer.Abort, KeyboardInterrupt):
        if sys.stderr.isatty():
            print(file=sys.stderr)  # the terminal shows ^C: the prompt gets a line of its own
        return 130
    except BrokenPipeError:  # `vyane inbox | head`: a reader that left early is not an error
        return int(ExitCode.DONE)
    except SystemExit as error:  # Typer raises it for a broken pipe in the middle of a stream
        if isinstance(error.__context__, BrokenPipeError):
            return int(ExitCode.DONE)
        raise
    except Exception as error:
        if isinstance(error, OSError) and streams.refused():
            return int(ExitCode.DONE)  # `run` reports the failed output
        if isinstance(error, FileNotFoundError) and not _has_folder():
            said, hint = "the working folder was removed", "go to a folder that is there"
            return complain(as_json, "invalid_input", said, hint, ExitCode.INVALID_INPUT)
        if os.environ.get("VYANE_DEBUG"):
            raise
        text = f"{type(error).__name__}: {error}"
        hint = "this is a fault of vyane's; VYANE_DEBUG=1 shows where"
        return complain(as_json, "internal", text, hint, ExitCode.INTERNAL)


def _has_folder() -> bool:
    """Return whether the working folder still exists."""
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _usage_hint(message: str, context: Any, words: list[str]) -> str:
    known = next((f"vyane {word}" for word in words if word in COMMANDS), "vyane")
    page = f"see `{context.command_path if context else known} --help`"
    if message.startswith("Got unexpected extra argument"):
        return f"a text of several words needs quotes; {page}"
    return page


def complain(
    as_json: bool, slug: str, message: str, hint: str, code: int, error: VyaneError | None = None
) -> int:
    """Print an error and the next step on stderr. Return `code`, even if the print fails."""
    message_id = getattr(error, "message_id", "")
    try:
        if as_json:
            body: dict[str, Any] = {"code": slug, "message": message, "hint": hint}
            if message_id:
                body["id"] = message_id
            print(machine.document({"error": body}), file=sys.stderr)
        else:
            from vyane_cli.cli.render import human

            human.complain(message, hint, message_id)
    except OSError:
        streams.discard(2)
    return int(code)
