"""State that every command gets: the home, and the ways to show a result."""

import sys
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, TypeVar

import typer

from vyane_cli import channels
from vyane_cli.cli.render import machine
from vyane_cli.delivery import ring
from vyane_cli.errors import InvalidInputError
from vyane_cli.home import Home
from vyane_cli.hosts import claude_code, generic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.cli.render.human import Screen


Item = TypeVar("Item")


class CommandState:
    """State of one call of `vyane`, built by the root command and passed on in the context."""

    def __init__(self, home: str, as_json: bool) -> None:
        self.root, self.as_json = home, as_json

    @cached_property
    def home(self) -> Home:
        """Return the home, with the hosts, the channels and the ways to ring."""
        hosts = {host.NAME: host for host in (claude_code, generic)}
        return Home(self.root, hosts=hosts, channels=channels.ADAPTERS, ways=ring)

    @cached_property
    def screen(self) -> "Screen":
        """Return the screen that people read. `render.human` is imported here, on first use."""
        from vyane_cli.cli.render.human import Screen

        return Screen()

    def show(self, data: object, human: "Callable[[Screen], None]") -> None:
        """Print a result: `data` as one JSON document, or `human`'s words for a person."""
        if self.as_json:
            print(machine.document(data))
        else:
            human(self.screen)

    def stream(self, items: Iterable[Item], human: "Callable[[Screen, Item], None]") -> None:
        """Print each result when it arrives, one a line."""
        for item in items:
            if self.as_json:
                print(machine.line(item), flush=True)
            else:
                human(self.screen, item)
                sys.stdout.flush()


def state_of(context: typer.Context) -> CommandState:
    """Return the state that the root command put in the context."""
    state = context.find_root().obj
    assert isinstance(state, CommandState)
    return state


MAY_BE_EMPTY = frozenset({"to", "text", "summary", "value", "reason", "code"})
"""Parameters whose operation handles an empty value itself."""


def refuse_empty(command: Any) -> Any:
    """Make a command and its subcommands reject empty values. Return the command.

    Only values from the command line are checked, because an empty value there is usually an unset
    shell variable. Parameters in MAY_BE_EMPTY are left out.
    """
    for param in command.params:
        if param.name not in MAY_BE_EMPTY:
            param.callback = _checked(param.callback)
    for below in getattr(command, "commands", {}).values():
        refuse_empty(below)
    return command


def _checked(before: Callable[..., Any] | None) -> Callable[..., Any]:
    def callback(context: Any, param: Any, value: Any) -> Any:
        many = isinstance(value, (list, tuple))
        if "" in (value if many else (value,)):
            source = context.get_parameter_source(param.name)
            if source is not None and source.name == "COMMANDLINE":
                name = max(param.opts, key=len).lstrip("-").replace("_", "-")
                hint = "give it a value" if param.required else "leave it out, or give it a value"
                raise InvalidInputError(name, "", "given: it is empty", missing=True, hint=hint)
        return before(context, param, value) if before else value

    return callback
