"""`vyane workers`: who is there, what each does; register one by hand; rename."""

import os
from typing import Annotated

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, ago, safe
from vyane_cli.sessions.liveness import WorkerReport, describe_worker, list_workers
from vyane_cli.sessions.register import register_worker
from vyane_cli.sessions.rename import rename_worker
from vyane_cli.sessions.worker import FINAL, WorkerStatus

app = typer.Typer(
    add_completion=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="List the workers: who is there, and what each does.",
)


@app.callback()
def listing(
    context: typer.Context,
    session: Annotated[
        str, typer.Option(help="Only of a logical session: vs-…, or a worker's.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Ended ones too.")] = False,
) -> None:
    """List the workers: who is there, and what each does."""
    if context.invoked_subcommand is not None:
        return
    state = state_of(context)
    rows = list_workers(state.runtime, session=session, everything=everything)
    state.show(rows, lambda screen: show_workers(screen, rows))


def show_workers(screen: Screen, rows: list[WorkerReport]) -> None:
    """The table of workers."""
    if not rows:
        screen.say("no workers yet: a session registers itself when it starts", "dim")
        screen.say("`vyane hooks install` sets that up; `vyane doctor` checks it", "dim")
        return
    sign = "sign" if screen.narrow else "last sign"
    screen.table(
        ("name", "id", "does", "mail", sign, "reached by", "folder"),
        [
            (
                row.worker.name,
                row.worker.id,
                _does(row),
                row.pending or "",
                ago(row.last_heartbeat).removesuffix(" ago" if screen.narrow else ""),
                " ".join(row.transports) or "—",
                shorten(row.worker.cwd),
            )
            for row in rows
        ],
    )


TELLING = FINAL | {WorkerStatus.STALE}
"""Statuses that say more than the liveness."""


def _does(row: WorkerReport) -> str:
    if row.ambiguous:
        return "ambiguous"
    does = row.status.lower() if row.status in TELLING else str(row.liveness)
    return does + ", taken over" if row.pending_takeover_message_id else does


def shorten(path: str) -> str:
    """A path with the home folder as `~`."""
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(home + os.sep) else path


@app.command("list")
def list_command(
    context: typer.Context,
    session: Annotated[
        str, typer.Option(help="Only of a logical session: vs-…, or a worker's.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Ended ones too.")] = False,
) -> None:
    """List the workers."""
    state = state_of(context)
    rows = list_workers(state.runtime, session=session, everything=everything)
    state.show(rows, lambda screen: show_workers(screen, rows))


@app.command("register")
def register_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Its name: what others send to.")],
    session_id: Annotated[str, typer.Option(help="Its host's session id; else a made one.")] = "",
    cwd: Annotated[str, typer.Option(help="Its working folder; else this one.")] = "",
    pid: Annotated[int, typer.Option(help="Its process, so that its end is noticed.")] = 0,
    worker_type: Annotated[str, typer.Option("--type", help="What it runs.")] = "generic",
) -> None:
    """Register a worker of a host without hooks: it reads its mail with `tick --host generic`."""
    state = state_of(context)
    worker = register_worker(
        state.runtime,
        name,
        session_id=session_id,
        cwd=os.path.abspath(cwd or os.getcwd()),
        pid=pid,
        worker_type=worker_type,
    )
    data = describe_worker(state.runtime, worker)

    def human(screen: Screen) -> None:
        screen.say(f"{safe(worker.name)} is registered as {worker.id}")
        if worker.generation > 1:
            screen.say(f"generation {worker.generation}: mail of the former owner is offered once")
        screen.say(f"its mail: vyane tick --host generic --worker {worker.id}", "dim")

    state.show(data, human)


@app.command("rename")
def rename_command(
    context: typer.Context,
    worker: Annotated[str, typer.Argument(help="Its name, or the beginning of its id.")],
    name: Annotated[str, typer.Argument(help="The new name.")],
) -> None:
    """Give a worker another name. Mail goes by id: none of it is affected."""
    state = state_of(context)
    renamed = rename_worker(state.runtime, worker, name)
    data = describe_worker(state.runtime, renamed)
    state.show(data, lambda screen: screen.say(f"{renamed.id} is {safe(renamed.name)} now"))
