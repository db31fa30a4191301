"""`vyane status`: everything at a glance."""

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, ago, clock_time, safe
from vyane_cli.cli.round import in_words
from vyane_cli.cli.workers import show_workers
from vyane_cli.projects.overview import overview as look_over
from vyane_cli.projects.standing import ProjectStanding
from vyane_cli.projects.task import TaskStatus


def command(context: typer.Context) -> None:
    """Who is there, what waits, how projects stand, who needs you."""
    overview(context)


def overview(context: typer.Context) -> None:
    """The same, also for `vyane` alone."""
    state = state_of(context)
    seen = look_over(state.runtime)

    def human(screen: Screen) -> None:
        if not seen.initialised:
            screen.heading("vyane: coding-agent sessions on this machine work together")
            screen.say("")
            screen.say("It is not set up yet:")
            screen.say("  vyane hooks install    connect Claude Code")
            screen.say("  vyane init             the state folder alone, for other programs")
            screen.say("")
            screen.say("`vyane demo` shows what it does, `vyane --help` lists the commands.", "dim")
            return
        show_workers(screen, seen.workers)
        for project in seen.projects:
            screen.say("")
            show_project(screen, project)
        for fault in seen.unreadable:
            screen.say(f"a project cannot be read: {safe(fault)}", "red")
        if seen.pending:
            screen.say("")
            old = ago(seen.oldest_pending_at)
            screen.say(f"{seen.pending} pending; the oldest was sent {old}", "yellow")
        for need in seen.need_user:
            screen.say(f"you are needed: {safe(need['text'])}", "bold")
        if seen.quarantined:
            screen.say(f"{seen.quarantined} damaged pieces are set aside: vyane doctor", "red")

    state.show(seen, human)


def show_project(screen: Screen, seen: ProjectStanding) -> None:
    """One project: its goal, its ledger, and what the next round would do and why."""
    title = f" — {safe(seen.title)}" if seen.title else ""
    screen.say(f"{safe(seen.project)}: goal {seen.goal}{title}", "bold")
    counts = ", ".join(f"{count} {name}" for name, count in seen.tasks.items() if count)
    screen.say(f"  tasks: {counts or 'none'}; main: {safe(seen.main or 'none is declared')}")
    for task in seen.shown:
        why = f": {task.reason}" if task.reason else ""
        line = f"  {task.status}: {safe(task.id)} {safe(task.title)}{safe(why)}"
        screen.say(line, "red" if task.status is TaskStatus.BLOCKED else "")
    coming = seen.next
    timer = any(one.timer for one in seen.schedules)
    when = f"next round {clock_time(coming.at)}" if coming.at else "next round"
    when = "A and B are paused; a round by hand" if coming.paused else when
    when = when if timer or coming.paused else "no timer runs rounds; one by hand"
    what = in_words(coming.action, coming.would or "")
    screen.say(f"  {when}: {safe(what)} ({coming.cell}, {coming.reason})")
    if seen.alert:
        screen.say(f"  {safe(seen.alert)}", "yellow")
    if seen.problem:
        screen.say(f"  {safe(seen.problem)}", "red")
