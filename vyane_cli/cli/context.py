"""What a command is given: the runtime, and how to show a result."""

import sys
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TypeVar

import typer

from vyane_cli import channels
from vyane_cli.cli.render import machine
from vyane_cli.home import Runtime
from vyane_cli.hosts import claude_code, generic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.cli.render.human import Screen


Item = TypeVar("Item")


class State:
    """Built once by the root command, and passed down in the context."""

    def __init__(self, home: str, as_json: bool) -> None:
        self.home, self.as_json = home, as_json

    @cached_property
    def runtime(self) -> Runtime:
        """The world of this process."""
        hosts = {host.NAME: host for host in (claude_code, generic)}
        return Runtime(self.home, hosts=hosts, channels=channels.ADAPTERS)

    @cached_property
    def screen(self) -> "Screen":
        """Where people read. Rich is imported here and nowhere else."""
        from vyane_cli.cli.render.human import Screen

        return Screen()

    def show(self, data: object, human: "Callable[[Screen], None]") -> None:
        """Print a result: the thing itself as one JSON document, or words for a person."""
        if self.as_json:
            print(machine.document(data))
        else:
            human(self.screen)

    def stream(self, items: Iterable[Item], human: "Callable[[Screen, Item], None]") -> None:
        """Print results as they come, one a line."""
        for item in items:
            if self.as_json:
                print(machine.line(item), flush=True)
            else:
                human(self.screen, item)
                sys.stdout.flush()


def state_of(context: typer.Context) -> State:
    """The state of a command's context."""
    state = context.find_root().obj
    assert isinstance(state, State)
    return state
