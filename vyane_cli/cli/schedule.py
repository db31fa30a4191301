"""`vyane schedule`: when rounds run, their timers, and whether they are paused."""

from typing import Annotated

import typer

from vyane_cli.cli.context import State, state_of
from vyane_cli.cli.render.human import Screen, clock_time, safe
from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.durations import parse_duration_s
from vyane_cli.projects import schedule_2
from vyane_cli.projects.members import select_project
from vyane_cli.projects.schedule_rules import Status

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="When rounds of a project run: timers, pause, resume.",
)

ProjectOption = Annotated[str, typer.Option(help="Its name; else that of this folder.")]
WithOption = Annotated[
    str, typer.Option("--with", help="Who fires: cron, systemd or launchd. Else what is here.")
]


def say_paused(screen: Screen, projects: list[str]) -> None:
    """That something new waits in these projects for their rounds."""
    for name in projects:
        resume = f"vyane schedule resume --project {name}"
        screen.say(f"A and B of {name} are paused: {resume}", "yellow")


@app.command("install")
def install_command(
    context: typer.Context,
    project: ProjectOption = "",
    every: Annotated[
        str, typer.Option(help="The time between two rounds of one schedule, such as 30m or 2h.")
    ] = "",
    timer: WithOption = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "--print", help="Print what would be made; make nothing.")
    ] = False,
) -> None:
    """Make the timers of A and B, which run a round each; B lies half a step behind A.

    What a timer does not give (PATH, HOME, language) is recorded from this shell. Other entries
    stay as they are, and a second run replaces the first.
    """
    state = state_of(context)
    minutes = _minutes(every) if every else None
    found = select_project(state.runtime, project)
    done = schedule_2.install(state.runtime, found, minutes=minutes, kind=timer, dry_run=dry_run)

    def human(screen: Screen) -> None:
        if dry_run:
            for entry in done.entries:
                if entry.place != "crontab":
                    screen.say(entry.place, "bold")
                screen.body(entry.text.rstrip("\n"))
            return
        screen.say(f"rounds of {done.project} are run by {done.timer}")
        _list(screen, schedule_2.describe(state.runtime, found))
        screen.say("`vyane doctor` runs one in the timer's bare environment", "dim")

    state.show(done, human)


def _minutes(text: str) -> int:
    seconds = parse_duration_s("every", text)
    if seconds % 60:
        raise InvalidInputError("every", text, "whole minutes")
    return int(seconds // 60)


@app.command("remove")
def remove_command(
    context: typer.Context, project: ProjectOption = "", timer: WithOption = ""
) -> None:
    """Take the timers away. The schedules keep their times, and are paused or not as before."""
    state = state_of(context)
    done = schedule_2.remove(state.runtime, select_project(state.runtime, project), kind=timer)

    def human(screen: Screen) -> None:
        if done.removed:
            screen.say(f"{done.timer} runs no rounds of {done.project} any more")
        else:
            screen.say(f"{done.project} has no timers", "dim")

    state.show(done, human)


@app.command("list")
def list_command(context: typer.Context, project: ProjectOption = "") -> None:
    """Every schedule: its times, whether it is paused, who fires it."""
    _show_listing(state_of(context), project)


@app.command("next")
def next_command(context: typer.Context, project: ProjectOption = "") -> None:
    """When the next round of each schedule comes."""
    _show_listing(state_of(context), project)


def _show_listing(state: State, project: str) -> None:
    runtime = state.runtime
    found = (
        schedule_2.describe(runtime, select_project(runtime, project))
        if project
        else schedule_2.describe_all(runtime)
    )
    found.sort(key=lambda one: (one.next_at is None, one.next_at or 0))
    state.show(found, lambda screen: _list(screen, found))


def _list(screen: Screen, found: list[schedule_2.ScheduleReport]) -> None:
    if not found:
        screen.say("no project has a schedule: vyane project create", "dim")
        return
    screen.table(
        ("project", "schedule", "status", "next round", "run by", "times"),
        [
            (
                one.project,
                one.schedule,
                one.status,
                clock_time(one.next_at) if one.next_at else "paused",
                one.timer or "nobody: vyane schedule install",
                one.rrule,
            )
            for one in found
        ],
    )


@app.command("set")
def set_command(
    context: typer.Context,
    schedule: Annotated[str, typer.Argument(help="A or B.")],
    rrule: Annotated[
        str, typer.Argument(help='Its times, such as "FREQ=DAILY;BYHOUR=9;BYMINUTE=0,30".')
    ],
    project: ProjectOption = "",
) -> None:
    """Give one schedule other times, as an RRULE; `schedule install` then makes its timer anew."""
    state = state_of(context)
    found = select_project(state.runtime, project)
    known = schedule_2.set_rule(state.runtime, found, schedule, rrule)
    described = schedule_2.describe(state.runtime, found)

    def human(screen: Screen) -> None:
        _list(screen, described)
        if known.installed is not None:
            screen.say("run `vyane schedule install` to make the timer anew", "yellow")

    state.show(described, human)


@app.command("pause")
def pause_command(context: typer.Context, project: ProjectOption = "") -> None:
    """Pause A and B together: their timers go on, and their rounds end at once."""
    _set_status(state_of(context), project, Status.PAUSED)


@app.command("resume")
def resume_command(context: typer.Context, project: ProjectOption = "") -> None:
    """Let rounds of A and B work again."""
    _set_status(state_of(context), project, Status.ACTIVE)


def _set_status(state: State, project: str, status: Status) -> None:
    found = select_project(state.runtime, project)
    changed = schedule_2.set_status(state.runtime, found.name, status)
    data = {"project": found.name, "status": str(status), "changed": changed}

    def human(screen: Screen) -> None:
        words = "paused" if status is Status.PAUSED else "active"
        was = "" if changed else " already"
        screen.say(f"A and B of {safe(found.name)} are {words}{was}")

    state.show(data, human)
