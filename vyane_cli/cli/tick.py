"""`vyane tick`: one call of a host. For Claude Code it is what the hooks run."""

import os
import sys
from typing import Annotated, Any

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render import machine
from vyane_cli.cli.render.human import Screen, safe
from vyane_cli.delivery.explain import PlannedNotice, PlannedTick, explain
from vyane_cli.delivery.generic import call_for_worker
from vyane_cli.delivery.tick import tick
from vyane_cli.errors import InvalidInputError
from vyane_cli.home import Runtime
from vyane_cli.hosts import claude_code, generic
from vyane_cli.hosts.port import HookCall


def command(
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
    runtime = state.runtime
    module: Any
    if host == generic.NAME:
        module, call = generic, call_for_worker(runtime, worker, looking=dry_run)
    elif host == claude_code.NAME:
        module, call = claude_code, _from_stdin(runtime, event, rewake)
    else:
        raise InvalidInputError("host", host, "claude-code or generic")
    if dry_run:
        told = explain(runtime, call, module)
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

    tick(runtime, call, module, show, runtime.deadline())
    if not shown:
        state.show({"text": ""}, lambda screen: None)


def _in_words(notice: PlannedNotice) -> str:
    about = " ".join(filter(None, (notice.project, notice.kind, notice.task)))
    if notice.told:
        return safe(f"notice: {about}, to {notice.to}")
    why = notice.readings.get("error") or notice.rule
    return safe(f"notice held: {about}, by {why}")


def _from_stdin(runtime: Runtime, event: str, rewake: bool) -> HookCall:
    if os.isatty(0):
        raise InvalidInputError(
            "call",
            "",
            "given: hooks run this, with a host's call on standard input",
            missing=True,
            hint="your session's mail: `vyane inbox`; a host without hooks: --host generic",
        )
    data = sys.stdin.buffer.read()
    return claude_code.parse(data, runtime.environ, runtime.identify, event=event, rewake=rewake)


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
        screen.say(text)  # an envelope of our own: neutralised already
