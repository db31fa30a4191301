"""`vyane mirror`: sessions shown in conversations, and people's words passed to sessions."""

from collections.abc import Sequence
from typing import Annotated

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, counted, safe
from vyane_cli.conversations.push import push
from vyane_cli.conversations.run import Problem, UnopenedChannel
from vyane_cli.conversations.status import describe_mirror

mirror_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Show sessions in channels, and take in what people write.",
)

Only = Annotated[str, typer.Option(help="Only this channel; else all that are set up.")]


@mirror_app.command("push")
def push_command(
    context: typer.Context,
    channel: Only = "",
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Try what was refused, locked, gone or turned off before, too."
        ),
    ] = False,
) -> None:
    """Show what happened in sessions since the last time. Nothing is shown twice.

    A channel that does not answer, or says later, keeps its posts in the outbox for the next time.
    """
    state = state_of(context)
    reports = push(state.home, channel=channel, again=again)

    def human(screen: Screen) -> None:
        for one in reports:
            if isinstance(one, UnopenedChannel):
                _say_unopened(screen, one)
                continue
            waiting = f", {counted(one.waiting, 'post')} waiting" if one.waiting else ""
            opened = f"{counted(one.opened, 'conversation')} opened, " if one.opened else ""
            screen.say(
                f"{one.channel}: {opened}{counted(one.sent, 'post')} shown, "
                f"{one.edited} changed{waiting}"
            )
            _problems(screen, one.problems)
        _none(screen, reports)

    state.show(reports, human)


@mirror_app.command("pull")
def pull_command(context: typer.Context, channel: Only = "") -> None:
    """Take in what people wrote in bound conversations. Nothing comes twice.

    Words of those that `allow_users` lists become messages to the session; `/help` there lists the
    commands. Anybody else's are counted and go nowhere.
    """
    from vyane_cli.conversations.pull import pull  # imported here because a push does not need it

    state = state_of(context)
    reports = pull(state.home, channel=channel)

    def human(screen: Screen) -> None:
        for one in reports:
            if isinstance(one, UnopenedChannel):
                _say_unopened(screen, one)
                continue
            refused = f", {one.refused} refused" if one.refused else ""
            screen.say(f"{one.channel}: {counted(one.taken, 'message')} taken in{refused}")
            _problems(screen, one.problems)
        _none(screen, reports)

    state.show(reports, human)


@mirror_app.command("status")
def status_command(context: typer.Context) -> None:
    """How far each conversation has come, and what holds it up. Asks no channel."""
    state = state_of(context)
    found = describe_mirror(state.home)

    def human(screen: Screen) -> None:
        for one in found:
            screen.heading(f"{one.channel} ({one.state})")
            rows = [
                (t.conversation, t.session, t.waiting, t.state, safe(t.detail)) for t in one.threads
            ]
            if rows:
                screen.table(("conversation", "session", "waiting", "state", ""), rows)
            else:
                screen.say("no conversations yet: `vyane mirror push` opens them", "dim")
            _problems(screen, one.problems)
        _none(screen, found)

    state.show(found, human)


def _say_unopened(screen: Screen, one: UnopenedChannel) -> None:
    screen.say(f"{one.channel}: cannot be opened")
    _problems(screen, one.problems)


def _problems(screen: Screen, problems: Sequence[Problem]) -> None:
    for one in problems:
        where = f"{one.session}: " if one.session else ""
        screen.say(f"  {where}{safe(one.detail or one.code)}", "yellow")
        if one.fix:
            screen.say(f"    {safe(one.fix)}", "dim")


def _none(screen: Screen, reports: Sequence[object]) -> None:
    if not reports:
        screen.say("no channel is set up; one of Markdown files in a folder:")
        screen.say('  vyane config set channels.file.allow_users "$(id -un)"', "dim")
