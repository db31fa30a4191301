"""`vyane bind`, `unbind`, `bindings` and `route`: conversations that are bound to sessions."""

from typing import Annotated

import typer

from vyane_cli.channels.port import DEFAULT_ACCOUNT, Conversation, normalise, parse_conversation
from vyane_cli.cli.context import state_of
from vyane_cli.cli.message import parse_object
from vyane_cli.cli.render.human import Screen, ago, clock_time, counted, safe
from vyane_cli.conversations.bind import RequestedBinding, bind, sweep
from vyane_cli.conversations.binding import Binding, duration_label, render_binding
from vyane_cli.conversations.bindings import list_bindings, resolve_conversation, touch, unbind
from vyane_cli.conversations.channels import capabilities, is_set_up
from vyane_cli.conversations.route import find_destination
from vyane_cli.conversations.route_rules import TASK_COMPLETION
from vyane_cli.errors import ExitCode
from vyane_cli.kernel.durations import parse_duration_s


def bind_command(
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
        state.home,
        RequestedBinding(
            session=session,
            conversation=where,
            kind=kind,
            placement=placement,
            ttl_s=ttl_s,
            idle_s=idle_s,
            max_age_s=max_age_s,
            expires_at=expires_at,
            metadata=parse_object("metadata", metadata) if metadata else {},
        ),
    )
    ready = is_set_up(state.home, *bound.conversation.account_key)

    def human(screen: Screen) -> None:
        screen.say(f"bound {bound.id}: {shown(bound)} ↔ {bound.target_session}")
        if bound.expires_at is not None:
            screen.say(_ends(bound), "dim")
        if not ready:
            name = safe(bound.conversation.channel)
            screen.say(f"nothing is sent yet: add [channels.{name}] to config.toml", "yellow")

    state.show({**render_binding(bound), "deliverable": ready}, human)


def _ends(bound: Binding) -> str:
    """Return when a binding ends, and whether activity extends it."""
    first, latest = bound.expires_at or 0.0, bound.latest_at
    if latest == first:
        return f"ends {clock_time(first)}, whatever happens"
    last = f", and {clock_time(latest)} in any case" if latest is not None else ""
    return f"ends {clock_time(first)} unless something happens{last}"


def window_s(field: str, text: str) -> float | None:
    """Parse a duration in seconds. Return 0 for `0` and `off`, and None for an empty text."""
    if text in ("0", "off"):
        return 0.0
    return parse_duration_s(field, text) if text else None


def shown(binding: Binding) -> str:
    """Return the conversation of a binding as people read it."""
    where = binding.conversation
    account = "" if where.account == DEFAULT_ACCOUNT else f"/{where.account}"
    return safe(f"{where.channel}{account}:{where.id}")


def unbind_command(
    context: typer.Context,
    binding: Annotated[str, typer.Option("--id", help="Id of the binding, or its beginning.")] = "",
    session: Annotated[
        str, typer.Option(help="All bindings of this session: vs-…, or a worker's whole name.")
    ] = "",
    reason: Annotated[str, typer.Option(help="Why. Required; it is kept.")] = "",
) -> None:
    """End one binding, or all of a session. Prints the records that it ended.

    The next `vyane mirror push` says goodbye in the conversation; nothing of it is deleted.
    """
    state = state_of(context)
    ended = unbind(state.home, binding_id=binding, session=session, reason=reason)

    def human(screen: Screen) -> None:
        for one in ended:
            screen.say(f"unbound {one.id}: {shown(one)} ↔ {one.target_session}")
        if not ended:
            screen.say("nothing was bound")

    state.show([render_binding(one) for one in ended], human)


bindings_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Which conversation speaks to which session.",
)


@bindings_app.command("list")
def list_command(
    context: typer.Context,
    session: Annotated[
        str, typer.Option(help="Only of this session: vs-…, or a worker's whole name.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Those that have ended too.")] = False,
) -> None:
    """The bindings, oldest first."""
    state = state_of(context)
    found = list_bindings(state.home, session=session, everything=everything)

    def human(screen: Screen) -> None:
        if not found:
            more = "" if everything else "; --all shows those that have ended"
            screen.say(f"no bindings: `vyane bind SESSION --channel NAME` makes one{more}", "dim")
            return
        rows = [
            (
                one.id,
                shown(one),
                one.target_session,
                "locked" if one.locked else str(one.status),
                ago(one.last_activity_at),
                clock_time(one.expires_at) if one.expires_at else "never",
                safe(one.end_reason),
            )
            for one in found
        ]
        screen.table(("id", "conversation", "session", "status", "activity", "ends", "why"), rows)

    state.show([render_binding(one) for one in found], human)


@bindings_app.command("resolve")
def resolve_command(
    context: typer.Context,
    channel: Annotated[str, typer.Option(help="Such as file.")] = "",
    conversation: Annotated[str, typer.Option(help="Id of the conversation.")] = "",
    account: Annotated[str, typer.Option(help="Account of the channel.")] = DEFAULT_ACCOUNT,
    ref: Annotated[str, typer.Option(help="The three before as one JSON object.")] = "",
) -> None:
    """Which session a conversation speaks to; null, and exit code 3, when to none."""
    state = state_of(context)
    where = normalise(Conversation(channel, account, conversation))
    if ref:
        where = parse_conversation(parse_object("ref", ref))
    found = resolve_conversation(state.home, where)

    def human(screen: Screen) -> None:
        if found is None:
            screen.say("it speaks to no session")
        else:
            screen.say(f"{found.id}: {shown(found)} ↔ {found.target_session}")

    state.show(render_binding(found) if found is not None else None, human)
    if found is None:
        raise typer.Exit(int(ExitCode.NOT_FOUND))


@bindings_app.command("touch")
def touch_command(
    context: typer.Context,
    binding: Annotated[str, typer.Argument(help="Id of the binding, or its beginning.")],
    at: Annotated[
        float | None, typer.Option(help="When something happened, in Unix seconds; else now.")
    ] = None,
    idle: Annotated[
        str, typer.Option(help="Another idle time, such as 2h, from now on; 0 for ever.")
    ] = "",
    max_age: Annotated[
        str, typer.Option(help="Another greatest age, such as 2d, from now on; 0 for ever.")
    ] = "",
) -> None:
    """Note that something happened in a conversation. The time never goes back."""
    state = state_of(context)
    after = touch(
        state.home,
        binding,
        at=at,
        idle_s=window_s("idle", idle),
        max_age_s=window_s("max-age", max_age),
    )

    def human(screen: Screen) -> None:
        idle_time, age = duration_label(after.idle_timeout_s), duration_label(after.max_age_s)
        ends = clock_time(after.expires_at) if after.expires_at else "never"
        screen.say(f"{after.id}: ends {ends} (idle {idle_time}, age {age})")

    state.show(render_binding(after), human)


@bindings_app.command("sweep")
def sweep_command(
    context: typer.Context,
    probe: Annotated[
        bool, typer.Option("--probe", help="Ask each channel whether the conversation is there.")
    ] = False,
) -> None:
    """End the bindings whose time has come. A round does the same without `--probe`."""
    state = state_of(context)
    done = sweep(state.home, state.home.clock(), probe=probe)

    def human(screen: Screen) -> None:
        screen.say(f"looked at {counted(done.looked, 'binding')}, ended {len(done.ended)}")
        for one in done.ended:
            _ended(screen, one)
        for kept in done.kept:
            screen.say(f"kept {kept.binding_id}: {safe(kept.detail)}", "dim")

    state.show(done, human)


def _ended(screen: Screen, one: Binding) -> None:
    screen.say(f"ended {one.id}: {shown(one)} ({safe(one.end_reason)})")


@bindings_app.command("channel")
def channel_command(
    context: typer.Context,
    channel: Annotated[str, typer.Argument(help="Such as file.")],
    account: Annotated[str, typer.Option(help="Account of the channel.")] = DEFAULT_ACCOUNT,
) -> None:
    """What a channel can do: whether it is set up, binding, unbinding, placements."""
    state = state_of(context)
    where = normalise(Conversation(channel, account))
    found = capabilities(state.home, where.channel, where.account)
    placements = [str(one) for one in found.placements]

    def human(screen: Screen) -> None:
        screen.pairs(
            [
                ("adapter_available", found.adapter_available),
                ("bind_supported", found.bind_supported),
                ("unbind_supported", found.unbind_supported),
                ("placements", placements),
            ]
        )

    state.show(found, human)


def route_command(
    context: typer.Context,
    session: Annotated[
        str, typer.Argument(help="Whose result: vs-…, or a worker's whole name.")
    ] = "",
    requester: Annotated[str, typer.Option(help="Id of the conversation that asked for it.")] = "",
    channel: Annotated[str, typer.Option(help="Channel of the requester.")] = "",
    account: Annotated[str, typer.Option(help="Account of the requester.")] = DEFAULT_ACCOUNT,
    ref: Annotated[str, typer.Option(help="The requester as one JSON object.")] = "",
    event: Annotated[str, typer.Option(help="What happened.")] = TASK_COMPLETION,
    fail_closed: Annotated[
        bool,
        typer.Option(
            "--fail-closed/--no-fail-closed",
            help="No binding is chosen that the requester does not match.",
        ),
    ] = True,
) -> None:
    """Say where the result of a session goes, if anywhere.

    It takes no text: choosing a place and making its content are two steps. What was chosen stays:
    a place that cannot be reached is tried again and never replaced.
    """
    state = state_of(context)
    asked = None
    if ref:
        asked = parse_conversation(parse_object("ref", ref), "ref")
    elif requester or channel:
        asked = Conversation(channel, account, requester)
    found = find_destination(state.home, session, asked, event=event, fail_closed=fail_closed)
    binding = found.binding

    def human(screen: Screen) -> None:
        where = f" → {shown(binding)}" if binding is not None else ""
        screen.say(f"{found.mode}: {found.reason}{where}")

    state.show(found, human)
