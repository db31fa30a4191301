"""Addresses: an address as people type it → the kind and name of its target."""

from __future__ import annotations

from typing import NamedTuple

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.ids import is_logical_session_id
from vyane_cli.kernel.values import StrEnum
from vyane_cli.mail.message import ToKind


class Relative(StrEnum):
    """Addresses that have a meaning only inside a session."""

    PARENT = "parent"
    CHILDREN = "children"


class Address(NamedTuple):
    """A parsed address. The text of a worker's address is not yet looked up in the registry."""

    kind: ToKind
    text: str
    relative: Relative | None = None


CHANNEL = "channel:"


def parse_address(text: str) -> Address:
    """Parse `all`, `vs-…`, `channel:NAME`, `parent`, `children`, else a worker's id or name.

    A worker may be named by a prefix of its id.
    """
    if not text:
        raise InvalidInputError("to", text, "given: who gets it?", missing=True)
    if text != text.strip():
        raise InvalidInputError("to", text, "an address", hint="`vyane workers` lists the names")
    if text == "all":
        return Address(ToKind.BROADCAST, "*")
    if text.startswith(CHANNEL):
        name = text[len(CHANNEL) :]
        if not name or len(name) > 200 or not name.isprintable():
            raise InvalidInputError("to", text, "a channel: channel:NAME")
        return Address(ToKind.CHANNEL, name)
    if text.startswith("vs-"):
        if not is_logical_session_id(text):
            raise InvalidInputError("to", text, "a logical session: vs- and 12 hexadecimal digits")
        return Address(ToKind.LOGICAL_SESSION, text)
    if text in tuple(Relative):
        return Address(ToKind.WORKER, text, Relative(text))
    if ":" in text:
        raise InvalidInputError(
            "to", text, "an address", hint="messages stay on this machine; channels: channel:NAME"
        )
    return Address(ToKind.WORKER, text)
