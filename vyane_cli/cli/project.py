"""`vyane project` and `vyane goal`: projects, their workers and their goals."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from vyane_cli.cli.context import CommandState, state_of
from vyane_cli.cli.render.human import Screen, ago, counted, safe, shorten
from vyane_cli.cli.task import Project
from vyane_cli.projects.catalog import (
    CreatedReport,
    ProjectReport,
    UnreadableFile,
    create_project,
    describe_project,
    edit_project,
    faults_of,
    join,
    list_projects,
    select_here,
    select_project,
)
from vyane_cli.projects.goals import (
    GoalReport,
    accept_goal,
    describe_goal,
    get_goal,
    goal_status,
    set_goal,
)

project_app = typer.Typer(
    add_completion=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Projects: a folder with its tasks, its goal and its workers.",
)


@project_app.callback()
def listing(context: typer.Context) -> None:
    """Projects: a folder with its tasks, its goal and its workers."""
    if context.invoked_subcommand is None:
        list_command(context)


@project_app.command("list")
def list_command(context: typer.Context) -> None:
    """List the projects; `*` is the one that this folder means."""
    state = state_of(context)
    rows = list_projects(state.home)

    def human(screen: Screen) -> None:
        if not rows:
            screen.say("no projects yet: `vyane project create NAME --dir .` makes one", "dim")
            return
        screen.table(
            ("", "name", "tasks", "goal", "main", "workers", "folder"),
            [
                (
                    "*" if row.here else "",
                    row.name,
                    counts_text(row.tasks),
                    row.goal,
                    row.main_name or row.main or "—",
                    len(row.members) or "",
                    shorten(row.dir),
                )
                for row in rows
            ],
        )
        for row in rows:
            say_unreadable(screen, row.unreadable)

    state.show(rows, human)
    for fault in faults_of(state.home):
        raise fault  # only after the readable projects have been printed


def counts_text(counts: Mapping[str, int] | None) -> str:
    """Return the number of tasks by status, such as `2 pending, 1 done`."""
    if counts is None:
        return "unreadable"
    order = ("running", "pending", "blocked", "done")
    return ", ".join(f"{counts[one]} {one}" for one in order if counts.get(one)) or "none"


def say_unreadable(screen: Screen, files: Sequence[UnreadableFile]) -> None:
    """Print each file that could not be read, with the reason."""
    for one in files:
        screen.say(f"{one.path}: {one.state}: {one.detail}", "red")


@project_app.command("create")
def create_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Its name.")],
    folder: Annotated[
        str, typer.Option("--dir", help="Its folder: commands typed there mean this project.")
    ],
    main: Annotated[
        str, typer.Option(help="Its main worker: the one that is told how the project goes.")
    ] = "",
) -> None:
    """Make a project. Repeated it only makes files that are missing."""
    state = state_of(context)
    made = create_project(state.home, name, folder, main)
    report = CreatedReport(
        project=describe_project(state.home, made.project),
        created=made.created,
        files=made.files,
    )

    def human(screen: Screen) -> None:
        was = "is there" if made.created else "was there already"
        screen.say(f"project {name} {was}: {made.project.dir}")
        if made.files and not made.created:
            screen.say(f"made anew: {', '.join(made.files)}")
        if not made.project.main:
            screen.say("it has no main worker: vyane project edit " + name + " --main W", "dim")
        screen.say("next: vyane goal set TITLE --accept NAME, vyane task add TITLE", "dim")

    state.show(report, human)


@project_app.command("show")
def show_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Its name; else the one of this folder.")] = "",
) -> None:
    """Show one project."""
    state = state_of(context)
    show_project(state, describe_project(state.home, select_project(state.home, name)))


def show_project(state: CommandState, row: ProjectReport) -> None:
    """Print one project."""

    def human(screen: Screen) -> None:
        screen.heading(row.name)
        screen.pairs(
            [
                ("folder", shorten(row.dir)),
                *(("also", shorten(one)) for one in row.folders),
                ("main worker", row.main_name or row.main or "none is declared"),
                ("workers", counted(len(row.members), "worker")),
                ("tasks", counts_text(row.tasks)),
                ("goal", f"{row.goal}: {row.goal_title or 'none is set'}"),
            ]
        )
        say_unreadable(screen, row.unreadable)

    state.show(row, human)


@project_app.command("select")
def select_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Its name.")],
    folder: Annotated[str, typer.Option("--dir", help="The folder; else this one.")] = ".",
) -> None:
    """From now on commands typed in this folder, such as a worktree, mean the project."""
    state = state_of(context)
    project = select_here(state.home, name, folder)
    data = describe_project(state.home, project)
    state.show(data, lambda screen: screen.say(f"this folder means project {project.name} now"))


@project_app.command("edit")
def edit_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Its name.")],
    main: Annotated[
        str | None, typer.Option(help="Another main worker; none: it has none.")
    ] = None,
    folder: Annotated[str | None, typer.Option("--dir", help="Another folder.")] = None,
) -> None:
    """Declare another main worker or another folder."""
    state = state_of(context)
    wanted = "" if main == "none" else main
    project = edit_project(state.home, name, main=wanted, folder=folder)
    show_project(state, describe_project(state.home, project))


@project_app.command("join")
def join_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The project.")],
    worker: Annotated[str, typer.Argument(help="The worker: name, id or its beginning.")],
) -> None:
    """Declare that a worker, and all that it spawns, belongs to a project."""
    state = state_of(context)
    joined = join(state.home, name, worker)
    data = {"worker": joined.id, "project": joined.project}
    state.show(data, lambda s: s.say(f"{safe(joined.name)} belongs to {joined.project}"))


@project_app.command("leave")
def leave_command(
    context: typer.Context,
    worker: Annotated[str, typer.Argument(help="The worker: name, id or its beginning.")],
) -> None:
    """Declare that a worker belongs to no project."""
    state = state_of(context)
    left = join(state.home, "", worker)
    data = {"worker": left.id, "project": None}
    state.show(data, lambda screen: screen.say(f"{safe(left.name)} belongs to no project"))


goal_app = typer.Typer(
    add_completion=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The goal of a project: what must hold, and whether it does.",
)


@goal_app.callback()
def shown(context: typer.Context) -> None:
    """The goal of a project: what must hold, and whether it does."""
    if context.invoked_subcommand is None:
        status_command(context)


@goal_app.command("set")
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
    chosen = select_project(state.home, project)
    show_goal(state, describe_goal(chosen, set_goal(state.home, chosen, title, names or [])))


@goal_app.command("show")
def show_goal_command(context: typer.Context, project: Project = "") -> None:
    """Show the goal and what is known of each thing that it asks for."""
    state = state_of(context)
    chosen = select_project(state.home, project)
    show_goal(state, describe_goal(chosen, get_goal(state.home, chosen)))


def show_goal(state: CommandState, goal: GoalReport) -> None:
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


@goal_app.command("accept")
def accept_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What was looked at, as the goal names it.")],
    verdict: Annotated[str, typer.Option("--state", help="pass, fail, or unknown again.")] = "pass",
    project: Project = "",
) -> None:
    """Judge one thing that the goal asks for. The person does; an agent is refused."""
    state = state_of(context)
    chosen = select_project(state.home, project)
    show_goal(state, describe_goal(chosen, accept_goal(state.home, chosen, name, verdict)))


@goal_app.command("status")
def status_command(context: typer.Context, project: Project = "") -> None:
    """Say whether the goal is open, complete or unknown, with the evidence."""
    state = state_of(context)
    found = goal_status(state.home, select_project(state.home, project))

    def human(screen: Screen) -> None:
        title = safe(found.title or "no goal is set")
        screen.heading(f"{found.project}: {title}: {found.state}")
        screen.table(
            ("source", "says", "because", "left"),
            [(one.source, one.says, one.detail, ", ".join(one.items)) for one in found.evidence],
        )

    state.show(found, human)
