"""`vyane inbox`, `show` and `why`: the messages of a worker, and the story of one message."""

from typing import Annotated, Any

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, ago, clock_time, complain, safe, span
from vyane_cli.cli.render.story import short
from vyane_cli.errors import InvalidInputError
from vyane_cli.home import Home
from vyane_cli.kernel.durations import parse_duration_s
from vyane_cli.mail.lookup import MessageText, ShownMessage, find_message, list_messages, whole_text
from vyane_cli.mail.mailbox import MailEntry
from vyane_cli.mail.message import MessageKind, MessageStatus, body_of
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.speaker import FromKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.delivery.why import MessageStep


def inbox_command(
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
    _check("kind", kind, tuple(MessageKind))
    _check("status", status, tuple(MessageStatus))
    home = state.home
    if who and session:
        raise InvalidInputError("session", session, "given beside WHO: one of the two")
    who = who or session or _own(home)
    since_s = home.clock().at - parse_duration_s("since", since) if since else None
    listing = list_messages(
        home,
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


def _own(home: Home) -> str:
    speaker = whoami(home)
    if speaker.kind is not FromKind.WORKER:
        hint = "outside of a session name one: `vyane inbox NAME`; `vyane workers` lists them"
        raise InvalidInputError("who", "", "given", missing=True, hint=hint)
    return speaker.id


def _mark(entry: MailEntry) -> str:
    rule = "handed to the host" if entry.handed else entry.rule
    held = f"[{rule}] " if entry.status is MessageStatus.PENDING and rule else ""
    return ("↻ " if entry.marks else "") + held


def _check(field: str, value: str, choices: tuple[str, ...]) -> None:
    if value and value not in choices:
        raise InvalidInputError(field, value, "one of " + ", ".join(choices))


def show_command(
    context: typer.Context,
    message: Annotated[str, typer.Argument(help="The message's id, or six characters of it.")],
    full: Annotated[
        bool, typer.Option("--full", help="Only the text, whole: of a long result all of it.")
    ] = False,
) -> None:
    """Show a message with all its text. It settles nothing."""
    state = state_of(context)
    found = find_message(state.home, message)
    if full:
        text = whole_text(state.home, found.message)
        data = MessageText(id=found.message.id, text=text)
        state.show(data, lambda screen: screen.body(text))
        return
    entry = found.entry

    def human(screen: Screen) -> None:
        one = found.message
        rows = [
            ("id", one.id),
            ("from", f"{one.from_kind} {one.from_name} ({one.from_id})"),
            ("to", f"{one.to_kind} {one.to_id}"),
            ("kind", f"{one.kind}, lane {one.lane}"),
            ("sent", f"{clock_time(one.ts)} ({ago(one.ts)})"),
            ("status", entry.status),
        ]
        moments = (("delivered", entry.delivered_at), ("consumed", entry.consumed_at))
        rows += [(name, clock_time(at)) for name, at in moments if at]
        links = (
            ("failure reason", entry.failure_reason),
            ("parent message id", one.parent_message_id),
            ("correlation id", one.correlation_id),
            ("task id", one.task_id),
        )
        rows += [(name, value) for name, value in links if value]
        screen.pairs(rows)
        screen.say("")
        screen.body(body_of(one))

    state.show(ShownMessage(entry=entry), human)


def why_command(
    context: typer.Context,
    message: Annotated[str, typer.Argument(help="The message's id, or six characters of it.")],
) -> None:
    """Explain why a message was, or was not, delivered."""
    state = state_of(context)
    from vyane_cli.delivery.why import tell

    told = tell(state.home, message)

    def human(screen: Screen) -> None:
        parties = f"{safe(told.from_name)} → {safe(told.to_name)}"
        screen.heading(f"{told.id}  {parties}  ({told.lane})")
        screen.say(safe(told.summary))
        screen.say("")
        screen.table(
            ("when", "what", "rule", "on what"),
            [
                (clock_time(one.at) if one.at else "", one.step, one.rule, _why(one))
                for one in told.steps
            ],
        )
        screen.say("")
        screen.say(told.now, "bold")

    state.show(told, human)


def _reading(key: str, value: Any) -> str:
    """Return a reading in words: `last_start_s_ago: 1.9` becomes `last start 2 s ago`."""
    words = key.split("_")
    if "s" in words and isinstance(value, (int, float)):
        words[words.index("s")] = span(value)
        return " ".join(words)
    return safe(f"{' '.join(words)} {value}")


def _why(one: "MessageStep") -> str:
    parts = [one.why] if one.why else []
    parts += [_reading(key, value) for key, value in (one.readings or {}).items()]
    if one.again_ms:
        parts.append(f"tried again in {span(one.again_ms / 1000)}")
    if one.transport:
        parts.append(f"by {one.transport}")
    if one.evidence:
        parts.append(f"seen: {one.evidence}")
    return "; ".join(parts)
