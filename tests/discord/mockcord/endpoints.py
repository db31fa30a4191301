"""What each operation does to the guild, and what it answers."""

from __future__ import annotations

from typing import Any

from .clock import iso
from .contract import Match
from .records import GUILD_FORUM, ApiError, Channel, File, Message
from .world import World

Answer = tuple[int, Any]


def perform(
    world: World,
    root: str,
    found: Match,
    query: dict[str, Any],
    body: dict[str, Any],
    files: list[File],
) -> Answer:
    """Do what a valid request asks for; ApiError when the guild does not allow it."""
    params, operation = found.params, found.operation

    def show(message: Message, nonce: bool = False) -> dict[str, Any]:
        return world.show_message(message, nonce, root)

    if operation == "get_my_user":
        return 200, {**world.bot, "mfa_enabled": False, "locale": "en-US"}
    if operation == "get_active_guild_threads":
        if params["guild_id"] != world.guild_id:
            raise ApiError(404, 10004)
        seen = [c for c in world.active_threads() if world.may("VIEW_CHANNEL", c)]
        return 200, _thread_list(world, seen, more=False)
    channel = world.channel(params["channel_id"])
    if operation == "get_channel":
        if not world.may("VIEW_CHANNEL", channel):
            raise ApiError(403, 50001)
        return 200, world.show_channel(channel)
    if operation == "update_channel":
        if not channel.is_thread:
            world.need("MANAGE_CHANNELS", channel)
            return 200, world.show_channel(channel)
        return 200, world.show_channel(world.update_thread(channel, body))
    if operation == "list_public_archived_threads":
        return 200, _archived(world, channel, query)
    if operation == "create_thread":
        if channel.type != GUILD_FORUM:
            raise ApiError(400, 50024)
        thread, first = world.create_forum_post(channel, body, files)
        return 201, {**world.show_channel(thread), "message": show(first)}
    if operation == "list_messages":
        return 200, [show(message) for message in world.list_messages(channel, query)]
    if operation == "create_message":
        return 200, show(world.create_message(channel.id, body, files), True)
    message = world.message(channel, params["message_id"])
    if not world.may("VIEW_CHANNEL", channel):
        raise ApiError(403, 50001)
    if operation == "get_message":
        world.need("READ_MESSAGE_HISTORY", channel)
        return 200, show(message)
    if operation == "update_message":
        return 200, show(world.edit_message(channel, message, body, files, world.bot["id"]))
    if operation == "add_my_message_reaction":
        world.react(channel, message, params["emoji_name"])
        return 204, None
    raise ApiError(404, 0, "404: Not Found")


def _thread_list(world: World, threads: list[Channel], more: bool) -> dict[str, Any]:
    me = world.bot["id"]
    members = [
        {"id": c.id, "user_id": me, "join_timestamp": iso(c.created), "flags": 0}
        for c in threads
        if me in c.members
    ]
    shown = [world.show_channel(c) for c in threads]
    return {"threads": shown, "members": members, "has_more": more}


def _archived(world: World, parent: Channel, query: dict[str, Any]) -> dict[str, Any]:
    world.need("READ_MESSAGE_HISTORY", parent)
    world.active_threads()  # ages them
    found = [c for c in world.threads_of(parent) if c.archived]
    found.sort(key=lambda c: c.archive_changed, reverse=True)
    if query.get("before"):
        found = [c for c in found if iso(c.archive_changed) < query["before"]]
    limit = int(query.get("limit") or 50)
    return _thread_list(world, found[:limit], len(found) > limit)
