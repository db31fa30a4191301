"""Figures of deliveries: the guard, the idle tick, the delivering tick, and delivery only once."""

import os
import shlex
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.homes import Session
from benchmarks.measure import Command, Cost, Timed, alternate, run, run_together
from benchmarks.report import Goal, Row, row

SH, PASS = "sh -c :", "python -I -c pass"
GUARD_GOAL, TICK_GOAL, DELIVER_GOAL = Goal(2), Goal(2), Goal(4)
DELIVER_CPU_GOAL = Goal(30, "ms")
WORKERS = 10
BATCHES = 8
"""Number of tool batches in a turn; each batch gets one message."""
AT_ONCE = 3


def shell(session: Session) -> Command:
    """Return the smallest command of the same kind as the guard."""
    return Command(SH, ["sh", "-c", ":"], session.env)


def interpreter(session: Session) -> Command:
    """Return the smallest command of the same kind as a tick."""
    return Command(PASS, [sys.executable, "-I", "-c", "pass"], session.env)


def beside(bench: Bench, session: Session) -> list[Command]:
    """Return the `--beside` commands, with the environment and payload of a tool batch."""
    env = {**os.environ, **session.env}
    stdin = session.payload("PostToolBatch")
    return [Command(given, shlex.split(given), env, stdin) for given in bench.beside]


def guard(bench: Bench) -> Iterator[Row]:
    """Measure PreToolUse and PostToolBatch without mail: the only process is the guard's shell."""
    with bench.home(WORKERS) as home:
        session = home.session()
        tool, batch = "guard PreToolUse", "guard PostToolBatch"
        others = beside(bench, session)
        commands = [
            shell(session),
            session.guarded(tool, "PreToolUse"),
            session.guarded(batch, "PostToolBatch"),
            *others,
        ]
        found = alternate(commands, bench.size(300, 30), after=_silent({tool, batch}))
        for name in (tool, batch):
            yield _cpu(name, found, SH, GUARD_GOAL)
            yield _wall(name, found, SH, GUARD_GOAL)
        for command in others:
            yield _cpu(f"beside: {command.name}", found, SH, None, command.name)
            yield _wall(f"beside: {command.name}", found, SH, None, command.name)


def idle_tick(bench: Bench) -> Iterator[Row]:
    """Measure ticks without mail: with the guard's command line, without a guard, and with a look.

    A tick that looks finds the marker of pending mail, but no message.
    """
    with bench.home(WORKERS) as home:
        session = home.session()
        line, plain, look = "tick, the guard's line", "tick, without a guard", "tick that looks"
        pending = Path(home.home.layout.pending(session.id))
        others = beside(bench, session)
        commands = [
            interpreter(session),
            session.bare(line, "PostToolBatch"),
            session.bare(plain, "PostToolBatch", guard=False),
            session.bare(look, "PostToolBatch"),
            *others,
        ]

        def before(command: Command) -> None:
            if command.name == look:
                pending.touch()  # a marker without a message

        found = alternate(
            commands, bench.size(60, 8), before=before, after=_silent({line, plain, look})
        )
        yield _cpu(line, found, PASS, TICK_GOAL)
        yield _cpu(plain, found, PASS, TICK_GOAL)
        yield _cpu("tick that looks and finds nothing", found, PASS, None, look)
        for command in others:
            yield _cpu(f"beside: {command.name}", found, PASS, None, command.name)


def delivering_tick(bench: Bench) -> Iterator[Row]:
    """Measure PostToolBatch with one pending message, every flush included."""
    with bench.home(WORKERS) as home:
        session = home.session()
        line, whole = "tick that delivers", "the whole hook that delivers"
        text, batches = "", 0

        def before(command: Command) -> None:
            nonlocal text, batches
            if command.name == PASS:
                return
            batches += 1
            if batches % BATCHES == 0:
                session.turn()
            session.payload("PostToolBatch")
            text = f"MAIL-{uuid.uuid4().hex}"
            session.send(f"{text}: the schema has changed, please read docs/schema.md again.")

        def after(command: Command, cost: Cost) -> None:
            if command.name != PASS and text not in Path(command.stdout).read_text():
                raise RuntimeError(f"{command.name}: the message was not shown")

        commands = [
            interpreter(session),
            session.bare(line, "PostToolBatch"),
            session.guarded(whole, "PostToolBatch"),
        ]
        found = alternate(commands, bench.size(40, 4), before=before, after=after)
        for name in (line, whole):
            yield _cpu(f"{name}, CPU", found, PASS, DELIVER_CPU_GOAL, name)
            yield _cpu(f"{name}, ratio", found, PASS, DELIVER_GOAL, name)
            yield _wall(name, found, PASS, None)


def shown_once(bench: Bench) -> Iterator[Row]:
    """Count how often one message is shown once by three identical hooks that run at once.

    A user who installs the hooks twice has such hooks.
    """
    rounds = bench.size(100, 5)
    counts: list[int] = []
    with bench.home(WORKERS) as home:
        session = home.session()
        for number in range(rounds):
            if number % BATCHES == 0:
                session.turn()
            text = f"MAIL-{uuid.uuid4().hex}"
            session.send(text)
            hooks = [session.guarded(f"copy-{n}", "PostToolBatch") for n in range(AT_ONCE)]
            run_together(hooks)
            counts.append(sum(Path(hook.stdout).read_text().count(text) for hook in hooks))
    once = sum(count == 1 for count in counts)
    goal = Goal(rounds, "rounds", least=True)
    yield Row(f"{AT_ONCE} identical hooks at once: shown once", once, "rounds", goal=goal)
    if once < rounds:
        bench.note(f"shown how often: {sorted(counts)}")


def shown_again(bench: Bench) -> Iterator[Row]:
    """Count how often the next hook shows a message whose first output could not be written."""
    rounds = bench.size(20, 2)
    again = 0
    with bench.home(WORKERS) as home:
        session = home.session()
        for number in range(rounds):
            session.turn()
            text = f"MAIL-{uuid.uuid4().hex}"
            session.send(text)
            lost = session.guarded("lost", "PostToolBatch")
            out = _closed_pipe() if number % 2 else _full_disk()
            try:
                run(lost, stdout=out)
            finally:
                os.close(out)
            again += session.hook("PostToolBatch").count(text) == 1
    goal = Goal(rounds, "rounds", least=True)
    yield Row("output could not be written: shown again", again, "rounds", goal=goal)


def _full_disk() -> int:
    return os.open("/dev/full", os.O_WRONLY) if os.path.exists("/dev/full") else _closed_pipe()


def _closed_pipe() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


class _silent:  # noqa: N801  used as a function
    """Check that a hook without mail printed nothing and ended with 0."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def __call__(self, command: Command, cost: Cost) -> None:
        if command.name in self.names and (cost.status or os.path.getsize(command.stdout)):
            raise RuntimeError(f"{command.name}: ended with {cost.status}, or printed something")


def _cpu(what: str, found: dict[str, Timed], base: str, goal: Goal | None, name: str = "") -> Row:
    label = what if what.endswith((", CPU", ", ratio")) else f"{what}, CPU"
    return row(label, found[name or what].cpu, "ms", found[base].cpu, base, goal)


def _wall(what: str, found: dict[str, Timed], base: str, goal: Goal | None, name: str = "") -> Row:
    return row(f"{what}, wall", found[name or what].wall, "ms", found[base].wall, base, goal)
