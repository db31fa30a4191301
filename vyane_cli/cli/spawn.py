"""`vyane spawn`: start a child that works on something and sends its result."""

from typing import Annotated

import typer

from vyane_cli.children.order import Order, Purpose
from vyane_cli.children.spawn import spawn_child
from vyane_cli.cli.context import state_of
from vyane_cli.cli.message import read_text
from vyane_cli.cli.render.human import Screen, safe
from vyane_cli.sessions.liveness import describe_worker


def command(
    context: typer.Context,
    prompt: Annotated[
        str, typer.Argument(help="What it shall do; `-` reads it from standard input.")
    ],
    parent: Annotated[
        str, typer.Option(help="Worker that gets the result; else the one that runs this command.")
    ] = "",
    runtime: Annotated[
        str, typer.Option(help="claude, codex, or one of your own runtimes in config.toml.")
    ] = "claude",
    name: Annotated[
        str, typer.Option(help="Its name; else the parent's and words of the prompt.")
    ] = "",
    purpose: Annotated[
        str, typer.Option(help="task-dispatch, research or verify.")
    ] = Purpose.TASK_DISPATCH.value,
    independent: Annotated[
        bool, typer.Option("--independent", help="A cancel of the parent passes it by.")
    ] = False,
    block_parent: Annotated[
        bool, typer.Option("--block-parent", help="The parent counts as blocked until the result.")
    ] = False,
    no_inherit_context: Annotated[
        bool, typer.Option("--no-inherit-context", help="Tell it nothing of the parent's work.")
    ] = False,
    group: Annotated[str, typer.Option(help="A label of your own.")] = "",
    cwd: Annotated[str, typer.Option(help="Its folder; else this one.")] = "",
    worktree: Annotated[
        str, typer.Option(help="A branch: it works in a git work tree of its own on it.")
    ] = "",
    tmux: Annotated[
        str, typer.Option(help="pane or window: the interactive program, for you to look in.")
    ] = "",
) -> None:
    """Start a child worker: its result wakes the parent, as a message.

    The child runs detached: it goes on when this command, and the session it runs in, have ended.
    """
    state = state_of(context)
    order = Order(
        read_text(prompt),
        parent,
        runtime,
        name,
        purpose,
        independent,
        block_parent,
        not no_inherit_context,
        group,
        cwd,
        worktree,
        tmux,
    )
    child, where = spawn_child(state.runtime, order)
    data = describe_worker(state.runtime, child)

    def human(screen: Screen) -> None:
        screen.say(f"spawned {safe(child.name)} ({child.id}): its result comes as a message")
        if worktree:
            screen.say(f"it works in {safe(child.cwd)} on branch {safe(worktree)}")
        screen.say(f"vyane wait {child.id} waits for it", "dim")
        screen.say(where or f"vyane logs {child.id} -f shows its output", "dim")

    state.show(data, human)
