"""The whole guild as the server uses it: what people do, and how the API shows things."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .clock import iso
from .messages import strip_code
from .records import GUILD_FORUM, REPLY, REQUIRE_TAG, Channel, File, Message
from .threads import Threads


class World(Threads):
    def post_as_person(
        self,
        channel_id: str,
        user_id: str,
        content: str,
        earlier_ms: int = 0,
        reply_to: str | None = None,
        files: dict[str, str] | None = None,
    ) -> Message:
        """A human writes in the client: it wakes an archived thread as a person's message does."""
        chan = self.channel(channel_id)
        msg = Message(
            self.clock.snowflake(earlier_ms),
            chan.id,
            self.users[user_id],
            content,
            self.clock.now() - earlier_ms / 1000,
        )
        msg.mention_users = [
            u for u in re.findall(r"<@!?(\d+)>", strip_code(content)) if u in self.users
        ]
        for name, text in (files or {}).items():
            msg.files.append(
                File(name, text.encode(), "text/plain; charset=utf-8", id=self.clock.snowflake())
            )
        if reply_to:
            msg.type, msg.reply_to = REPLY, reply_to
        if chan.archived and not chan.locked:
            chan.archived, chan.archive_changed = False, self.clock.now()
        return self._add(chan, msg)

    def edit_as_person(self, channel: str, message: str, content: str) -> None:
        """A human edits what they wrote."""
        msg = self.messages[channel][message]
        msg.versions.append(msg.content)
        msg.content, msg.edited = content, self.clock.now()

    def post_as_webhook(self, channel: str, content: str) -> Message:
        """Some integration's webhook writes in the thread."""
        hook = self.clock.snowflake()
        author = {**self.bot, "id": hook, "username": "some hook", "bot": False}
        msg = Message(
            self.clock.snowflake(), channel, author, content, self.clock.now(), webhook_id=hook
        )
        return self._add(self.channel(channel), msg)

    def act(self, what: str, **args: Any) -> Any:
        """Something a person does that no bot request can: see the README for the list."""
        doers: dict[str, Callable[..., Any]] = {
            "post": lambda channel, user, content, **kw: (
                self.post_as_person(channel, user, content, **kw).id
            ),
            "archive": lambda thread: self._set(thread, archived=True),
            "unarchive": lambda thread: self._set(thread, archived=False),
            "lock": lambda thread: self._set(thread, locked=True),
            "unlock": lambda thread: self._set(thread, locked=False),
            "delete_channel": lambda channel: self._set(channel, deleted=True),
            "delete_message": lambda channel, message: setattr(
                self.messages[channel][message], "deleted", True
            ),
            "edit": self.edit_as_person,
            "echo": lambda channel, content: self.post_as_webhook(channel, content).id,
            "deny": lambda channel, permission: self.denied.setdefault(channel, set()).add(
                permission
            ),
            "allow": lambda channel, permission: self.denied.setdefault(channel, set()).discard(
                permission
            ),
            "grant": lambda permission: self.permissions.add(permission),
            "require_tag": lambda channel: self._set(
                channel, flags=self.channels[channel].flags | REQUIRE_TAG
            ),
            "option": lambda name, value: (
                self.options.__setitem__(name, value) if name in self.DEFAULTS else self._bad(name)
            ),
        }
        return doers[what](**args)

    def _bad(self, name: str) -> None:
        raise KeyError(name)

    def _set(self, channel_id: str, **values: Any) -> None:
        chan = self.channels[channel_id]
        for name, value in values.items():
            setattr(chan, name, value)
        if "archived" in values:
            chan.archive_changed = self.clock.now()
            if not values["archived"]:
                chan.last_activity = self.clock.now()

    def show_message(
        self, msg: Message, with_nonce: bool = False, base: str = ""
    ) -> dict[str, Any]:
        hidden = (
            not self.options["message_content_intent"]
            and msg.author["id"] != self.bot["id"]
            and self.bot["id"] not in msg.mention_users
        )
        out: dict[str, Any] = {
            "id": msg.id,
            "channel_id": msg.channel_id,
            "type": msg.type,
            "author": msg.author,
            "content": "" if hidden else msg.content,
            "timestamp": iso(msg.created),
            "edited_timestamp": iso(msg.edited) if msg.edited else None,
            "tts": False,
            "pinned": False,
            "mention_everyone": msg.mention_everyone,
            "mentions": [self.users[u] for u in msg.mention_users],
            "mention_roles": list(msg.mention_roles),
            "flags": msg.flags,
            "embeds": [] if hidden else [{**e, "type": "rich"} for e in msg.embeds],
            "components": [],
            "attachments": []
            if hidden
            else [
                {
                    "id": f.id,
                    "filename": f.filename,
                    "size": len(f.data),
                    "content_type": f.content_type,
                    "url": f"{base}/_cdn/{f.id}/{f.filename}",
                    "proxy_url": f"{base}/_cdn/{f.id}/{f.filename}",
                    **({"description": f.description} if f.description else {}),
                }
                for f in msg.files
            ],
        }
        if msg.webhook_id:
            out["webhook_id"] = msg.webhook_id
        if msg.reactions:
            out["reactions"] = [
                {
                    "emoji": emoji_object(e),
                    "count": len(who),
                    "count_details": {"burst": 0, "normal": len(who)},
                    "burst_colors": [],
                    "me_burst": False,
                    "me": self.bot["id"] in who,
                }
                for e, who in msg.reactions.items()
            ]
        if msg.reply_to:
            out["message_reference"] = {
                "type": 0,
                "channel_id": msg.channel_id,
                "message_id": msg.reply_to,
                "guild_id": self.guild_id,
            }
        if with_nonce and msg.nonce is not None:
            out["nonce"] = (
                msg.nonce
            )  # given back on creation only; it is not stored with the message
        return out

    def show_channel(self, chan: Channel) -> dict[str, Any]:
        alive = [m for m in self.messages[chan.id].values() if not m.deleted]
        last = max((m.id for m in alive), key=int, default=None)
        if not chan.is_thread:
            return {
                "id": chan.id,
                "type": chan.type,
                "guild_id": self.guild_id,
                "name": chan.name,
                "position": 0,
                "flags": chan.flags,
                "parent_id": None,
                "last_message_id": last,
                "nsfw": False,
                **(
                    {
                        "available_tags": chan.tags,
                        "default_auto_archive_duration": chan.auto_archive,
                    }
                    if chan.type == GUILD_FORUM
                    else {}
                ),
            }
        return {
            "id": chan.id,
            "type": chan.type,
            "guild_id": self.guild_id,
            "parent_id": chan.parent_id,
            "owner_id": chan.owner_id,
            "name": chan.name,
            "flags": chan.flags,
            "last_message_id": last,
            "rate_limit_per_user": chan.slowmode,
            "applied_tags": list(chan.applied_tags),
            "message_count": max(0, len(alive) - 1),
            "member_count": len(chan.members),
            "total_message_sent": max(0, chan.sent - 1),
            "thread_metadata": {
                "archived": chan.archived,
                "locked": chan.locked,
                "auto_archive_duration": chan.auto_archive,
                "archive_timestamp": iso(chan.archive_changed),
                "create_timestamp": iso(chan.created),
            },
        }


def emoji_object(emoji: str) -> dict[str, Any]:
    if ":" in emoji:
        name, ident = emoji.split(":")
        return {"id": ident, "name": name}
    return {"id": None, "name": emoji}
