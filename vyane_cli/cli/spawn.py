"""`vyane spawn`, `wait`, `report` and `logs`: child workers and their results."""

import sys
from typing import Annotated

import typer

from vyane_cli.children.order import Order, Purpose
from vyane_cli.children.report import (
    report_long_running,
    report_progress,
    report_result,
    show_logs,
    wait,
)
from vyane_cli.children.spawn import spawn_child
from vyane_cli.cli.context import state_of
from vyane_cli.cli.message import read_text, show_sent
from vyane_cli.cli.render.human import Screen, clock_time, safe
from vyane_cli.cli.task import show_report
from vyane_cli.conversations.routing import ConversationMap
from vyane_cli.delivery.view import describe_worker
from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.durations import parse_duration_s
from vyane_cli.projects.task_report import TaskReport


def spawn_command(
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
        prompt=read_text(prompt),
        parent=parent,
        runtime=runtime,
        name=name,
        purpose=purpose,
        independent=independent,
        block_parent=block_parent,
        inherit_context=not no_inherit_context,
        group=group,
        cwd=cwd,
        worktree=worktree,
        tmux=tmux,
    )
    child, where = spawn_child(state.home, order)
    data = describe_worker(state.home, child, ConversationMap(state.home).conversation_of)

    def human(screen: Screen) -> None:
        screen.say(f"spawned {safe(child.name)} ({child.id}): its result comes as a message")
        if worktree:
            screen.say(f"it works in {safe(child.cwd)} on branch {safe(worktree)}")
        screen.say(f"vyane wait {child.id} waits for it", "dim")
        screen.say(where or f"vyane logs {child.id} -f shows its output", "dim")

    state.show(data, human)


def wait_command(
    context: typer.Context,
    workers: Annotated[list[str], typer.Argument(help="Workers to wait for.")],
    some: Annotated[bool, typer.Option("--any", help="Until one of them has ended.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Until all of them have ended (the default).")
    ] = False,
    timeout: Annotated[str, typer.Option(help="How long at most, such as 10m.")] = "10m",
) -> None:
    """Wait until workers have ended, and show their results. Exit 5 when the time runs out.

    Results arrive by themselves: this is for scripts, and for an agent that has nothing else to do.
    """
    state = state_of(context)
    if some and every:
        raise InvalidInputError("wait", "--any --all", "one of the two")
    seconds = parse_duration_s("timeout", timeout)
    enough = 1 if some else len(workers)
    if state.as_json:
        rows = wait(state.home, workers, enough=enough, timeout_s=seconds)
    else:
        with state.screen.progress("waiting") as progress:
            rows = wait(state.home, workers, enough=enough, timeout_s=seconds, progress=progress)

    def human(screen: Screen) -> None:
        for row in rows:
            screen.heading(f"{row.name or row.worker}: {row.status or 'gone'}")
            if row.summary:
                screen.body(row.summary)

    state.show(rows, human)


def report_command(
    context: typer.Context,
    result: Annotated[
        str | None, typer.Option(help="The result; `-` reads it from standard input.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="The result is that it failed.")] = False,
    progress: Annotated[str | None, typer.Option(help="How far it is; wakes nobody.")] = None,
    long_running: Annotated[
        str | None, typer.Option(help="For so long silence is no sign of trouble, such as 2h.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="A task of the project, such as T3: what it is at.")
    ] = None,
    status: Annotated[
        str, typer.Option("--state", help="With --task: running, done, blocked or pending.")
    ] = "",
    reason: Annotated[str, typer.Option(help="With --state blocked: who or what must do.")] = "",
    artifact: Annotated[
        str, typer.Option(help="With --state done: what was made, a path that is there.")
    ] = "",
    no_artifact_reason: Annotated[
        str, typer.Option(help="With --state done: why nothing was made.")
    ] = "",
    project: Annotated[str, typer.Option(help="With --task: its project's name.")] = "",
) -> None:
    """Report to the parent, from inside a child: result or progress.

    A result is the last word: the child has ended with it, and a second one is refused. `--task`
    reports what a task of the ledger is at, as `vyane task report` does.
    """
    state = state_of(context)
    given = [one for one in (result, progress, long_running, task) if one is not None]
    if len(given) != 1 or (failed and result is None):
        expected = "exactly one of --result, --progress, --long-running, --task"
        expected = expected if given else f"given: {expected}"
        raise InvalidInputError("report", ", ".join(given), expected, missing=not given)
    about = {"state": status, "reason": reason, "artifact": artifact,
             "no-artifact-reason": no_artifact_reason, "project": project}  # fmt: skip
    for name, value in about.items():
        if value and task is None:
            raise InvalidInputError(name, value, "needed without --task")
    if task is not None:
        show_report(
            state,
            TaskReport(
                task=task,
                state=status,
                reason=reason,
                artifact=artifact,
                no_artifact_reason=no_artifact_reason,
                project=project,
            ),
        )
    elif progress is not None:
        show_sent(state, report_progress(state.home, read_text(progress)))
    elif long_running is not None:
        seconds = parse_duration_s("long-running", long_running)
        silence = report_long_running(state.home, seconds)
        until = clock_time(silence.long_running_until)
        state.show(silence, lambda screen: screen.say(f"silence is expected to {until}"))
    else:
        settled = report_result(state.home, read_text(result or ""), failed=failed)
        child, sent = settled.child, settled.report

        def human(screen: Screen) -> None:
            screen.say(f"{child.name} is {child.status}; result {sent.message_id} is stored")

        state.show(sent, human)


def logs_command(
    context: typer.Context,
    worker: Annotated[str, typer.Argument(help="A spawned worker.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as it grows, until the worker has ended.")
    ] = False,
) -> None:
    """Show what a spawned worker printed. Its errors go to standard error."""

    def show(errors: bool, data: bytes) -> None:
        stream = sys.stderr if errors else sys.stdout
        stream.buffer.write(data)
        stream.flush()

    show_logs(state_of(context).home, worker, show, follow=follow)
