"""`vyane wake`: one round of a project; `vyane schedule`: the timers that run rounds."""

from typing import Annotated

import typer

from vyane_cli.cli.context import CommandState, state_of
from vyane_cli.cli.render.human import Screen, clock_time, safe, shorten
from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.durations import parse_duration_s
from vyane_cli.projects import schedule as schedules
from vyane_cli.projects.catalog import project_of_round, select_project
from vyane_cli.projects.dispatch import CALL, NOTHING, Dispatched
from vyane_cli.projects.gaps import FedBack
from vyane_cli.projects.round import CalledAndPaused, Done, Paused, Round, preview_round
from vyane_cli.projects.schedule_rules import ScheduleStatus
from vyane_cli.setup.guard import install_guard
from vyane_cli.upkeep.rounds import run_round

WORDS = {
    "nothing": "do nothing",
    "dispatch-one": "start one worker",
    "call-and-pause": "call you, and pause A and B",
    "pause": "pause A and B",
    "feed-back": "say what is missing",
}


def wake_command(
    context: typer.Context,
    project: Annotated[str, typer.Option(help="Its name; else that of this folder.")] = "",
    schedule: Annotated[
        str, typer.Option(help="The schedule that runs it, A or B: while it is paused, nothing.")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and decide; change nothing.")
    ] = False,
) -> None:
    """Run one round of a project: do the one right thing.

    Nothing, start one worker, tell the main worker what is missing, call the person, or pause
    because the goal is met. A timer runs it: `vyane schedule install`.
    """
    state = state_of(context)
    meant = project_of_round(state.home, project, dry_run=dry_run)
    step = preview_round if dry_run else run_round
    made = step(state.home, meant, schedule)
    state.show(made.report(), lambda screen: show(screen, made))
    if made.error is not None:
        raise made.error


def show(screen: Screen, made: Round) -> None:
    """Print a round: the cell, its reason, what was done, and the readings."""
    verdict, done = made.verdict, made.done
    words = in_words(verdict.action, made.would) if made.dry_run else WORDS[verdict.action]
    if isinstance(done, Dispatched) and done.outcome == NOTHING:
        words = "call you, and start nobody" if done.called else "start nobody"
    screen.say(f"{made.project}: {verdict.cell} ({verdict.reason}), {words}", "bold")
    for line in described(done):
        screen.say(f"  {line}")
    for one in (made.maintenance or {}).get("skipped", ()):
        screen.say(f"  left: {safe(one['what'])}: {safe(one['message'])}", "red")
    screen.table(
        ("reading", "value", "detail", "file"),
        [(one.name, one.value, one.detail, shorten(one.file)) for one in made.seen.readings],
    )


def in_words(action: str, task: str) -> str:
    """Return what a round would do, in words."""
    if task == NOTHING:
        return "would start nobody: every task that is left waits for something"
    if task == CALL:
        return "would start nobody and call you: no task that is left starts by itself"
    words = WORDS[action]
    return words if action == "nothing" else f"would {words}" + (f" for {task}" if task else "")


def described(done: Done | None) -> list[str]:
    """Return the result of a round's action, one line each."""
    match done:
        case Dispatched():
            again = "{} is not started again by itself; you are called"
            return [
                f"{done.outcome}: {safe(done.detail)}",
                *(again.format(task) for task in done.stuck),
            ]
        case CalledAndPaused():
            called = f"you are called for {', '.join(done.called_for)}"
            return [_paused(done.paused), *([called] if done.called_for else [])]
        case Paused():
            return [_paused(done.paused)]
        case FedBack():
            told = f"told in {done.message_id}" if done.message_id else "told before"
            left = f"left: {safe(', '.join(done.left) or '?')} ({told})"
            return [left, *(safe(one) for one in done.why)]
        case _:
            return []


def _paused(changed: bool) -> str:
    return "A and B are paused" if changed else "A and B were paused already"


schedule_app = typer.Typer(
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
    """Print that rounds of these projects are paused, and the command that resumes them."""
    for name in projects:
        resume = f"vyane schedule resume --project {name}"
        screen.say(f"A and B of {name} are paused: {resume}", "yellow")


@schedule_app.command("install")
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
    found = select_project(state.home, project)
    done = schedules.install(
        state.home,
        found,
        minutes=minutes,
        kind=timer,
        dry_run=dry_run,
        install_guard=install_guard,
    )

    def human(screen: Screen) -> None:
        if dry_run:
            for entry in done.entries:
                if entry.place != "crontab":
                    screen.say(entry.place, "bold")
                screen.body(entry.text.rstrip("\n"))
            return
        screen.say(f"rounds of {done.project} are run by {done.timer}")
        _list(screen, schedules.describe(state.home, found))
        screen.say("`vyane doctor` runs one in the timer's bare environment", "dim")

    state.show(done, human)


def _minutes(text: str) -> int:
    seconds = parse_duration_s("every", text)
    if seconds % 60:
        raise InvalidInputError("every", text, "whole minutes")
    return int(seconds // 60)


@schedule_app.command("remove")
def remove_command(
    context: typer.Context, project: ProjectOption = "", timer: WithOption = ""
) -> None:
    """Take the timers away. The schedules keep their times, and are paused or not as before."""
    state = state_of(context)
    done = schedules.remove(state.home, select_project(state.home, project), kind=timer)

    def human(screen: Screen) -> None:
        if done.removed:
            screen.say(f"{done.timer} runs no rounds of {done.project} any more")
        else:
            screen.say(f"{done.project} has no timers", "dim")

    state.show(done, human)


@schedule_app.command("list")
def list_command(context: typer.Context, project: ProjectOption = "") -> None:
    """Every schedule: its times, whether it is paused, who fires it."""
    _show_listing(state_of(context), project)


@schedule_app.command("next")
def next_command(context: typer.Context, project: ProjectOption = "") -> None:
    """When the next round of each schedule comes."""
    _show_listing(state_of(context), project)


def _show_listing(state: CommandState, project: str) -> None:
    home = state.home
    found = (
        schedules.describe(home, select_project(home, project))
        if project
        else schedules.describe_all(home)
    )
    found.sort(key=lambda one: (one.next_at is None, one.next_at or 0))
    state.show(found, lambda screen: _list(screen, found))


def _list(screen: Screen, found: list[schedules.ScheduleReport]) -> None:
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


@schedule_app.command("set")
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
    found = select_project(state.home, project)
    known = schedules.set_rule(state.home, found, schedule, rrule)
    described = schedules.describe(state.home, found)

    def human(screen: Screen) -> None:
        _list(screen, described)
        if known.installed is not None:
            screen.say("run `vyane schedule install` to make the timer anew", "yellow")

    state.show(described, human)


@schedule_app.command("pause")
def pause_command(context: typer.Context, project: ProjectOption = "") -> None:
    """Pause A and B together: their timers go on, and their rounds end at once."""
    _set_status(state_of(context), project, ScheduleStatus.PAUSED)


@schedule_app.command("resume")
def resume_command(context: typer.Context, project: ProjectOption = "") -> None:
    """Let rounds of A and B work again."""
    _set_status(state_of(context), project, ScheduleStatus.ACTIVE)


def _set_status(state: CommandState, project: str, status: ScheduleStatus) -> None:
    found = select_project(state.home, project)
    changed = schedules.set_status(state.home, found.name, status)
    data = {"project": found.name, "status": str(status), "changed": changed}

    def human(screen: Screen) -> None:
        words = "paused" if status is ScheduleStatus.PAUSED else "active"
        was = "" if changed else " already"
        screen.say(f"A and B of {safe(found.name)} are {words}{was}")

    state.show(data, human)
