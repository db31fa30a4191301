"""What a person writes in a session's conversation: a command, or a message to the session."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from vyane_cli.core.conversations import Incoming


class Command(StrEnum):
    """The words that begin a command; anything else is a message."""

    TAKEOVER = "/takeover"
    CANCEL = "/cancel"
    TOPOLOGY = "/topology"
    RELAY = "/relay"
    HELP = "/help"


class Intent(StrEnum):
    """What becomes of one message of a person's."""

    IGNORE = "ignore"
    STRANGER = "stranger"
    NOTE = "note"  # an edit: the session is told, nothing is run again
    COMMAND = "command"
    MESSAGE = "message"


class Heard(NamedTuple):
    """A message, understood."""

    intent: Intent
    text: str = ""
    command: Command | None = None


def understand(one: Incoming, allowed: Collection[str], *, edited: bool) -> Heard:
    """Decide for one message. Total. Who is not allowed runs nothing, whatever the text."""
    text = one.text.strip("\n").rstrip()
    if not text.strip():
        return Heard(Intent.IGNORE)
    if one.author not in allowed:
        return Heard(Intent.STRANGER, text)
    if edited:
        return Heard(Intent.NOTE, text)
    word, _, rest = text.strip().partition("\n" if "\n" in text.strip().split(" ")[0] else " ")
    if word.lower() in tuple(Command):
        return Heard(Intent.COMMAND, rest.strip(), Command(word.lower()))
    return Heard(Intent.MESSAGE, text)


def digest_of(text: str) -> str:
    """What tells a changed text from the one that was read."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
