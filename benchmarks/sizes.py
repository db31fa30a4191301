"""Figures of size: the costs that grow with the amount of data, and those that must not."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.homes import PACKAGE, PERSON, PROGRAM, Home, Session
from benchmarks.measure import Command, Cost, Series, alternate, run
from benchmarks.report import Goal, Row, row
from vyane_cli.home import accelerate
from vyane_cli.mail import inbox
from vyane_cli.mail.send import MessageDraft, send
from vyane_cli.sessions import registry
from vyane_cli.timeline import log
from vyane_cli.timeline.events import CommittedEvent, EventKind

SIZE_GOAL = Goal(1.5)
READ_LIMIT = Goal(1000, "kB")
OVER_LIMIT = Goal(100, "ms")
NEWS = "NEWS-4711"
FEWEST, ENOUGH_MS = 3, 2000
"""Fewest runs of a call, and the total time in ms after which no further run is started.

A call that takes seconds is timed three times.
"""
COUNTER = (
    "import os; leave = os._exit\n"
    "def ending(status):\n"
    "    read = open('/proc/self/io').read().split()[1]\n"
    "    os.write(2, read.encode()); leave(status)\n"
    "os._exit = ending\n"
)
"""Code before the tick's program: prints at its end the bytes it has read, modules included."""


def size(bench: Bench) -> Iterator[Row]:
    """Measure ticks and commands: 10,000 settled messages and 1,000 workers, against 10 and 10."""
    settled, workers = bench.size(10_000, 200), bench.size(1000, 50)
    with ExitStack() as stack:
        small, large = (stack.enter_context(bench.home(n)) for n in (10, workers))
        sessions = [small.session(), large.session()]
        small.settle(sessions[0].worker, 10)
        large.settle(sessions[1].worker, settled)
        names = ("10 and 10", f"{settled:,} and {workers:,}")
        yield from _ticks(bench, sessions, names)
        yield from _commands(bench, sessions, names)
        if os.path.exists("/proc/self/io"):
            yield from _reads(bench, small, sessions)


def _ticks(bench: Bench, sessions: list[Session], names: tuple[str, str]) -> Iterator[Row]:
    commands = [s.bare(n, "PostToolBatch") for s, n in zip(sessions, names, strict=True)]
    by_name = dict(zip(names, sessions, strict=True))

    def before(command: Command) -> None:
        by_name[command.name].payload("PostToolBatch")
        by_name[command.name].send(NEWS)

    for session in sessions:
        session.turn()
    found = alternate(commands, bench.size(30, 4), before=before, after=_delivered)
    small, large = names
    what = f"tick that delivers, {large} (messages, workers), CPU"
    yield row(what, found[large].cpu, "ms", found[small].cpu, small, SIZE_GOAL)


def _commands(bench: Bench, sessions: list[Session], names: tuple[str, str]) -> Iterator[Row]:
    """Measure `vyane inbox`, which has a goal, and `vyane send`, which has none."""
    program = "import sys; from vyane_cli.cli.app import main; main(sys.argv[1:])"
    small, large = names
    for verb, text, goal in (("inbox", (), SIZE_GOAL), ("send", ("a text",), None)):
        commands = []
        for session, name in zip(sessions, names, strict=True):
            env = {**session.home.user_environ(), "PYTHONPATH": str(PACKAGE)}
            words = ["--home", str(session.home.root), verb, session.worker, *text]
            commands.append(Command(name, [sys.executable, "-c", program, *words], env))
        found = alternate(commands, bench.size(20, 3), after=_succeeded)
        what = f"`vyane {verb}`, {large}, CPU"
        yield row(what, found[large].cpu, "ms", found[small].cpu, small, goal)


def _delivered(command: Command, cost: Cost) -> None:
    if cost.status or NEWS not in Path(command.stdout).read_text():
        raise RuntimeError(f"{command.name}: the message was not shown")


def _succeeded(command: Command, cost: Cost) -> None:
    if cost.status:
        raise RuntimeError(f"{' '.join(command.argv[3:])}: ended with {cost.status}")


def _reads(bench: Bench, small: Home, sessions: list[Session]) -> Iterator[Row]:
    """Measure the bytes that a tick reads, and its CPU, with much data in the state.

    The large state has 20,000 settled messages and a timeline of 100 MB.
    """
    large = sessions[1]
    settled, megabytes = bench.size(20_000, 400), bench.size(100, 2)
    large.home.settle(large.worker, settled - bench.size(10_000, 200))
    large.hook("Stop", stop_hook_active=False, last_assistant_message="done")
    large.prompt = ""
    _lengthen(large, megabytes * 1_000_000)
    large.turn()
    reads = []
    for session in (sessions[0], large):
        session.send(NEWS)
        reads.append(_bytes_read(session))
    what = f"read by a tick, {settled:,} messages and {megabytes} MB of timeline, above 10 and 10"
    yield Row(what, max(reads[1] - reads[0], 0) / 1000, "kB", goal=READ_LIMIT)
    line, bare = "large", "pass"
    commands = [
        Command(bare, [sys.executable, "-I", "-c", "pass"], large.env),
        large.bare(line, "PostToolBatch"),
    ]

    def before(command: Command) -> None:
        if command.name == line:
            large.payload("PostToolBatch")
            large.send(NEWS)

    def after(command: Command, cost: Cost) -> None:
        if command.name == line:
            _delivered(command, cost)

    found = alternate(commands, bench.size(20, 3), before=before, after=after)
    over = found[line].cpu.median - found[bare].cpu.median
    yield Row("the same, CPU above the interpreter's start", over, "ms", goal=OVER_LIMIT)


def _bytes_read(session: Session) -> int:
    words = list(session.home.tick_argv("PostToolBatch"))
    words[words.index(PROGRAM)] = COUNTER + PROGRAM
    err = session.folder / "read"
    argv = ["sh", "-c", 'exec "$@" 2>"$0"', str(err), *words]
    out = str(session.folder / "reads.out")
    command = Command("reads", argv, session.env, session.payload("PostToolBatch"), out)
    _delivered(command, run(command))
    return int(err.read_text())


def _lengthen(session: Session, size: int) -> None:
    """Append tool events to a session's timeline, between two turns, until it has `size` bytes."""
    layout = session.home.home.layout
    known = log.Identity(session.logical, session.worker)
    line = log.Timeline(layout.timeline(session.logical), layout.root, known, "0" * 32)
    try:
        while line.writer.end < size:
            events, heads, head = [], [], line.head
            for _ in range(1000):
                head = head._replace(seq=head.seq + 1)
                payload = {"tool": "Bash", "tool_use_id": f"toolu_{head.seq:024}"}
                events.append(CommittedEvent(head.seq, EventKind.TOOL_OBSERVED, payload, at=1.0))
                heads.append(head)
            line.append(events, heads)
    finally:
        line.close()


# ------------------------------------------------------------------ in process


def growth(bench: Bench) -> Iterator[Row]:
    """Measure a send and a read through the library, by the number of messages in the inbox."""
    accelerate()
    sizes = (10, 1000, 100_000) if not bench.quick else (10, 200)
    for state in ("settled", "pending"):
        base: dict[str, Series] = {}
        for count in sizes:
            with bench.home(10) as home:
                worker = home.session().worker
                (home.settle if state == "settled" else home.queue)(worker, count)
                path = home.home.layout.inbox(worker)
                measured = {  # reads first, because later reads include the appended messages
                    "read": _times(bench.size(10, 3), partial(inbox.read, path)),
                    "append": _times(bench.size(10, 3), partial(_send, home, worker)),
                }
            for what, series in measured.items():
                first = base.setdefault(what, series)
                found = row(
                    f"{what} with {count:,} {state}, CPU in process",
                    series,
                    "ms",
                    first,
                    f"{sizes[0]} {state}",
                )
                yield found._replace(curve=f"{what}, by {state} messages", x=count)
    yield from _by_workers(bench)


def _by_workers(bench: Bench) -> Iterator[Row]:
    """Measure a send, and the list of workers, by the number of workers."""
    first: dict[str, Series] = {}
    for count in (10, 1000) if not bench.quick else (10, 50):
        with bench.home(count) as home:
            worker = home.session().worker
            measured = {
                "send": _times(bench.size(10, 3), partial(_send, home, worker)),
                "list": _times(bench.size(10, 3), partial(_list, home)),
            }
        for what, series in measured.items():
            base = first.setdefault(what, series)
            text = f"{what} with {count:,} workers, CPU in process"
            found = row(text, series, "ms", base, "10 workers")
            yield found._replace(curve=f"{what}, by workers", x=count)


def _list(home: Home) -> None:
    registry.Registry(home.home.layout).listing()


def _send(home: Home, worker: str) -> None:
    send(home.home, MessageDraft(worker, "one more"), PERSON)


def _times(rounds: int, call: Callable[[], object]) -> Series:
    found: list[float] = []
    while len(found) < rounds and (len(found) < FEWEST or sum(found) < ENOUGH_MS):
        began = time.process_time()
        call()
        found.append((time.process_time() - began) * 1000)
    return Series(tuple(found))
