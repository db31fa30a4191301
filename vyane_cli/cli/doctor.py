"""`vyane doctor`: look at everything, say what is wrong and what to do about it."""

import os
from typing import Annotated

import typer
from rich.text import Text

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, safe
from vyane_cli.health.doctor import Check, examine
from vyane_cli.health.repairs import Repair, repair
from vyane_cli.hosts import claude_settings


def command(
    context: typer.Context,
    fix: Annotated[
        bool, typer.Option("--fix", help="Do the repairs that are safe, then look again.")
    ] = False,
) -> None:
    """Look at the installation and the state; say the next step.

    Changes nothing, unless you say --fix. Exits 1 if a check fails.
    """
    state = state_of(context)
    runtime, folder = state.runtime, os.getcwd()
    repairs = repair(runtime, claude_settings, folder) if fix else []
    checks = examine(runtime, claude_settings, folder)

    def human(screen: Screen) -> None:
        if fix:
            show_repairs(screen, repairs)
        show_checks(screen, checks)

    state.show(checks, human)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


def show_repairs(screen: Screen, repairs: list[Repair]) -> None:
    """What was put right."""
    for one in repairs:
        words = f"{safe(one.what)}: {safe(one.done)}"
        if one.ok:
            screen.say(f"mended  {words}", "green")
        else:
            screen.say(f"left    {words}", "bold red")
    if not repairs:
        screen.say("nothing that could be mended", "dim")
    screen.say("")


def show_checks(screen: Screen, checks: list[Check]) -> None:
    """The table, failures last, where the eye is when it has been printed.

    One cause makes several checks fail: it is said once, and so is each next step.
    """
    failed = [check for check in checks if not check.ok]
    rows: list[tuple[object, ...]] = [
        ("ok", check.check, Text(safe(check.detail), style="dim")) for check in checks if check.ok
    ]
    first: dict[str, str] = {}
    steps: dict[str, list[str]] = {}
    for check in failed:
        known = first.setdefault(check.detail, check.check)
        if known == check.check:
            steps.setdefault(check.fix, []).append(check.check)
        detail = safe(check.detail) if known == check.check else f"as `{known}`"
        rows.append(("FAIL", Text(check.check, style="bold"), detail))
    screen.table((), rows)
    screen.say("")
    for step, names in steps.items():
        screen.say(f"{', '.join(names)}: {safe(step)}", "bold yellow")
    if not failed:
        screen.say(f"all {len(checks)} checks passed", "bold green")
    else:
        if len(failed) > 1:
            screen.say("")
        number = "1 check fails" if len(failed) == 1 else f"{len(failed)} checks fail"
        screen.say(f"{number} of {len(checks)}", "bold red")
