"""`vyane demo`: sessions that talk to each other, on a temporary home."""

import sys
import textwrap
from typing import Annotated, Any

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen
from vyane_cli.setup.demo import DemoReport, Scene, play, stage_at

AS_IT_IS: dict[str, Any] = {
    "break_long_words": False, "break_on_hyphens": False, "replace_whitespace": False,
    "drop_whitespace": True, "expand_tabs": False,
}  # fmt: skip


def demo_command(
    context: typer.Context,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the temporary home there.")] = False,
) -> None:
    """Show what vyane does: simulated sessions, real commands.

    Runs on a temporary home; your own state and settings are not looked at. Exits 0 only if every
    step saw what it had to.
    """
    state = state_of(context)
    scenes: list[Scene] = []
    with stage_at(keep=keep) as stage:
        for scene in play(stage):
            scenes.append(scene)
            if not state.as_json:
                show(state.screen, scene, len(scenes))
    ok = all(scene.ok for scene in scenes)
    result = DemoReport(
        ok=ok,
        home=stage.layout.root if keep else None,
        scenes=tuple(scene.report() for scene in scenes),
    )

    def human(screen: Screen) -> None:
        if keep:
            screen.say(f"kept: {stage.folder}", "dim")
            screen.say(f"  VYANE_HOME={stage.layout.root} vyane workers", "dim")
        held = sum(len(scene.checks) for scene in scenes)
        failed = sum(not held for scene in scenes for held, _ in scene.checks)
        if ok:
            screen.say(f"all {held} expectations met", "bold green")
            screen.say("next: vyane hooks install, then start `claude` in two folders", "dim")
        else:
            screen.say(f"{failed} of {held} expectations not met", "bold red")

    state.show(result, human)
    if not ok:
        raise typer.Exit(1)


def show(screen: Screen, scene: Scene, number: int) -> None:
    """Print one scene for a person."""
    screen.heading(f"{number}  {scene.title}")
    width = max(min(screen.console.width, 110) - 12, 30)
    for line in scene.lines:
        screen.say(f"   {line.who:<6} {line.what}")
        for text in line.text.splitlines():
            for part in textwrap.wrap(text, width, **AS_IT_IS) or [""]:
                screen.say(f"          {part}", "cyan" if line.who != "you" else "dim")
    for held, what in scene.checks:
        if held:
            screen.say(f"   ✓ {what}", "green")
        else:
            screen.say(f"   ✗ {what}", "bold red")
    sys.stdout.flush()  # each scene appears when it has ended, also through a pipe
    screen.say("")
