"""The adapter against the mock: each run is a new channel on what the last one remembered."""

from __future__ import annotations

import json
from typing import Any

from tests.discord.mockcord import MockDiscord
from vyane_cli.channels.discord import adapter
from vyane_cli.channels.port import (
    Channel,
    ChannelOutcome,
    ChannelVerdict,
    Conversation,
    Opening,
    Part,
    Surroundings,
)
from vyane_cli.conversations.state_rules import nonce_of

BUDGET_MS = 20_000


class Bot:
    """What the mirror does around the adapter, as little of it as a test needs.

    Time is the mock's: waiting moves its clock, and takes no time.
    """

    def __init__(self, server: MockDiscord, budget_ms: int = BUDGET_MS, **settings: Any) -> None:
        self.server, self.budget_ms = server, budget_ms
        self.settings = {"guild": server.world.guild_id, "forum": server.forum.id, "tags": []}
        self.settings |= settings
        self.environ = {"DISCORD_API": server.base_url, "DISCORD_TOKEN": server.world.token}
        self.memory: dict[str, Any] = {}
        self.waited_s = 0.0

    def now_ms(self) -> int:
        return int(self.server.clock.now() * 1000)

    def sleep(self, seconds: float) -> None:
        self.waited_s += seconds
        self.server.advance(seconds)

    def run(self) -> Channel:
        """The channel of a new process."""
        self.memory = json.loads(json.dumps(self.memory))
        around = Surroundings(
            environ=self.environ,
            now_ms=self.now_ms,
            sleep=self.sleep,
            deadline_ms=self.now_ms() + self.budget_ms,
            home="/",
        )
        return adapter.open_channel(self.settings, "default", self.memory, around)

    def thread(
        self, key: str = "vs-1", title: str = "fix login", text: str = "start"
    ) -> Conversation:
        """The conversation of a session."""
        first = Part(f"{text}\n-# vyane {key}")
        outcome = self.run().open(Opening(key, title, first, nonce_of(key)))
        assert outcome.verdict is ChannelVerdict.DONE, outcome
        assert outcome.conversation is not None
        return outcome.conversation

    def texts(self, where: Conversation) -> list[str]:
        """What a person reads behind the first message."""
        return [one["content"] for one in self.server.visible(where.id)[1:]]

    def operations(self) -> list[str]:
        """What was asked for, in order."""
        return [one["op"] for one in self.server.requests]


def said(outcome: ChannelOutcome) -> str:
    """An outcome that is not DONE, in one word."""
    return f"{outcome.verdict.value}/{outcome.reason}"
