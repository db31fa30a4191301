"""`vyane workers`, `status` and `topology`: workers as a list, in the overview, and as a tree."""

import os
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, ago, clock_time, safe, shorten
from vyane_cli.cli.round import in_words
from vyane_cli.conversations.routing import ConversationMap
from vyane_cli.delivery.topology import Topology, topology
from vyane_cli.delivery.view import WorkerReport, describe_worker, list_workers
from vyane_cli.health.status import ProjectStanding
from vyane_cli.health.status import overview as look_over
from vyane_cli.home import Home
from vyane_cli.projects.task import TaskStatus
from vyane_cli.sessions.register import register_worker
from vyane_cli.sessions.rename import rename_worker
from vyane_cli.sessions.worker import FINAL, WorkerStatus

workers_app = typer.Typer(
    add_completion=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="List the workers: who is there, and what each does.",
)


@workers_app.callback()
def listing(
    context: typer.Context,
    session: Annotated[
        str, typer.Option(help="Only of a logical session: vs-…, or a worker's.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Ended ones too.")] = False,
) -> None:
    """List the workers: who is there, and what each does."""
    if context.invoked_subcommand is not None:
        return
    state = state_of(context)
    found = ConversationMap(state.home).conversation_of
    rows = list_workers(state.home, session=session, everything=everything, conversation_of=found)
    state.show(rows, lambda screen: show_workers(screen, rows))


def show_workers(screen: Screen, rows: list[WorkerReport]) -> None:
    """Print the table of workers."""
    if not rows:
        screen.say("no workers yet: a session registers itself when it starts", "dim")
        screen.say("`vyane hooks install` sets that up; `vyane doctor` checks it", "dim")
        return
    sign = "sign" if screen.narrow else "last sign"
    screen.table(
        ("name", "id", "does", "mail", sign, "reached by", "folder"),
        [
            (
                row.worker.name,
                row.worker.id,
                _does(row),
                row.pending or "",
                ago(row.last_heartbeat).removesuffix(" ago" if screen.narrow else ""),
                " ".join(row.transports) or "—",
                shorten(row.worker.cwd),
            )
            for row in rows
        ],
    )


TELLING = FINAL | {WorkerStatus.STALE}
"""Statuses that are shown instead of the liveness, because they say more."""


def _does(row: WorkerReport) -> str:
    if row.ambiguous:
        return "ambiguous"
    does = row.status.lower() if row.status in TELLING else str(row.liveness)
    return does + ", taken over" if row.pending_takeover_message_id else does


@workers_app.command("list")
def list_command(
    context: typer.Context,
    session: Annotated[
        str, typer.Option(help="Only of a logical session: vs-…, or a worker's.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Ended ones too.")] = False,
) -> None:
    """List the workers."""
    state = state_of(context)
    found = ConversationMap(state.home).conversation_of
    rows = list_workers(state.home, session=session, everything=everything, conversation_of=found)
    state.show(rows, lambda screen: show_workers(screen, rows))


@workers_app.command("register")
def register_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Its name: what others send to.")],
    session_id: Annotated[str, typer.Option(help="Its host's session id; else a made one.")] = "",
    cwd: Annotated[str, typer.Option(help="Its working folder; else this one.")] = "",
    pid: Annotated[int, typer.Option(help="Its process, so that its end is noticed.")] = 0,
    worker_type: Annotated[str, typer.Option("--type", help="What it runs.")] = "generic",
) -> None:
    """Register a worker of a host without hooks: it reads its mail with `tick --host generic`."""
    state = state_of(context)
    worker = register_worker(
        state.home,
        name,
        session_id=session_id,
        cwd=os.path.abspath(cwd or os.getcwd()),
        pid=pid,
        worker_type=worker_type,
    )
    data = describe_worker(state.home, worker, ConversationMap(state.home).conversation_of)

    def human(screen: Screen) -> None:
        screen.say(f"{safe(worker.name)} is registered as {worker.id}")
        if worker.generation > 1:
            screen.say(f"generation {worker.generation}: mail of the former owner is offered once")
        screen.say(f"its mail: vyane tick --host generic --worker {worker.id}", "dim")

    state.show(data, human)


@workers_app.command("rename")
def rename_command(
    context: typer.Context,
    worker: Annotated[str, typer.Argument(help="Its name, or the beginning of its id.")],
    name: Annotated[str, typer.Argument(help="The new name.")],
) -> None:
    """Give a worker another name. Mail goes by id: none of it is affected."""
    state = state_of(context)
    renamed = rename_worker(state.home, worker, name)
    data = describe_worker(state.home, renamed, ConversationMap(state.home).conversation_of)
    state.show(data, lambda screen: screen.say(f"{renamed.id} is {safe(renamed.name)} now"))


def status_command(context: typer.Context) -> None:
    """Who is there, what waits, how projects stand, who needs you."""
    overview(context)


def overview(context: typer.Context) -> None:
    """Print the overview, for `vyane status` and for `vyane` without a command."""
    state = state_of(context)
    seen = look_over(state.home)

    def human(screen: Screen) -> None:
        if not seen.initialised:
            screen.heading("vyane: coding-agent sessions on this machine work together")
            screen.say("")
            screen.say("It is not set up yet:")
            screen.say("  vyane hooks install    connect Claude Code")
            screen.say("  vyane init             the state folder alone, for other programs")
            screen.say("")
            screen.say("`vyane demo` shows what it does, `vyane --help` lists the commands.", "dim")
            return
        show_workers(screen, seen.workers)
        for project in seen.projects:
            screen.say("")
            show_project(screen, project)
        for fault in seen.unreadable:
            screen.say(f"a project cannot be read: {safe(fault)}", "red")
        if seen.pending:
            screen.say("")
            old = ago(seen.oldest_pending_at)
            screen.say(f"{seen.pending} pending; the oldest was sent {old}", "yellow")
        for need in seen.need_user:
            screen.say(f"you are needed: {safe(need['text'])}", "bold")
        if seen.quarantined:
            screen.say(f"{seen.quarantined} damaged pieces are set aside: vyane doctor", "red")

    state.show(seen, human)


def show_project(screen: Screen, seen: ProjectStanding) -> None:
    """Print one project: its goal, its ledger, and what the next round would do and why."""
    title = f" — {safe(seen.title)}" if seen.title else ""
    screen.say(f"{safe(seen.project)}: goal {seen.goal}{title}", "bold")
    counts = ", ".join(f"{count} {name}" for name, count in seen.tasks.items() if count)
    screen.say(f"  tasks: {counts or 'none'}; main: {safe(seen.main or 'none is declared')}")
    for task in seen.shown:
        why = f": {task.reason}" if task.reason else ""
        line = f"  {task.status}: {safe(task.id)} {safe(task.title)}{safe(why)}"
        screen.say(line, "red" if task.status is TaskStatus.BLOCKED else "")
    coming = seen.next
    timer = any(one.timer for one in seen.schedules)
    when = f"next round {clock_time(coming.at)}" if coming.at else "next round"
    when = "A and B are paused; a round by hand" if coming.paused else when
    when = when if timer or coming.paused else "no timer runs rounds; one by hand"
    what = in_words(coming.action, coming.would or "")
    screen.say(f"  {when}: {safe(what)} ({coming.cell}, {coming.reason})")
    if seen.alert:
        screen.say(f"  {safe(seen.alert)}", "yellow")
    if seen.problem:
        screen.say(f"  {safe(seen.problem)}", "red")


EVERY_S = 2.0


def topology_command(
    context: typer.Context,
    who: Annotated[
        str,
        typer.Argument(help="Worker or vs-…; else your own session; outside of one, all trees."),
    ] = "",
    messages: Annotated[
        bool, typer.Option("--messages", help="With what waits in their inboxes.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Again every 2 s, until you end it.")
    ] = False,
) -> None:
    """Show the workers as a tree, with the last progress of each."""
    state = state_of(context)

    def human(screen: Screen, found: Topology) -> None:
        show_tree(screen, found, fresh=watch)

    if watch:
        state.stream(_again(state.home, who, messages), human)
        return
    found = topology(state.home, who, messages=messages, places=ConversationMap(state.home))
    state.show(found, lambda screen: human(screen, found))


def _again(home: Home, who: str, messages: bool) -> Iterator[Topology]:
    while True:
        yield topology(home, who, messages=messages, places=ConversationMap(home))
        time.sleep(EVERY_S)


def show_tree(screen: Screen, found: Topology, *, fresh: bool = False) -> None:
    """Print the trees, one worker a line."""
    if fresh and screen.terminal:
        screen.console.clear()
    if not found.workers:
        screen.say("no workers yet: a session registers itself when it starts", "dim")
        return
    rows = []
    stack = [(node, "", "") for node in reversed(found.workers)]
    while stack:
        node, lead, below = stack.pop()
        shown = node.shown
        takeover = "taken over" if shown.pending_takeover_message_id else ""
        rows.append(
            (
                lead + safe(shown.worker.name),
                shown.worker.id,
                shown.status,
                shown.liveness,
                shown.pending or "",
                " ".join(filter(None, (takeover, safe(shown.progress)))),
            )
        )
        last = len(node.children) - 1
        for position, child in reversed(list(enumerate(node.children))):
            branch, under = ("└─ ", "   ") if position == last else ("├─ ", "│  ")
            stack.append((child, below + branch, below + under))
    screen.table(("name", "id", "status", "does", "mail", "last progress"), rows)
    for row in found.messages or ():
        message = row.entry.message
        screen.say(
            f"{message.id}  {row.entry.status}  {safe(message.from_name)} → "
            f"{message.to_id}  {safe(message.summary)}"
        )
