"""`vyane why`: each attempt to deliver a message, its rule, and the readings behind it."""

from typing import Annotated, Any

import typer

from vyane_cli.cli.context import state_of
from vyane_cli.cli.render.human import Screen, clock_time, safe, span
from vyane_cli.delivery.why import MessageStep, tell


def command(
    context: typer.Context,
    message: Annotated[str, typer.Argument(help="The message's id, or six characters of it.")],
) -> None:
    """Explain why a message was, or was not, delivered."""
    state = state_of(context)
    told = tell(state.runtime, message)

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
    """`last_start_s_ago: 1.9` as `last start 2 s ago`."""
    words = key.split("_")
    if "s" in words and isinstance(value, (int, float)):
        words[words.index("s")] = span(value)
        return " ".join(words)
    return safe(f"{' '.join(words)} {value}")


def _why(one: MessageStep) -> str:
    parts = [one.why] if one.why else []
    parts += [_reading(key, value) for key, value in (one.readings or {}).items()]
    if one.again_ms:
        parts.append(f"tried again in {span(one.again_ms / 1000)}")
    if one.transport:
        parts.append(f"by {one.transport}")
    if one.evidence:
        parts.append(f"seen: {one.evidence}")
    return "; ".join(parts)
