"""The guild: its people, channels and permissions. All else builds on it."""

from __future__ import annotations

from typing import Any, ClassVar

from .clock import Clock
from .records import ALL_PERMISSIONS, PINNED, REQUIRE_TAG, ApiError, Channel, Message


class Guild:
    DEFAULTS: ClassVar[dict[str, Any]] = {
        "message_content_intent": True,  # off: other people's text arrives empty
        "nonce_seconds": 180.0,  # documented only as the past few minutes
        "content_limit": 2000,
        "length_unit": "codepoints",  # or "utf16"
        "trim_content": True,  # seen, not documented
        "file_limit": 10 * 1024 * 1024,
        "request_limit": 25 * 1024 * 1024,
        "max_active_threads": 1000,
    }

    def __init__(self, clock: Clock | None = None, **options: Any) -> None:
        unknown = set(options) - set(self.DEFAULTS)
        if unknown:
            raise KeyError(f"unknown options {sorted(unknown)}")
        self.clock = clock or Clock()
        self.options = {**self.DEFAULTS, **options}
        self.channels: dict[str, Channel] = {}
        self.messages: dict[str, dict[str, Message]] = {}
        self.users: dict[str, dict[str, Any]] = {}
        self.roles: dict[str, str] = {}
        self.permissions: set[str] = set(ALL_PERMISSIONS)
        self.denied: dict[str, set[str]] = {}
        self.notes: list[str] = []
        self._nonces: dict[tuple[str, str], tuple[float, Message, str]] = {}
        self.guild_id = self.clock.snowflake()
        self.bot = self.add_user("bench-bot", bot=True)
        self.token = "bot-token-for-tests"

    def add_user(self, name: str, bot: bool = False) -> dict[str, Any]:
        user: dict[str, Any] = {
            "id": self.clock.snowflake(),
            "username": name,
            "avatar": None,
            "discriminator": "0",
            "public_flags": 0,
            "flags": 0,
            "global_name": name,
            "primary_guild": None,
            **({"bot": True} if bot else {}),
        }
        self.users[user["id"]] = user
        return user

    def add_role(self, name: str) -> str:
        role = self.clock.snowflake()
        self.roles[role] = name
        return role

    def add_channel(
        self,
        name: str,
        kind: int,
        tags: tuple[str, ...] = (),
        require_tag: bool = False,
        moderated: tuple[str, ...] = (),
    ) -> Channel:
        now = self.clock.now()
        chan = Channel(
            self.clock.snowflake(), kind, name, now, flags=REQUIRE_TAG if require_tag else 0
        )
        chan.tags = [
            {
                "id": self.clock.snowflake(),
                "name": t,
                "moderated": t in moderated,
                "emoji_id": None,
                "emoji_name": None,
            }
            for t in tags
        ]
        self.channels[chan.id] = chan
        self.messages[chan.id] = {}
        return chan

    def channel(self, channel_id: str) -> Channel:
        chan = self.channels.get(channel_id)
        if chan is None or chan.deleted:
            raise ApiError(404, 10003)
        self._age(chan)
        if chan.is_thread and self.channels[str(chan.parent_id)].deleted:
            raise ApiError(404, 10003)
        return chan

    def message(self, chan: Channel, message_id: str) -> Message:
        found = self.messages[chan.id].get(message_id)
        if found is None or found.deleted:
            raise ApiError(404, 10008)
        return found

    def may(self, permission: str, chan: Channel) -> bool:
        top = str(chan.parent_id) if chan.is_thread else chan.id
        return permission in self.permissions and permission not in self.denied.get(
            top, set()
        ) | self.denied.get(chan.id, set())

    def need(self, permission: str, chan: Channel) -> None:
        if not self.may("VIEW_CHANNEL", chan):
            raise ApiError(403, 50001)
        if not self.may(permission, chan):
            raise ApiError(403, 50013)

    def _age(self, chan: Channel) -> None:
        if chan.is_thread and not chan.archived and not chan.flags & PINNED:
            due = chan.last_activity + chan.auto_archive * 60
            if self.clock.now() >= due:
                chan.archived, chan.archive_changed = True, due

    def threads_of(self, parent: Channel) -> list[Channel]:
        return [
            c
            for c in self.channels.values()
            if c.is_thread and not c.deleted and c.parent_id == parent.id
        ]

    def active_threads(self) -> list[Channel]:
        threads = [c for c in self.channels.values() if c.is_thread and not c.deleted]
        for chan in threads:
            self._age(chan)
        return [c for c in threads if not c.archived]

    def length(self, text: str) -> int:
        return (
            len(text.encode("utf-16-le")) // 2
            if self.options["length_unit"] == "utf16"
            else len(text)
        )
