"""`vyane goal`: what a project is for, what must be seen to hold, and whether it is reached."""

from typing import Annotated

import typer

from vyane_cli.cli.context import State, state_of
from vyane_cli.cli.render.human import Screen, ago, safe
from vyane_cli.cli.task import Project
from vyane_cli.projects.goals import (
    GoalReport,
    accept_goal,
    describe_goal,
    get_goal,
    goal_status,
    set_goal,
)
from vyane_cli.projects.members import select_project

app = typer.Typer(
    add_completion=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The goal of a project: what must hold, and whether it does.",
)


@app.callback()
def shown(context: typer.Context) -> None:
    """The goal of a project: what must hold, and whether it does."""
    if context.invoked_subcommand is None:
        status_command(context)


@app.command("set")
def set_command(
    context: typer.Context,
    title: Annotated[str, typer.Argument(help="What the project is for, in one line.")],
    names: Annotated[
        list[str] | None,
        typer.Option("--accept", help="Something that must hold; once for each."),
    ] = None,
    project: Project = "",
) -> None:
    """Set the goal. The same title again keeps what was judged of the names that stay."""
    state = state_of(context)
    chosen = select_project(state.runtime, project)
    show_goal(state, describe_goal(chosen, set_goal(state.runtime, chosen, title, names or [])))


@app.command("show")
def show_command(context: typer.Context, project: Project = "") -> None:
    """Show the goal and what is known of each thing that it asks for."""
    state = state_of(context)
    chosen = select_project(state.runtime, project)
    show_goal(state, describe_goal(chosen, get_goal(state.runtime, chosen)))


def show_goal(state: State, goal: GoalReport) -> None:
    """Print a goal."""

    def human(screen: Screen) -> None:
        screen.heading(f"{goal.project}: {safe(goal.title)}")
        screen.table(
            (),
            [
                (one.state, one.name, f"{one.by}, {ago(one.at)}" if one.by else "")
                for one in goal.acceptance
            ],
        )

    state.show(goal, human)


@app.command("accept")
def accept_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What was looked at, as the goal names it.")],
    verdict: Annotated[str, typer.Option("--state", help="pass, fail, or unknown again.")] = "pass",
    project: Project = "",
) -> None:
    """Judge one thing that the goal asks for. The person does; an agent is refused."""
    state = state_of(context)
    chosen = select_project(state.runtime, project)
    show_goal(state, describe_goal(chosen, accept_goal(state.runtime, chosen, name, verdict)))


@app.command("status")
def status_command(context: typer.Context, project: Project = "") -> None:
    """Say whether the goal is open, complete or unknown, with the evidence."""
    state = state_of(context)
    found = goal_status(state.runtime, select_project(state.runtime, project))

    def human(screen: Screen) -> None:
        title = safe(found.title or "no goal is set")
        screen.heading(f"{found.project}: {title}: {found.state}")
        screen.table(
            ("source", "says", "because", "left"),
            [(one.source, one.says, one.detail, ", ".join(one.items)) for one in found.evidence],
        )

    state.show(found, human)
