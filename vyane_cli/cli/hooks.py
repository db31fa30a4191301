"""`vyane hooks`: connect Claude Code, disconnect it, look at the connection."""

import os
from dataclasses import asdict
from typing import Annotated

import typer

from vyane_cli.cli.context import State, state_of
from vyane_cli.cli.render.human import Screen
from vyane_cli.cli.workers import shorten
from vyane_cli.hosts import claude_settings
from vyane_cli.sessions.identity import require_person, whoami
from vyane_cli.setup import hooks
from vyane_cli.setup.guard import install_guard
from vyane_cli.setup.home import initialise

app = typer.Typer(
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


@app.command("install")
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
    runtime = state.runtime
    require_person(runtime, whoami(runtime), "change hooks")
    if not dry_run:
        initialise(runtime)
    if plugin:
        changed = install_guard(runtime, dry_run=dry_run)
        guard = runtime.layout.guard
        words = "written" if changed else "up to date"
        state.show(
            {"guard": guard, "guard_changed": changed, "dry_run": dry_run},
            lambda screen: screen.say(f"guard: {words} ({shorten(guard)})"),
        )
        return
    path = hooks.settings_path(scope, runtime.environ, os.getcwd())
    change = hooks.install(runtime, claude_settings, path, allow=allow_vyane, dry_run=dry_run)

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


@app.command("uninstall")
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
    runtime = state.runtime
    require_person(runtime, whoami(runtime), "change hooks")
    path = hooks.settings_path(scope, runtime.environ, os.getcwd())
    change = hooks.uninstall(
        runtime, claude_settings, path, disallow=disallow_vyane, dry_run=dry_run
    )

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


@app.command("status")
def status_command(context: typer.Context) -> None:
    """Where the hooks are installed, and whether they work."""
    state = state_of(context)
    found = hooks.status(state.runtime, claude_settings, os.getcwd())
    _show_status(state, found)


def _show_status(state: State, found: hooks.Status) -> None:
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
