"""Chat input: a message of a person in a session's conversation, as a command or as text."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from vyane_cli.channels.port import Incoming
from vyane_cli.kernel.text import cut


class Command(StrEnum):
    """The words that begin a command; any other text is a message."""

    TAKEOVER = "/takeover"
    CANCEL = "/cancel"
    TOPOLOGY = "/topology"
    RELAY = "/relay"
    HELP = "/help"


BARE = (Command.TOPOLOGY, Command.HELP)
"""Commands that take no text."""
LEFT_MAX = 60


class Intent(StrEnum):
    """The way in which one message of a person is handled."""

    IGNORE = "ignore"
    STRANGER = "stranger"
    NOTE = "note"  # an edit: the session is notified, nothing is run again
    COMMAND = "command"
    MESSAGE = "message"


class ChatInput(NamedTuple):
    """A message that was understood."""

    intent: Intent
    text: str = ""
    command: Command | None = None
    left: tuple[str, ...] = ()
    """Beginnings of lines like a command, or of text behind a command, that are not run."""


def understand(one: Incoming, allowed: Collection[str], *, edited: bool) -> ChatInput:
    """Decide how to handle one message. Total. A writer who is not allowed runs nothing."""
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
    """Return the lines that begin with a command, except in code blocks."""
    found, fenced = [], False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and line.split(" ")[0].rstrip().lower() in tuple(Command):
            found.append(_beginning(line))
    return tuple(found)


def _beginning(text: str) -> str:
    line = text.split("\n")[0].replace("`", "'").strip()
    return cut(line, LEFT_MAX)


def digest_of(text: str) -> str:
    """Return a short digest by which a changed text differs from the one that was read."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
