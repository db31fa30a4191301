"""What a contract test needs of one channel: a world in which people read and write."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Protocol

from vyane_cli.channels.port import (
    Channel,
    ChannelVerdict,
    Conversation,
    Opening,
    Part,
    Post,
    Surroundings,
)

NOW_MS = 1_760_000_000_000


class Bench(Protocol):
    """One channel's world. Each method that a channel has no case for raises NotImplementedError,
    and the test of it is skipped."""

    def channel(self, memory: dict[str, Any] | None = None) -> Channel:
        """The adapter as a new run opens it, over the same world."""
        ...

    def titles(self) -> list[str]:
        """The titles of the conversations that are there, closed ones too."""
        ...

    def shown(self, where: Conversation) -> list[str]:
        """The texts of vyane's own posts as a person reads them, in order."""
        ...

    def is_closed(self, where: Conversation) -> bool: ...

    def say(self, where: Conversation, text: str) -> None:
        """A person writes."""
        ...

    def change(self, where: Conversation, before: str, after: str) -> None:
        """The person changes what they wrote."""
        ...

    def remove_post(self, where: Conversation, text: str) -> None:
        """Somebody removes one of vyane's posts."""
        ...

    def lock(self, where: Conversation) -> None: ...

    def unlock(self, where: Conversation) -> None: ...

    def delete(self, where: Conversation) -> None: ...

    def lose_answers(self, operation: str) -> None:
        """The next `open` or `post` takes effect, and its answer is lost."""
        ...

    def stop_working(self) -> None:
        """The settings lead nowhere: what `check` and `open` say is OFF."""
        ...


def around(home: Path, environ: dict[str, str] | None = None) -> Surroundings:
    """A world whose clock moves only by what is slept."""
    now = [NOW_MS]

    def sleep(seconds: float) -> None:
        now[0] += int(seconds * 1000)

    return Surroundings(
        environ=environ or {},
        now_ms=lambda: now[0],
        sleep=sleep,
        deadline_ms=NOW_MS + 20_000,
        home=str(home),
    )


_NUMBERS = itertools.count(1)


def opening(title: str = "api-main", key: str = "vs-0123456789ab") -> Opening:
    return Opening(key, title, Part(f"The session {title} `{key}`."), f"open{next(_NUMBERS)}")


def opened(channel: Channel, title: str = "api-main", key: str = "vs-0123456789ab") -> Conversation:
    outcome = channel.open(opening(title, key))
    assert outcome.verdict is ChannelVerdict.DONE, outcome
    assert outcome.conversation is not None
    return outcome.conversation


def part_of(channel: Channel, text: str) -> Part:
    (part,) = channel.plan(Post(text))
    return part


def post(channel: Channel, where: Conversation, text: str, nonce: str = "") -> str:
    outcome = channel.post(where, part_of(channel, text), nonce or f"n{next(_NUMBERS)}")
    assert outcome.verdict is ChannelVerdict.DONE, outcome
    return outcome.id
