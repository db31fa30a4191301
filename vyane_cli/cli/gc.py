"""`vyane gc`: archive settled messages and take away what is over."""

from typing import Annotated

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, safe
from vyane_cli.kernel.durations import parse_duration_s
from vyane_cli.upkeep.gc import GRACE_S, collect

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


def command(
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
    result, exit_code = collect(state.runtime, grace_s=grace_s, dry_run=dry_run)

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
