"""What a person writes in a session's conversation: a command, or a message to the session."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from vyane_cli.channels.port import Incoming


class Command(StrEnum):
    """The words that begin a command; anything else is a message."""

    TAKEOVER = "/takeover"
    CANCEL = "/cancel"
    TOPOLOGY = "/topology"
    RELAY = "/relay"
    HELP = "/help"


BARE = (Command.TOPOLOGY, Command.HELP)
"""Nothing belongs behind these."""
LEFT_MAX = 60


class Intent(StrEnum):
    """What becomes of one message of a person's."""

    IGNORE = "ignore"
    STRANGER = "stranger"
    NOTE = "note"  # an edit: the session is told, nothing is run again
    COMMAND = "command"
    MESSAGE = "message"


class ChatInput(NamedTuple):
    """A message, understood."""

    intent: Intent
    text: str = ""
    command: Command | None = None
    left: tuple[str, ...] = ()
    """Beginnings of what reads like a command, or stands behind one, and is not followed."""


def understand(one: Incoming, allowed: Collection[str], *, edited: bool) -> ChatInput:
    """Decide for one message. Total. Who is not allowed runs nothing, whatever the text."""
    text = one.text.strip("\n").rstrip()
    if not text.strip():
        return ChatInput(Intent.IGNORE)
    if one.author not in allowed:
        return ChatInput(Intent.STRANGER, text)
    if edited:
        return ChatInput(Intent.NOTE, text)
    word, _, rest = text.strip().partition("\n" if "\n" in text.strip().split(" ")[0] else " ")
    if word.lower() in tuple(Command):
        command, rest = Command(word.lower()), rest.strip()
        left = commands_in(rest)
        if rest and command in BARE:
            left = left or (_beginning(rest),)
        return ChatInput(Intent.COMMAND, rest, command, left)
    return ChatInput(Intent.MESSAGE, text, left=commands_in(text))


def commands_in(text: str) -> tuple[str, ...]:
    """The lines that begin with a command; none from a block of code."""
    found, fenced = [], False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and line.split(" ")[0].rstrip().lower() in tuple(Command):
            found.append(_beginning(line))
    return tuple(found)


def _beginning(text: str) -> str:
    line = text.split("\n")[0].replace("`", "'").strip()
    return line if len(line) <= LEFT_MAX else line[: LEFT_MAX - 1] + "…"


def digest_of(text: str) -> str:
    """What tells a changed text from the one that was read."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
