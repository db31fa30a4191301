"""`vyane doctor`: checks of the installation and the state; `vyane gc`: garbage collection."""

import os
from typing import Annotated

import typer
from rich.text import Text

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, safe
from vyane_cli.health.doctor import Check, examine
from vyane_cli.health.repairs import Repair, repair
from vyane_cli.hosts import claude_settings
from vyane_cli.kernel.durations import parse_duration_s
from vyane_cli.upkeep.gc import GRACE_S, collect


def doctor_command(
    context: typer.Context,
    fix: Annotated[
        bool, typer.Option("--fix", help="Do the repairs that are safe, then look again.")
    ] = False,
) -> None:
    """Look at the installation and the state; say the next step.

    Changes nothing, unless you say --fix. Exits 1 if a check fails.
    """
    state = state_of(context)
    home, folder = state.home, os.getcwd()
    repairs = repair(home, claude_settings, folder) if fix else []
    checks = examine(home, claude_settings, folder)

    def human(screen: Screen) -> None:
        if fix:
            show_repairs(screen, repairs)
        show_checks(screen, checks)

    state.show(checks, human)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


def show_repairs(screen: Screen, repairs: list[Repair]) -> None:
    """Print the repairs, done and failed."""
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
    """Print the table of checks, with the failures last, next to the prompt.

    A cause that makes several checks fail is printed once, and so is each next step.
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


WORDS = {
    "lost": "{} spawned without a process any more; their parents are told",
    "resumed": "{} closed sessions resumed, because mail waits for them",
    "orphans": "{} go on without their parent; you are told of each",
    "stale": "{} at work without a sign for too long; you are told of each that is waited for "
    "and stays silent",
    "expired": "{} expired where nobody would have noticed; senders are told",
    "lapsed": "{} waited for an answer that did not come in its time",
    "archived": "{} settled messages archived by month",
    "keys": "{} idempotency keys past their time",
    "cancels": "{} settled cancels past their time",
    "bindings": "{} bindings of sessions that are long over",
    "claims": "{} ended claims by which no start of a task counts any more",
    "retired": "{} workers that ended long ago leave the registry",
    "sessions": "{} records of replaced sessions",
    "markers": "{} small files of sessions that are over",
    "leftovers": "{} files of a spawn or a retirement that a crash left",
    "blobs": "{} long texts that no message names",
    "temporary": "{} temporary files that a crash left",
    "trash": "{} deleted timelines that a crash left",
}


def gc_command(
    context: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")
    ] = False,
    older_than: Annotated[
        str, typer.Option(help="Archive what has been settled for so long, such as 7d.")
    ] = f"{GRACE_S:.0f}s",
) -> None:
    """Archive what is settled, by month; take away what is over.

    Nothing is lost: `show`, `why` and a retry with the same key find an archived message.
    """
    state = state_of(context)
    grace_s = parse_duration_s("older-than", older_than)
    result, exit_code = collect(state.home, grace_s=grace_s, dry_run=dry_run)

    def human(screen: Screen) -> None:
        done = [words.format(result[key]) for key, words in WORDS.items() if result[key]]
        if dry_run and done:
            screen.say("this would be done:", "bold")
        for line in done:
            screen.say(f"  {line}")
        for one in result["skipped"]:
            screen.say(f"  left: {safe(one['what'])}: {safe(one['message'])}", "red")
        if not done and not result["skipped"]:
            screen.say("nothing to do", "dim")

    state.show(result, human)
    if exit_code:
        raise typer.Exit(exit_code)
