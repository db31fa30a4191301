"""`vyane task`: the tasks of a project; `vyane taskgraph`: their order and the critical path."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from vyane_cli.cli.context import CommandState, state_of
from vyane_cli.cli.message import read_text
from vyane_cli.cli.render.human import Screen, clock_time, safe, span
from vyane_cli.cli.round import say_paused
from vyane_cli.errors import InvalidInputError
from vyane_cli.projects.catalog import select_project
from vyane_cli.projects.graph import GraphReport, add_node, mark_node, remove_node, show_graph
from vyane_cli.projects.schedule import paused
from vyane_cli.projects.task import Task, TaskStatus
from vyane_cli.projects.task_report import TaskReport, report_task
from vyane_cli.projects.tasks import (
    Edit,
    TaskChange,
    TaskRow,
    add_task,
    edit_task,
    list_tasks,
    parse_deadline,
    show_task,
)

task_app = typer.Typer(
    add_completion=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The tasks of a project: who has them, what came of them.",
)

Project = Annotated[str, typer.Option("--project", help="Its name; else that of this folder.")]
TaskId = Annotated[str, typer.Argument(metavar="TASK", help="Its id, such as T3.")]


@task_app.callback()
def listing(context: typer.Context) -> None:
    """The tasks of a project: who has them, what came of them."""
    if context.invoked_subcommand is None:
        list_command(context)


@task_app.command("add")
def add_command(
    context: typer.Context,
    title: Annotated[str, typer.Argument(help="What is to be done, in one line.")],
    text: Annotated[
        str, typer.Option(help="What a worker is told beside it; `-` reads standard input.")
    ] = "",
    line: Annotated[str, typer.Option(help="Of the tasks of one line one runs at a time.")] = "",
    after: Annotated[
        list[str] | None,
        typer.Option(help="A task or node that must be done first; may be given again."),
    ] = None,
    deadline: Annotated[str, typer.Option(help="2h, 3d, 2031-05-04 or 2031-05-04T18:00.")] = "",
    order: Annotated[int, typer.Option(help="Lower comes first; else its number.")] = 0,
    project: Project = "",
) -> None:
    """Add a task. It is pending, and on disk when this returns."""
    state = state_of(context)
    home = state.home
    task = Task(
        "",
        read_text(title).strip(),
        read_text(text),
        line,
        order=order,
        after=names_of(after),
        deadline_at=parse_deadline(home.clock().at, deadline) if deadline else None,
    )
    chosen = select_project(home, project)
    made = add_task(home, chosen, task)
    row = show_task(home, chosen, made.id)

    def human(screen: Screen) -> None:
        waits = f", after {', '.join(row.waits_for)}" if row.waits_for else ""
        screen.say(f"{made.id} {safe(made.title)}: pending in {chosen.name}{waits}")
        say_paused(screen, paused(home, [chosen.name]))

    state.show(row, human)


def names_of(after: list[str] | None) -> tuple[str, ...]:
    """Return the ids of `--after`, which may be repeated and may hold commas."""
    parts = [one.strip() for given in after or () for one in given.split(",")]
    names = tuple(dict.fromkeys(one for one in parts if one))
    if after and not names:
        raise InvalidInputError("after", " ".join(after), "the id of a task or node")
    return names


@task_app.command("list")
def list_command(
    context: typer.Context,
    status: Annotated[
        str, typer.Option(help="Only those that are pending, running, blocked or done.")
    ] = "",
    line: Annotated[str, typer.Option(help="Only those of a line.")] = "",
    project: Project = "",
) -> None:
    """List the tasks: what runs, then what may start, the head first, then the rest."""
    state = state_of(context)
    if status and status not in tuple(TaskStatus):
        raise InvalidInputError("status", status, "one of " + ", ".join(TaskStatus))
    chosen = select_project(state.home, project)
    rows = list_tasks(state.home, chosen, status=status, line=line)
    state.show(rows, lambda screen: show_tasks(screen, rows, chosen.name))


def show_tasks(screen: Screen, rows: Sequence[TaskRow], project: str) -> None:
    """Print the table of tasks."""
    if not rows:
        screen.say(f"project {project} has no such tasks: `vyane task add TITLE` adds one", "dim")
        return
    screen.table(
        ("id", "is", "line", "title", "note"),
        [
            (row.task.id, row.task.status, row.task.line, row.task.title, note_of(row))
            for row in rows
        ],
    )


def note_of(row: TaskRow) -> str:
    """Return the most important facts about a task now, in a few words."""
    words, task = [], row.task
    match task.status:
        case TaskStatus.BLOCKED:
            words.append(task.reason)
        case TaskStatus.RUNNING:
            words.append(f"by {row.worker_name or task.worker}" if task.worker else "")
        case TaskStatus.DONE:
            words.append(task.artifact or task.no_artifact_reason)
        case _ if row.waits_for:
            words.append("after " + ", ".join(row.waits_for))
        case _ if row.stuck:
            words.append(f"waits until you have looked ({row.stuck}): vyane need-user")
        case _ if row.startable:
            words.append("may start")
        case _ if row.claimed:
            words.append("a round has started it")
        case _:
            words.append("its line is taken")
    if row.critical and task.status is not TaskStatus.DONE:
        words.append("on the critical path")
    if task.deadline_at and task.status is not TaskStatus.DONE:
        left = task.deadline_at - time.time()
        words.append(f"due in {span(left)}" if left > 0 else f"overdue by {span(-left)}")
    return safe("; ".join(word for word in words if word))


@task_app.command("show")
def show_command(context: typer.Context, task: TaskId, project: Project = "") -> None:
    """Show one task and its history."""
    state = state_of(context)
    row = show_task(state.home, select_project(state.home, project), task)
    shown = row.task

    def human(screen: Screen) -> None:
        screen.heading(f"{shown.id} {safe(shown.title)}")
        pairs = [
            ("is", shown.status),
            ("note", note_of(row)),
            ("line", shown.line),
            ("after", ", ".join(shown.after)),
            ("deadline", clock_time(shown.deadline_at) if shown.deadline_at else ""),
            ("started", clock_time(shown.started_at) if shown.started_at else ""),
            ("ended", clock_time(shown.ended_at) if shown.ended_at else ""),
        ]
        screen.pairs([(name, value) for name, value in pairs if value])
        if shown.text:
            screen.say("")
            screen.body(shown.text)
        if row.history:
            screen.say("")
            screen.table(
                ("when", "by", "what"),
                [(clock_time(one.at), one.by, what_of(one)) for one in row.history],
            )

    state.show(row, human)


def what_of(change: TaskChange) -> str:
    """Return a change of a task as one line of its history."""
    if change.op == "add":
        return "added"
    if change.before != change.after:
        return f"{change.before} → {change.after}"
    return "changed: " + ", ".join(sorted(change.set or {}))


@task_app.command("edit")
def edit_command(
    context: typer.Context,
    task: TaskId,
    title: Annotated[str | None, typer.Option(help="Another title.")] = None,
    text: Annotated[
        str | None, typer.Option(help="Another text; `-` reads standard input.")
    ] = None,
    line: Annotated[str | None, typer.Option(help="Another line; none: no line.")] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(help="What must be done first instead; none: nothing. May be given again."),
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(help="Another deadline; none: no deadline.")
    ] = None,
    order: Annotated[int | None, typer.Option(help="Lower comes first.")] = None,
    project: Project = "",
) -> None:
    """Change what a task says. What it is at changes by `task report` alone."""
    state = state_of(context)
    home = state.home
    links = names_of(after)
    edit = Edit(
        title=read_text(title).strip() if title is not None else None,
        text=read_text(text) if text is not None else None,
        line="" if line == "none" else line,
        after=None if after is None else () if links == ("none",) else links,
        deadline_at=parse_deadline(home.clock().at, deadline)
        if deadline not in (None, "none")
        else None,
        no_deadline=deadline == "none",
        order=order,
    )
    if edit == Edit():
        raise InvalidInputError(
            "edit", "", "given: name what is to change", missing=True, hint="--title, …"
        )
    chosen = select_project(home, project)
    changed = edit_task(home, chosen, task, edit)
    row = show_task(home, chosen, changed.id)
    state.show(row, lambda screen: screen.say(f"{changed.id} {safe(changed.title)}: changed"))


@task_app.command("report")
def report_command(
    context: typer.Context,
    task: TaskId,
    status: Annotated[
        str, typer.Option("--state", help="running, done or blocked; pending puts it back.")
    ],
    reason: Annotated[str, typer.Option(help="Why it is blocked: who or what must do what.")] = "",
    artifact: Annotated[str, typer.Option(help="What was made: a path that is there.")] = "",
    no_artifact_reason: Annotated[str, typer.Option(help="Why nothing was made.")] = "",
    project: Project = "",
) -> None:
    """Report what a task is at. It wakes nobody; the same report again changes nothing."""
    report = TaskReport(
        task=task,
        state=status,
        reason=reason,
        artifact=artifact,
        no_artifact_reason=no_artifact_reason,
        project=project,
    )
    show_report(state_of(context), report)


def show_report(state: CommandState, report: TaskReport) -> None:
    """Save a report, and show the task after it."""
    changed = report_task(state.home, report)
    row = show_task(state.home, select_project(state.home, report.project), changed.id)

    def human(screen: Screen) -> None:
        screen.say(f"{changed.id} {safe(changed.title)} is {changed.status}")

    state.show(row, human)


taskgraph_app = typer.Typer(
    add_completion=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What comes after what in a project, and the critical path.",
)

NodeId = Annotated[str, typer.Argument(metavar="NODE", help="Its id.")]


@taskgraph_app.callback()
def shown(context: typer.Context) -> None:
    """What comes after what in a project, and the critical path."""
    if context.invoked_subcommand is None:
        show_graph_command(context)


@taskgraph_app.command("show")
def show_graph_command(context: typer.Context, project: Project = "") -> None:
    """Show tasks and nodes, each after what it waits for."""
    state = state_of(context)
    show(state, show_graph(state.home, select_project(state.home, project)))


def show(state: CommandState, found: GraphReport) -> None:
    """Print a graph."""

    def human(screen: Screen) -> None:
        if not found.nodes:
            screen.say("no tasks and no nodes: `vyane task add TITLE` adds a task", "dim")
            return
        screen.table(
            ("id", "is", "after", "title"),
            [(one.id, one.status, ", ".join(one.after), safe(one.title)) for one in found.nodes],
        )
        screen.say("")
        if found.critical_path:
            screen.say("critical path: " + " → ".join(found.critical_path))
        ready = ", ".join(found.startable)
        screen.say(f"may start: {ready}" if ready else "no task may start", "" if ready else "dim")

    state.show(found, human)


@taskgraph_app.command("add")
def add_node_command(
    context: typer.Context,
    node: NodeId,
    title: Annotated[str, typer.Option(help="What the step is.")] = "",
    after: Annotated[
        list[str] | None,
        typer.Option(help="A task or node that must be done first; may be given again."),
    ] = None,
    project: Project = "",
) -> None:
    """Add a step of the plan, or change one. A task's id adds links to the task."""
    state = state_of(context)
    chosen = select_project(state.home, project)
    show(state, add_node(state.home, chosen, node, title=title, after=names_of(after)))


@taskgraph_app.command("mark")
def mark_command(
    context: typer.Context,
    node: NodeId,
    status: Annotated[str, typer.Option("--state", help="done or open.")] = "done",
    project: Project = "",
) -> None:
    """Mark a step as done, or as open again. A task is reported instead."""
    state = state_of(context)
    if status not in ("done", "open"):
        from vyane_cli.errors import InvalidInputError

        raise InvalidInputError("state", status, "done or open")
    chosen = select_project(state.home, project)
    show(state, mark_node(state.home, chosen, node, status == "done"))


@taskgraph_app.command("remove")
def remove_command(context: typer.Context, node: NodeId, project: Project = "") -> None:
    """Take a step out of the plan, when nothing comes after it."""
    state = state_of(context)
    chosen = select_project(state.home, project)
    show(state, remove_node(state.home, chosen, node))
