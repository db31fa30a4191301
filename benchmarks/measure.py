"""Measurement of whole processes: CPU by wait4(2), children included; wall by a monotonic clock.

Commands are timed in turn, A B A B, so that other work on the machine affects all of them.
"""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class Command(NamedTuple):
    """A command to run: without a shell, standard input from a file, standard error dropped."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    stdin: str = os.devnull
    stdout: str = os.devnull


class Cost(NamedTuple):
    """The cost of one run of a command."""

    cpu_ms: float
    wall_ms: float
    status: int


class Series(NamedTuple):
    """A series of values of one kind, in the order of measurement."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """Return the median."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """Return the smallest value."""
        return min(self.values)

    @property
    def high(self) -> float:
        """Return the largest value."""
        return max(self.values)


class Timed(NamedTuple):
    """The costs of all runs of one command."""

    costs: tuple[Cost, ...]

    @property
    def cpu(self) -> Series:
        """Return the CPU times in ms."""
        return Series(tuple(cost.cpu_ms for cost in self.costs))

    @property
    def wall(self) -> Series:
        """Return the wall times in ms."""
        return Series(tuple(cost.wall_ms for cost in self.costs))


def start(command: Command, *, stdout: int | None = None) -> int:
    """Start a command. Return its pid. `stdout` is a descriptor that replaces the output file."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    out = (
        (os.POSIX_SPAWN_OPEN, 1, command.stdout, flags, 0o600)
        if stdout is None
        else (os.POSIX_SPAWN_DUP2, stdout, 1)
    )
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, command.stdin, os.O_RDONLY, 0),
        out,
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    argv = list(command.argv)
    return os.posix_spawnp(argv[0], argv, dict(command.env), file_actions=actions)


def run(command: Command, *, stdout: int | None = None) -> Cost:
    """Run a command to its end. Return its cost."""
    began = time.monotonic()
    pid = start(command, stdout=stdout)
    _, status, usage = os.wait4(pid, 0)
    wall_ms = (time.monotonic() - began) * 1000
    cpu_ms = (usage.ru_utime + usage.ru_stime) * 1000
    return Cost(cpu_ms, wall_ms, os.waitstatus_to_exitcode(status))


def run_together(commands: Sequence[Command]) -> float:
    """Run all commands at once. Return the wall time in ms from the first start to the last end."""
    began = time.monotonic()
    pids = [start(command) for command in commands]
    for pid in pids:
        os.wait4(pid, 0)
    return (time.monotonic() - began) * 1000


def alternate(
    commands: Sequence[Command],
    rounds: int,
    *,
    warm_up: int = 3,
    before: Callable[[Command], None] | None = None,
    after: Callable[[Command, Cost], None] | None = None,
) -> dict[str, Timed]:
    """Run the commands in turn, `rounds` times. Return the costs of each, by its name.

    The `warm_up` rounds do not count. `before` and `after` are called around each run, untimed.
    """
    costs: dict[str, list[Cost]] = {command.name: [] for command in commands}
    for number in range(-warm_up, rounds):
        for command in commands:
            if before is not None:
                before(command)
            cost = run(command)
            if after is not None:
                after(command, cost)
            if number >= 0:
                costs[command.name].append(cost)
    return {name: Timed(tuple(found)) for name, found in costs.items()}
