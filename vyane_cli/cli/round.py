"""`vyane wake`: one round of a project."""

from typing import Annotated

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, safe
from vyane_cli.cli.workers import shorten
from vyane_cli.projects.dispatch import CALL, NOTHING, Dispatched
from vyane_cli.projects.gaps import FedBack
from vyane_cli.projects.members import project_of_round
from vyane_cli.projects.round import CalledAndPaused, Done, Paused, Round, wake

WORDS = {
    "nothing": "do nothing",
    "dispatch-one": "start one worker",
    "call-and-pause": "call you, and pause A and B",
    "pause": "pause A and B",
    "feed-back": "say what is missing",
}


def command(
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
    meant = project_of_round(state.runtime, project, dry_run=dry_run)
    made = wake(state.runtime, meant, schedule, dry_run=dry_run)
    state.show(made.report(), lambda screen: show(screen, made))
    if made.error is not None:
        raise made.error


def show(screen: Screen, made: Round) -> None:
    """The cell, why, what was done, and what was read."""
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
    """What a round would do."""
    if task == NOTHING:
        return "would start nobody: every task that is left waits for something"
    if task == CALL:
        return "would start nobody and call you: no task that is left starts by itself"
    words = WORDS[action]
    return words if action == "nothing" else f"would {words}" + (f" for {task}" if task else "")


def described(done: Done | None) -> list[str]:
    """Return what came of the action, in words."""
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
