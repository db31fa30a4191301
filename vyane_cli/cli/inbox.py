"""`vyane inbox`: what waits for a worker, and what became of it."""

from typing import Annotated

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, ago, complain, safe
from vyane_cli.cli.render.story import short
from vyane_cli.errors import InvalidInputError
from vyane_cli.home import Runtime
from vyane_cli.kernel.durations import parse_duration_s
from vyane_cli.mail.inboxes import list_messages
from vyane_cli.mail.mailbox import Entry
from vyane_cli.mail.message import Kind, Status
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.speaker import FromKind


def command(
    context: typer.Context,
    who: Annotated[
        str, typer.Argument(help="Worker, vs-…, or channel:NAME. Inside a session: your own.")
    ] = "",
    kind: Annotated[str, typer.Option(help="Only this kind.")] = "",
    status: Annotated[str, typer.Option(help="Only this status.")] = "",
    since: Annotated[str, typer.Option(help="Only what is younger, such as 2h.")] = "",
    session: Annotated[str, typer.Option(help="A logical session, vs-….")] = "",
    limit: Annotated[int, typer.Option(help="The newest N, 1 to 1000.")] = 100,
    everything: Annotated[
        bool, typer.Option("--all", help="Settled ones too, as far as they are not archived.")
    ] = False,
) -> None:
    """List messages. Looking changes nothing: only a delivery does."""
    state = state_of(context)
    _check("kind", kind, tuple(Kind))
    _check("status", status, tuple(Status))
    runtime = state.runtime
    if who and session:
        raise InvalidInputError("session", session, "given beside WHO: one of the two")
    who = who or session or _own(runtime)
    since_s = runtime.clock().at - parse_duration_s("since", since) if since else None
    listing = list_messages(
        runtime,
        who,
        kind=kind,
        status=status,
        since_s=since_s,
        limit=limit,
        everything=everything or state.as_json or status not in ("", "pending", "delivered"),
    )

    rows = listing.rows
    for error in listing.damaged:
        complain(f"{error.message}; what it held is not listed", error.hint)

    def human(screen: Screen) -> None:
        if not rows:
            more = "" if everything else "; --all shows settled ones"
            screen.say(f"nothing waits for {safe(who)}{more}", "dim")
            return
        screen.table(
            ("id", "age", "from", "kind", "lane", "status", "summary"),
            [
                (
                    short(message.id) if screen.narrow else message.id,
                    ago(message.ts).removesuffix(" ago"),
                    message.from_name,
                    message.kind,
                    message.lane,
                    row.entry.status,
                    _mark(row.entry) + message.summary,
                )
                for row in rows
                for message in (row.entry.message,)
            ],
        )

    state.show(rows, human)


def _own(runtime: Runtime) -> str:
    speaker = whoami(runtime)
    if speaker.kind is not FromKind.WORKER:
        hint = "outside of a session name one: `vyane inbox NAME`; `vyane workers` lists them"
        raise InvalidInputError("who", "", "given", missing=True, hint=hint)
    return speaker.id


def _mark(entry: Entry) -> str:
    rule = "handed to the host" if entry.handed else entry.rule
    held = f"[{rule}] " if entry.status is Status.PENDING and rule else ""
    return ("↻ " if entry.marks else "") + held


def _check(field: str, value: str, choices: tuple[str, ...]) -> None:
    if value and value not in choices:
        raise InvalidInputError(field, value, "one of " + ", ".join(choices))
