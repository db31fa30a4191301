"""`vyane taskgraph`: what comes after what, steps beyond the tasks, the critical path."""

from typing import Annotated

import typer

from vyane_cli.cli.context import State, state_of
from vyane_cli.cli.render.human import Screen, safe
from vyane_cli.cli.task import Project, names_of
from vyane_cli.projects.members import select_project
from vyane_cli.projects.taskgraph import GraphReport, add_node, mark_node, remove_node, show_graph

app = typer.Typer(
    add_completion=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What comes after what in a project, and the critical path.",
)

NodeId = Annotated[str, typer.Argument(metavar="NODE", help="Its id.")]


@app.callback()
def shown(context: typer.Context) -> None:
    """What comes after what in a project, and the critical path."""
    if context.invoked_subcommand is None:
        show_command(context)


@app.command("show")
def show_command(context: typer.Context, project: Project = "") -> None:
    """Show tasks and nodes, each after what it waits for."""
    state = state_of(context)
    show(state, show_graph(state.runtime, select_project(state.runtime, project)))


def show(state: State, found: GraphReport) -> None:
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


@app.command("add")
def add_command(
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
    chosen = select_project(state.runtime, project)
    show(state, add_node(state.runtime, chosen, node, title=title, after=names_of(after)))


@app.command("mark")
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
    chosen = select_project(state.runtime, project)
    show(state, mark_node(state.runtime, chosen, node, status == "done"))


@app.command("remove")
def remove_command(context: typer.Context, node: NodeId, project: Project = "") -> None:
    """Take a step out of the plan, when nothing comes after it."""
    state = state_of(context)
    chosen = select_project(state.runtime, project)
    show(state, remove_node(state.runtime, chosen, node))
