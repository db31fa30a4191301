"""`vyane send`, `reply` and `relay`: commands that put a message in a session's inbox."""

import json
from typing import Annotated, Any

import typer

from vyane_cli.children.report import send_or_report
from vyane_cli.cli import streams
from vyane_cli.cli.context import CommandState, state_of
from vyane_cli.cli.render.human import Screen, safe
from vyane_cli.delivery.outlook import state_of_sent
from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.durations import parse_duration_s
from vyane_cli.mail.enqueue import Sent
from vyane_cli.mail.message import MessageKind
from vyane_cli.mail.routing import parse_address
from vyane_cli.mail.send import MessageDraft

BODY_KEYS = {
    "to": "to", "text": "text", "kind": "kind", "payload": "payload", "summary": "summary",
    "ttl_seconds": "ttl_s", "from_kind": "from_kind", "parent_message_id": "reply_to",
    "reply_to": "reply_to", "task_id": "task_id", "correlation_id": "correlation_id",
    "idempotency_key": "idempotency_key", "await_reply": "await_reply", "to_id": "to",
    "to_kind": "",
}  # fmt: skip
"""Keys of `--from-json` → fields of a MessageDraft."""


TEXT_KEYS = (
    "text", "kind", "summary", "from_kind", "reply_to", "task_id", "correlation_id",
    "idempotency_key",
)  # fmt: skip


def send_command(
    context: typer.Context,
    to: Annotated[
        str,
        typer.Argument(
            help="Worker (name, id or its beginning), vs-…, channel:NAME, parent, children, or all."
        ),
    ] = "",
    text: Annotated[str, typer.Argument(help="The text; `-` reads it from standard input.")] = "",
    kind: Annotated[
        str,
        typer.Option(
            help="What it asks for; context-inject if not given. `vyane describe` lists all."
        ),
    ] = "",
    payload: Annotated[
        str, typer.Option(help="A JSON object instead of, or beside, the text.")
    ] = "",
    from_json: Annotated[
        str, typer.Option(help="A message as JSON: a file, or `-`. Options given beside it win.")
    ] = "",
    summary: Annotated[
        str | None, typer.Option(help="One line for lists; else the text's first line.")
    ] = None,
    ttl: Annotated[
        str, typer.Option(help="How long it may wait, such as 2h. Default 24h; info 1h.")
    ] = "",
    reply_to: Annotated[str, typer.Option(help="The message that this one answers.")] = "",
    task_id: Annotated[str, typer.Option(help="Your own reference, such as an issue's id.")] = "",
    correlation_id: Annotated[str, typer.Option(help="What ties a dispatch and its result.")] = "",
    idempotency_key: Annotated[
        str, typer.Option(help="The same key again stores nothing twice.")
    ] = "",
    await_reply: Annotated[
        bool,
        typer.Option("--await-reply", help="You can do nothing until the answer: it wakes you."),
    ] = False,
    from_kind: Annotated[
        str, typer.Option(help="human, for a person's own script; external, for another program.")
    ] = "",
) -> None:
    """Put a message in a session's inbox. It is on disk when this returns.

    An idle session wakes for it, a working one gets it after its current tool call, a closed one
    when it comes back. Outside a session the message comes from you.
    """
    state = state_of(context)
    if from_json:
        given = {
            "to": to,
            "text": read_text(text),
            "kind": kind,
            "payload": parse_object("payload", payload) if payload else None,
            "summary": summary,
            "ttl_seconds": parse_duration_s("ttl", ttl) if ttl else None,
            "reply_to": reply_to,
            "task_id": task_id,
            "correlation_id": correlation_id,
            "idempotency_key": idempotency_key,
            "await_reply": await_reply,
            "from_kind": from_kind,
        }
        draft = parse_body(_read(from_json), {key: one for key, one in given.items() if one})
    else:
        draft = MessageDraft(
            to=to,
            text=read_text(text),
            kind=kind or MessageKind.CONTEXT_INJECT,
            payload=parse_object("payload", payload) if payload else None,
            summary=summary,
            ttl_s=parse_duration_s("ttl", ttl) if ttl else None,
            from_kind=from_kind or None,
            reply_to=reply_to or None,
            task_id=task_id or None,
            correlation_id=correlation_id or None,
            idempotency_key=idempotency_key or None,
            await_reply=await_reply,
        )
    show_sent(state, send_or_report(state.home, draft))


def show_sent(state: CommandState, sent: Sent) -> None:
    """Print the id of each stored message and what happens to it next."""
    stored = state_of_sent(state.home, sent)

    def human(screen: Screen) -> None:
        again = " (already stored)" if sent.repeated else ""
        for one, name in zip(stored.copies or (stored.first,), sent.names, strict=True):
            screen.say(f"stored {one.id} for {safe(name)}{again}: {one.outlook}")

    state.show(stored, human)


def read_text(text: str) -> str:
    """Return the text of an argument; `-` reads standard input, as UTF-8 in every locale."""
    if text != "-":
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return streams.read("text").rstrip("\n")


def _read(path: str) -> str:
    if path == "-":
        return streams.read("from-json")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise InvalidInputError("from-json", path, f"readable: {error.strerror}") from None


def parse_object(field: str, text: str) -> dict[str, Any]:
    """Parse a JSON object that was typed on the command line."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(field, text, f"JSON ({error})") from None
    if not isinstance(value, dict):
        raise InvalidInputError(field, text, "a JSON object")
    return value


def parse_body(text: str, given: dict[str, Any]) -> MessageDraft:
    """Parse the JSON form of a message, updated with `given`. Return a draft.

    Raises InvalidInputError for a key that a sender may not set, and for values of a wrong type.
    """
    body = {**parse_object("from-json", text), **given}
    fields: dict[str, Any] = {}
    for key, value in body.items():
        if key not in BODY_KEYS:
            raise InvalidInputError(
                f"from-json.{key}",
                value,
                "a key that a sender sets",
                hint="known: " + ", ".join(sorted(BODY_KEYS)),
            )
        if BODY_KEYS[key] and value is not None:
            fields[BODY_KEYS[key]] = value
    to_kind, to = body.get("to_kind"), fields.get("to", "")
    if not isinstance(to, str) or not (to or to_kind == "broadcast"):
        raise InvalidInputError("from-json.to", to, "an address")
    if to_kind == "broadcast" or to == "*":
        if to_kind != "broadcast" or to not in ("", "*", "all"):
            raise InvalidInputError("from-json.to", to, "`*`, with to_kind broadcast")
        fields["to"] = "all"
    elif to_kind == "channel" and not to.startswith("channel:"):
        fields["to"] = "channel:" + to
    elif to_kind not in (None, "worker", "logical_session", "channel"):
        raise InvalidInputError(
            "from-json.to_kind", to_kind, "worker, logical_session, channel or broadcast"
        )
    if to_kind is not None and parse_address(fields["to"]).kind != to_kind:
        raise InvalidInputError("from-json.to", to, f"an address of the kind {to_kind}")
    if "payload" in fields and not isinstance(fields["payload"], dict):
        raise InvalidInputError("from-json.payload", fields["payload"], "a JSON object")
    for key in TEXT_KEYS:
        if key in fields and not isinstance(fields[key], str):
            raise InvalidInputError(f"from-json.{key}", fields[key], "a text")
    if not isinstance(fields.get("await_reply", False), bool):
        raise InvalidInputError("from-json.await_reply", fields["await_reply"], "true or false")
    ttl = fields.get("ttl_s")
    if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, (int, float))):
        raise InvalidInputError("from-json.ttl_seconds", ttl, "a number of seconds")
    return MessageDraft(**fields)


def reply_command(
    context: typer.Context,
    message: Annotated[str, typer.Argument(help="The message's id, or six characters of it.")],
    text: Annotated[str, typer.Argument(help="The answer; `-` reads it from standard input.")],
    idempotency_key: Annotated[
        str, typer.Option(help="The same key again stores nothing twice.")
    ] = "",
) -> None:
    """Answer a message: to its sender, in its chain."""
    state = state_of(context)
    draft = MessageDraft("", read_text(text), idempotency_key=idempotency_key or None)
    from vyane_cli.delivery.reply import reply  # `send` needs nothing of it

    show_sent(state, reply(state.home, message, draft))


def relay_command(
    context: typer.Context,
    child: Annotated[str, typer.Argument(help="A child's name, or the beginning of its id.")],
    text: Annotated[str, typer.Argument(help="The text; `-` reads it from standard input.")],
    idempotency_key: Annotated[
        str, typer.Option(help="The same key again stores nothing twice.")
    ] = "",
) -> None:
    """Pass a text on to a child; a person: to any worker."""
    state = state_of(context)
    draft = MessageDraft(child, read_text(text), idempotency_key=idempotency_key or None)
    from vyane_cli.delivery.reply import relay

    show_sent(state, relay(state.home, draft))
