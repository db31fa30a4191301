"""Forum posts and threads: making, changing, archiving, locking."""

from __future__ import annotations

from typing import Any

from .contract import Problem
from .messages import Messages
from .records import (
    PINNED,
    PUBLIC_THREAD,
    RENAME_MESSAGE,
    REQUIRE_TAG,
    ApiError,
    Channel,
    File,
    Message,
    form_error,
)


class Threads(Messages):
    def _tags(
        self, forum: Channel, wanted: list[str] | None, creating: bool, trusted: bool
    ) -> list[str]:
        tags = [str(t) for t in wanted or []]
        known = {t["id"]: t for t in forum.tags}
        for tag in tags:
            if tag not in known:
                raise ApiError(400, 10087)
            if known[tag]["moderated"] and not trusted:
                raise ApiError(403, 50013)
        if forum.flags & REQUIRE_TAG and not tags and creating:
            raise ApiError(400, 40067)
        return tags

    def _new_thread(
        self, parent: Channel, name: str, kind: int, owner: str, minutes: int | None
    ) -> Channel:
        if not name.strip():
            raise form_error(Problem(("name",), "BASE_TYPE_REQUIRED", "missing"))
        if len(self.active_threads()) >= self.options["max_active_threads"]:
            raise ApiError(400, 160006)
        now = self.clock.now()
        thread = Channel(
            self.clock.snowflake(),
            kind,
            name.strip(),
            now,
            parent.id,
            owner,
            auto_archive=minutes or parent.auto_archive,
        )
        thread.archive_changed = thread.last_activity = now
        thread.members = {owner}
        self.channels[thread.id] = thread
        self.messages[thread.id] = {}
        return thread

    def create_forum_post(
        self, forum: Channel, body: dict[str, Any], files: list[File]
    ) -> tuple[Channel, Message]:
        self.need("SEND_MESSAGES", forum)
        if files:
            self.need("ATTACH_FILES", forum)
        tags = self._tags(forum, body.get("applied_tags"), True, self.may("MANAGE_THREADS", forum))
        msg = Message("0", "0", self.bot, "", self.clock.now())
        self._fill(msg, body["message"], files)
        thread = self._new_thread(
            forum, body["name"], PUBLIC_THREAD, self.bot["id"], body.get("auto_archive_duration")
        )
        thread.applied_tags = tags
        msg.id = msg.channel_id = thread.id  # a post's first message shares the post's id
        self._add(thread, msg)
        return thread, msg

    def update_thread(self, chan: Channel, body: dict[str, Any]) -> Channel:
        if not self.may("VIEW_CHANNEL", chan):
            raise ApiError(403, 50001)
        manager = self.may("MANAGE_THREADS", chan)
        waking = body.get("archived") is False
        others = {k for k, v in body.items() if k != "archived" and v is not None}
        if chan.archived and not waking and (others or (body.get("archived") is True and others)):
            raise ApiError(400, 50083)
        if waking and chan.archived:
            if chan.locked and not manager:
                raise ApiError(403, 50013)
            if not (
                manager
                or self.may("SEND_MESSAGES", chan)
                or self.may("SEND_MESSAGES_IN_THREADS", chan)
            ):
                raise ApiError(403, 50013)
            if len(self.active_threads()) >= self.options["max_active_threads"]:
                raise ApiError(400, 160006)
        mine = chan.owner_id == self.bot["id"]
        if others & {"locked", "rate_limit_per_user", "flags"} and not manager:
            raise ApiError(403, 50013)
        if (
            others & {"name", "auto_archive_duration", "applied_tags"} or body.get("archived")
        ) and not (manager or mine):
            raise ApiError(403, 50013)
        if others and chan.locked and not manager:
            raise ApiError(403, 160005)
        if body.get("name") is not None and not body["name"].strip():
            raise form_error(Problem(("name",), "BASE_TYPE_REQUIRED", "missing"))
        forum = self.channels[str(chan.parent_id)]
        if body.get("applied_tags") is not None:
            chan.applied_tags = self._tags(forum, body["applied_tags"], False, manager)
        now = self.clock.now()
        if body.get("name") is not None and body["name"].strip() != chan.name:
            chan.name = body["name"].strip()
            notice = Message(
                self.clock.snowflake(), chan.id, self.bot, chan.name, now, type=RENAME_MESSAGE
            )
            self._add(chan, notice)
        if body.get("auto_archive_duration") is not None:
            chan.auto_archive = body["auto_archive_duration"]
            chan.archive_changed = chan.last_activity = now
        if body.get("locked") is not None:
            chan.locked = body["locked"]
        if body.get("rate_limit_per_user") is not None:
            chan.slowmode = body["rate_limit_per_user"]
        if body.get("flags") is not None:
            chan.flags = body["flags"] & PINNED
        if body.get("archived") is not None and body["archived"] != chan.archived:
            chan.archived, chan.archive_changed = body["archived"], now
            if chan.archived:
                chan.flags &= ~PINNED
            else:
                chan.last_activity = now
        return chan
