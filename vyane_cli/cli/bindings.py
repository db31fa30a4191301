"""`vyane bindings`: which conversation speaks to which session."""

from typing import Annotated

import typer

from vyane_cli.channels.port import Conversation
from vyane_cli.channels.references import DEFAULT_ACCOUNT, normalise, parse_conversation
from vyane_cli.cli.bind import shown, window_s
from vyane_cli.cli.context import state_of
from vyane_cli.cli.message import parse_object
from vyane_cli.cli.render.human import Screen, ago, clock_time, counted, safe
from vyane_cli.conversations.binding import Binding, duration_label
from vyane_cli.conversations.binding_forms import render_binding
from vyane_cli.conversations.bindings_2 import list_bindings, resolve_conversation, touch
from vyane_cli.conversations.bindings_sweep import sweep
from vyane_cli.conversations.channels import capabilities
from vyane_cli.errors import ExitCode

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Which conversation speaks to which session.",
)


@app.command("list")
def list_command(
    context: typer.Context,
    session: Annotated[
        str, typer.Option(help="Only of this session: vs-…, or a worker's whole name.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Those that have ended too.")] = False,
) -> None:
    """The bindings, oldest first."""
    state = state_of(context)
    found = list_bindings(state.runtime, session=session, everything=everything)

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


@app.command("resolve")
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
    found = resolve_conversation(state.runtime, where)

    def human(screen: Screen) -> None:
        if found is None:
            screen.say("it speaks to no session")
        else:
            screen.say(f"{found.id}: {shown(found)} ↔ {found.target_session}")

    state.show(render_binding(found) if found is not None else None, human)
    if found is None:
        raise typer.Exit(int(ExitCode.NOT_FOUND))


@app.command("touch")
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
        state.runtime,
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


@app.command("sweep")
def sweep_command(
    context: typer.Context,
    probe: Annotated[
        bool, typer.Option("--probe", help="Ask each channel whether the conversation is there.")
    ] = False,
) -> None:
    """End the bindings whose time has come. A round does the same without `--probe`."""
    state = state_of(context)
    done = sweep(state.runtime, state.runtime.clock(), probe=probe)

    def human(screen: Screen) -> None:
        screen.say(f"looked at {counted(done.looked, 'binding')}, ended {len(done.ended)}")
        for one in done.ended:
            _ended(screen, one)
        for kept in done.kept:
            screen.say(f"kept {kept.binding_id}: {safe(kept.detail)}", "dim")

    state.show(done, human)


def _ended(screen: Screen, one: Binding) -> None:
    screen.say(f"ended {one.id}: {shown(one)} ({safe(one.end_reason)})")


@app.command("channel")
def channel_command(
    context: typer.Context,
    channel: Annotated[str, typer.Argument(help="Such as file.")],
    account: Annotated[str, typer.Option(help="Account of the channel.")] = DEFAULT_ACCOUNT,
) -> None:
    """What a channel can do: whether it is set up, binding, unbinding, placements."""
    state = state_of(context)
    where = normalise(Conversation(channel, account))
    found = capabilities(state.runtime, where.channel, where.account)
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
