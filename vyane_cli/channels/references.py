"""How a conversation is named: normalised, as JSON, and as the id of its one binding."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from vyane_cli.channels.port import Conversation
from vyane_cli.errors import InvalidInputError

DEFAULT_ACCOUNT = "default"


def normalise(conversation: Conversation) -> Conversation:
    """Channel and account without blanks in lower case, ids without blanks, no parent of itself.

    InvalidInputError for a channel that is none.
    """
    channel = conversation.channel.strip().lower()
    account = conversation.account.strip().lower() or DEFAULT_ACCOUNT
    where, parent = conversation.id.strip(), conversation.parent.strip()
    for field, text in (("channel", channel), ("account", account)):
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", text):
            raise InvalidInputError(field, text, "a name: a-z, 0-9, _ and -, at most 64")
    for field, text in (("conversation", where), ("parent", parent)):
        if len(text) > 256 or not text.isprintable():
            raise InvalidInputError(field, text, "an id: printable, at most 256 characters")
    return Conversation(channel, account, where, "" if parent == where else parent)


SPELLINGS = {
    "channel": "channel", "account": "account", "account_id": "account", "accountId": "account",
    "conversation": "id", "conversation_id": "id", "conversationId": "id",
    "parent": "parent", "parent_conversation_id": "parent", "parentConversationId": "parent",
}  # fmt: skip
"""How a reference may be written as JSON → the field."""


def parse_conversation(data: object, where: str = "ref") -> Conversation:
    """A reference as JSON, in snake_case or camelCase; normalised."""
    if not isinstance(data, Mapping):
        raise InvalidInputError(where, data, "a JSON object with channel and conversation_id")
    fields = {"channel": "", "account": DEFAULT_ACCOUNT, "id": "", "parent": ""}
    for key, value in data.items():
        if key not in SPELLINGS:
            known = "known: channel, account_id, conversation_id, parent_conversation_id"
            raise InvalidInputError(f"{where}.{key}", value, "a key of a reference", hint=known)
        if value is not None and not isinstance(value, (str, int)):
            raise InvalidInputError(f"{where}.{key}", value, "a text")
        if value is not None:
            fields[SPELLINGS[key]] = str(value)
    return normalise(Conversation(**fields))


def render_conversation(conversation: Conversation) -> dict[str, Any]:
    """The stored form of a reference."""
    return {
        "channel": conversation.channel,
        "account_id": conversation.account,
        "conversation_id": conversation.id,
        "parent_conversation_id": conversation.parent or None,
    }


def binding_id(conversation: Conversation) -> str:
    """The id of the one binding that a conversation can have."""
    words = "\0".join(conversation[:3])
    return "b-" + hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()[:16]
