"""`vyane topology`: the workers as a tree."""

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, safe
from vyane_cli.delivery.topology import Topology, topology
from vyane_cli.home import Runtime

EVERY_S = 2.0


def command(
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
        state.stream(_again(state.runtime, who, messages), human)
        return
    found = topology(state.runtime, who, messages=messages)
    state.show(found, lambda screen: human(screen, found))


def _again(runtime: Runtime, who: str, messages: bool) -> Iterator[Topology]:
    while True:
        yield topology(runtime, who, messages=messages)
        time.sleep(EVERY_S)


def show_tree(screen: Screen, found: Topology, *, fresh: bool = False) -> None:
    """The trees, one worker a line."""
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
