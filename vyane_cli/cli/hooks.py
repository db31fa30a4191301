"""`vyane hooks`: the connection to Claude Code; `vyane tick`: the command that hooks run."""

import os
import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from vyane_cli.cli.context import CommandState, state_of
from vyane_cli.cli.render import machine
from vyane_cli.cli.render.human import Screen, safe, shorten
from vyane_cli.delivery.explain import PlannedNotice, PlannedTick, call_for_worker, explain
from vyane_cli.errors import InvalidInputError
from vyane_cli.home import Home
from vyane_cli.hosts import claude_code, claude_settings, generic
from vyane_cli.hosts.port import HookCall
from vyane_cli.projects.after_tick import tick_and_supervise
from vyane_cli.projects.supervise import plan_notice
from vyane_cli.sessions.authority import require_person
from vyane_cli.sessions.identity import whoami
from vyane_cli.setup import hooks
from vyane_cli.setup.guard import install_guard
from vyane_cli.setup.home import initialise

hooks_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Connect Claude Code, disconnect it, look at the connection.",
)

ScopeOption = Annotated[
    hooks.Scope,
    typer.Option(help="Which settings file: yours, the project's shared one, or its private one."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would change; change nothing.")
]


@hooks_app.command("install")
def install_command(
    context: typer.Context,
    scope: ScopeOption = hooks.Scope.USER,
    allow_vyane: Annotated[
        bool,
        typer.Option("--allow-vyane", help="Let agents run `vyane` without being asked each time."),
    ] = False,
    plugin: Annotated[
        bool,
        typer.Option("--plugin", help="Write the guard only: the plugin brings the entries."),
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Connect Claude Code: every session started from now on takes part.

    Only vyane's own entries are touched; every other byte of the file stays as it is.
    """
    state = state_of(context)
    home = state.home
    require_person(home, whoami(home), "change hooks")
    if not dry_run:
        initialise(home)
    if plugin:
        changed = install_guard(home, dry_run=dry_run)
        guard = home.layout.guard
        words = "written" if changed else "up to date"
        state.show(
            {"guard": guard, "guard_changed": changed, "dry_run": dry_run},
            lambda screen: screen.say(f"guard: {words} ({shorten(guard)})"),
        )
        return
    path = hooks.settings_path(scope, home.environ, os.getcwd())
    change = hooks.install(home, claude_settings, path, allow=allow_vyane, dry_run=dry_run)

    def human(screen: Screen) -> None:
        if dry_run:
            screen.body(change.diff or "nothing would change")
            return
        screen.say(f"{shorten(path)}: {'updated' if change.changed else 'up to date'}")
        screen.say(f"guard: {shorten(change.guard)}")
        for foreign in change.foreign:
            screen.say(f"left alone: hooks of another state folder, {shorten(foreign)}", "yellow")
        if change.off:
            screen.say("this file turns all hooks off: no session takes part until", "yellow")
            screen.say("its `disableAllHooks` is gone", "yellow")
            return
        if not change.changed:
            return
        screen.say("sessions that start from now on take part: `vyane workers` lists them")
        screen.say("open ones do at their next prompt, and wake after /clear or a restart", "dim")
        if not change.allowed:
            screen.say("agents ask you before they run vyane, until you allow it:", "dim")
            screen.say("  vyane hooks install --allow-vyane", "dim")

    state.show(asdict(change), human)


@hooks_app.command("uninstall")
def uninstall_command(
    context: typer.Context,
    scope: ScopeOption = hooks.Scope.USER,
    disallow_vyane: Annotated[
        bool,
        typer.Option("--disallow-vyane", help="Take the permission rule out too."),
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Disconnect Claude Code: take vyane's entries, and nothing else, out of the settings file."""
    state = state_of(context)
    home = state.home
    require_person(home, whoami(home), "change hooks")
    path = hooks.settings_path(scope, home.environ, os.getcwd())
    change = hooks.uninstall(home, claude_settings, path, disallow=disallow_vyane, dry_run=dry_run)

    def human(screen: Screen) -> None:
        if dry_run:
            screen.body(change.diff or "nothing would change")
            return
        said = "vyane's entries are out" if change.changed else "there were none of vyane's entries"
        screen.say(f"{shorten(path)}: {said}")
        screen.say(
            "the guard stays for sessions that are open; `vyane uninstall` removes it", "dim"
        )

    state.show(asdict(change), human)


@hooks_app.command("status")
def status_command(context: typer.Context) -> None:
    """Where the hooks are installed, and whether they work."""
    state = state_of(context)
    found = hooks.status(state.home, claude_settings, os.getcwd())
    _show_status(state, found)


def _show_status(state: CommandState, found: hooks.HooksStatus) -> None:
    def human(screen: Screen) -> None:
        screen.table(
            ("scope", "state", "file", "notes"),
            [
                (one.scope.value, one.state.value, shorten(one.path), "; ".join(_notes(one)))
                for one in found.scopes
            ],
        )
        guard = found.guard
        screen.say("")
        if guard.works:
            screen.say(f"guard: works ({shorten(guard.path)})", "green")
        else:
            why = guard.detail or ("not there" if not guard.present else "does not answer")
            screen.say(f"guard: {why} ({shorten(guard.path)})", "red")
            if "`vyane hooks install`" not in why:
                screen.say("`vyane hooks install` writes it again", "dim")

    state.show(asdict(found), human)


def _notes(one: hooks.ScopeStatus) -> list[str]:
    notes = [f"missing: {', '.join(one.missing)}"] if one.missing else []
    notes += [f"of another state folder: {shorten(path)}" for path in one.foreign]
    notes += [f"as a plugin: {name}" for name in one.plugins]
    notes += ["this file turns all hooks off"] if one.off else []
    notes += ["agents may run vyane"] if one.allowed else []
    return notes + ([one.detail.removeprefix(f"{one.path}, ")] if one.detail else [])


def tick_command(
    context: typer.Context,
    host: Annotated[
        str, typer.Option(help="claude-code, or generic for one without hooks.")
    ] = "claude-code",
    worker: Annotated[
        str, typer.Option(help="With generic: whose mail. Inside a session: own.")
    ] = "",
    event: Annotated[str, typer.Option(help="The event, when the payload does not say.")] = "",
    rewake: Annotated[bool, typer.Option("--rewake", help="As the asynchronous handler.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan; change nothing.")
    ] = False,
) -> None:
    """Advance a session's mail: what a host's hook calls.

    With `--host generic` it prints pending messages as text; they count as consumed at the next
    call. With `--dry-run` it says what it would do.
    """
    state = state_of(context)
    home = state.home
    module: Any
    if host == generic.NAME:
        module, call = generic, call_for_worker(home, worker, looking=dry_run)
    elif host == claude_code.NAME:
        module, call = claude_code, _from_stdin(home, event, rewake)
    else:
        raise InvalidInputError("host", host, "claude-code or generic")
    if dry_run:
        told = explain(home, call, module, plan_notice)
        state.show(told, lambda screen: _show_plan(screen, told))
        return

    shown: list[str] = []

    def show(reply: Any) -> None:
        shown.append(reply.text)
        data, _ = module.render(reply)
        if state.as_json:
            data = (machine.line({"text": reply.text}) + "\n").encode()
        while data:
            data = data[os.write(1, data) :]

    tick_and_supervise(home, call, module, show, home.deadline())
    if not shown:
        state.show({"text": ""}, lambda screen: None)


def _in_words(notice: PlannedNotice) -> str:
    about = " ".join(filter(None, (notice.project, notice.kind, notice.task)))
    if notice.told:
        return safe(f"notice: {about}, to {notice.to}")
    why = notice.readings.get("error") or notice.rule
    return safe(f"notice held: {about}, by {why}")


def _from_stdin(home: Home, event: str, rewake: bool) -> HookCall:
    if os.isatty(0):
        raise InvalidInputError(
            "call",
            "",
            "given: hooks run this, with a host's call on standard input",
            missing=True,
            hint="your session's mail: `vyane inbox`; a host without hooks: --host generic",
        )
    data = sys.stdin.buffer.read()
    return claude_code.parse(data, home.environ, home.identify, event=event, rewake=rewake)


def _show_plan(screen: Screen, told: PlannedTick) -> None:
    pairs = (("event", told.event), ("worker", told.worker))
    screen.pairs([(name, value) for name, value in pairs if value])
    for event in told.timeline:
        screen.say(safe(f"timeline: {event.kind} {dict(event.payload)}"))
    for change in told.mail:
        screen.say(f"mail: {change.op} {' '.join(change.ids)} {change.rule or ''}")
    for one in told.held:
        screen.say(f"held: {one.id} by {one.rule}")
    if told.notice:
        screen.say(_in_words(told.notice))
    text = told.reply.context or told.reply.wake or told.reply.text
    screen.say("prints: " + ("nothing" if not text else ""))
    if text:
        screen.say(text)  # the text of an envelope is already neutralised
