"""`vyane bind`: give a session a place where people follow it and talk to it."""

from typing import Annotated

import typer

from vyane_cli.channels.port import Conversation
from vyane_cli.channels.references import DEFAULT_ACCOUNT, parse_conversation
from vyane_cli.cli.context import state_of
from vyane_cli.cli.message import parse_object
from vyane_cli.cli.render.human import Screen, clock_time, safe
from vyane_cli.conversations.bind import Wanted, bind
from vyane_cli.conversations.binding import Binding
from vyane_cli.conversations.binding_forms import render_binding
from vyane_cli.conversations.channels import is_set_up
from vyane_cli.kernel.durations import parse_duration_s


def command(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="Worker (name, id or its beginning), or vs-….")],
    channel: Annotated[str, typer.Option(help="Such as file.")] = "",
    conversation: Annotated[
        str, typer.Option(help="Id of a conversation that is there; without it a new one is made.")
    ] = "",
    account: Annotated[str, typer.Option(help="Account of the channel.")] = DEFAULT_ACCOUNT,
    parent: Annotated[str, typer.Option(help="What the conversation lies in.")] = "",
    ref: Annotated[
        str, typer.Option(help="The four before as one JSON object, in snake_case or camelCase.")
    ] = "",
    kind: Annotated[
        str, typer.Option(help="session or subagent; else by whether it has a parent.")
    ] = "",
    placement: Annotated[
        str, typer.Option(help="current (a conversation that is there) or child (a new one).")
    ] = "",
    ttl: Annotated[str, typer.Option(help="How long it lasts, such as 2h: its greatest age.")] = "",
    idle: Annotated[
        str, typer.Option(help="How long it may be silent; 0 for ever. Else bindings.idle_s.")
    ] = "",
    max_age: Annotated[
        str, typer.Option(help="How old it may become; 0 for ever. Else bindings.max_age_s.")
    ] = "",
    expires_at: Annotated[
        float | None, typer.Option(help="An absolute end in Unix seconds; no touch moves it.")
    ] = None,
    metadata: Annotated[
        str, typer.Option(help="A JSON object to keep with it. Secrets are refused.")
    ] = "",
) -> None:
    """Bind a session to a conversation: results there, words back.

    A conversation speaks to one session: binding it again replaces what was bound there.
    """
    state = state_of(context)
    where = Conversation(channel, account, conversation, parent)
    if ref:
        where = parse_conversation(parse_object("ref", ref))
    windows = (ttl, "ttl"), (idle, "idle"), (max_age, "max-age")
    ttl_s, idle_s, max_age_s = (window_s(name, text) for text, name in windows)
    bound = bind(
        state.runtime,
        Wanted(
            session,
            where,
            kind,
            placement,
            ttl_s,
            idle_s,
            max_age_s,
            expires_at,
            parse_object("metadata", metadata) if metadata else {},
        ),
    )
    ready = is_set_up(state.runtime, *bound.conversation.account_key)

    def human(screen: Screen) -> None:
        screen.say(f"bound {bound.id}: {shown(bound)} ↔ {bound.target_session}")
        if bound.expires_at is not None:
            screen.say(_ends(bound), "dim")
        if not ready:
            name = safe(bound.conversation.channel)
            screen.say(f"nothing is sent yet: add [channels.{name}] to config.toml", "yellow")

    state.show({**render_binding(bound), "deliverable": ready}, human)


def _ends(bound: Binding) -> str:
    """When it ends, and whether activity puts that off."""
    first, latest = bound.expires_at or 0.0, bound.latest_at
    if latest == first:
        return f"ends {clock_time(first)}, whatever happens"
    last = f", and {clock_time(latest)} in any case" if latest is not None else ""
    return f"ends {clock_time(first)} unless something happens{last}"


def window_s(field: str, text: str) -> float | None:
    """A duration that may also be 0 or `off`; None when it was not given."""
    if text in ("0", "off"):
        return 0.0
    return parse_duration_s(field, text) if text else None


def shown(binding: Binding) -> str:
    """A conversation as people read it."""
    where = binding.conversation
    account = "" if where.account == DEFAULT_ACCOUNT else f"/{where.account}"
    return safe(f"{where.channel}{account}:{where.id}")
