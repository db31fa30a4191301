"""`vyane report`: a child's word to its parent."""

from typing import Annotated

import typer

from vyane_cli.children.report import report_long_running, report_progress, report_result
from vyane_cli.cli.context import state_of
from vyane_cli.cli.message import read_text, show_sent
from vyane_cli.cli.render.human import Screen, clock_time
from vyane_cli.cli.task import show_report
from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.durations import parse_duration_s
from vyane_cli.projects.task_report import TaskReport


def command(
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
        show_report(state, TaskReport(task, status, reason, artifact, no_artifact_reason, project))
    elif progress is not None:
        show_sent(state, report_progress(state.runtime, read_text(progress)))
    elif long_running is not None:
        seconds = parse_duration_s("long-running", long_running)
        silence = report_long_running(state.runtime, seconds)
        until = clock_time(silence.long_running_until)
        state.show(silence, lambda screen: screen.say(f"silence is expected to {until}"))
    else:
        settled = report_result(state.runtime, read_text(result or ""), failed=failed)
        child, sent = settled.child, settled.report

        def human(screen: Screen) -> None:
            screen.say(f"{child.name} is {child.status}; result {sent.message_id} is stored")

        state.show(sent, human)
