"""The `discord` channel's world: a mock server, and the people in it."""

from __future__ import annotations

from typing import Any

from tests.discord.bot import Bot
from tests.discord.mockcord import MockDiscord
from vyane_cli.channels.port import Channel, Conversation

OPERATIONS = {"open": "create_thread", "post": "create_message"}


class DiscordBench:
    """One forum, one bot, and Alice."""

    def __init__(self, server: MockDiscord) -> None:
        self.server, self.bot = server, Bot(server)

    def channel(self, memory: dict[str, Any] | None = None) -> Channel:
        self.bot.memory = {} if memory is None else memory
        return self.bot.run()

    def titles(self) -> list[str]:
        return sorted(thread["name"] for thread in self.server.threads())

    def shown(self, where: Conversation) -> list[str]:
        said = self.server.visible(where.id)
        return [one["content"] for one in said if one["by"] == "bot" and one["type"] == 0]

    def is_closed(self, where: Conversation) -> bool:
        return any(one["archived"] for one in self.server.threads() if one["id"] == where.id)

    def say(self, where: Conversation, text: str) -> None:
        self.server.act("post", channel=where.id, user=self.server.alice["id"], content=text)

    def change(self, where: Conversation, before: str, after: str) -> None:
        self._act_on(where, before, "edit", content=after)

    def remove_post(self, where: Conversation, text: str) -> None:
        self._act_on(where, text, "delete_message")

    def lock(self, where: Conversation) -> None:
        self.server.act("lock", thread=where.id)

    def unlock(self, where: Conversation) -> None:
        self.server.act("unlock", thread=where.id)

    def delete(self, where: Conversation) -> None:
        self.server.act("delete_channel", channel=where.id)

    def lose_answers(self, operation: str) -> None:
        self.server.fault(kind="drop", operation=OPERATIONS[operation], when="after")

    def stop_working(self) -> None:
        self.server.act("delete_channel", channel=self.server.forum.id)

    def _act_on(self, where: Conversation, text: str, what: str, **more: Any) -> None:
        (message,) = [one for one in self.server.visible(where.id) if one["content"] == text]
        self.server.act(what, channel=where.id, message=message["id"], **more)
