"""What a person would see."""

from __future__ import annotations

import hashlib
from typing import Any

from .clock import iso
from .records import PINNED, RENAME_MESSAGE, Message
from .world import World


def _message(world: World, msg: Message) -> dict[str, Any]:
    return {
        "id": msg.id,
        "author": msg.author["username"],
        "by": "webhook" if msg.webhook_id else "bot" if msg.author.get("bot") else "person",
        "type": msg.type,
        "content": msg.content,
        "created": iso(msg.created),
        "edited": msg.edited is not None,
        "earlier_versions": list(msg.versions),
        "deleted": msg.deleted,
        "flags": msg.flags,
        "reply_to": msg.reply_to,
        "embeds": msg.embeds,
        "reactions": {e: len(w) for e, w in msg.reactions.items()},
        "pings": pings(world, msg),
        "silent": bool(msg.flags & (1 << 12)),
        "files": [
            {
                "filename": f.filename,
                "size": len(f.data),
                "sha256": hashlib.sha256(f.data).hexdigest(),
                "text": f.data[:400].decode("utf-8", "replace"),
            }
            for f in msg.files
        ],
    }


def pings(world: World, msg: Message) -> list[str]:
    out = [world.users[u]["username"] for u in msg.mention_users]
    out += ["@" + world.roles[r] for r in msg.mention_roles]
    return out + (["@everyone"] if msg.mention_everyone else [])


def state(world: World, problems: list[str]) -> dict[str, Any]:
    """Everything, deleted things too, so that a test can say how it came to be."""
    world.active_threads()
    channels = []
    for chan in sorted(world.channels.values(), key=lambda c: int(c.id)):
        names = {
            t["id"]: t["name"]
            for t in (world.channels[chan.parent_id].tags if chan.parent_id else [])
        }
        channels.append(
            {
                "id": chan.id,
                "kind": {0: "text", 11: "public thread", 12: "private thread", 15: "forum"}[
                    chan.type
                ],
                "name": chan.name,
                "parent_id": chan.parent_id,
                "archived": chan.archived,
                "locked": chan.locked,
                "pinned": bool(chan.flags & PINNED) if chan.is_thread else False,
                "auto_archive_duration": chan.auto_archive,
                "tags": [names.get(t, t) for t in chan.applied_tags],
                "deleted": chan.deleted,
                "messages": [
                    _message(world, m)
                    for m in sorted(world.messages[chan.id].values(), key=lambda m: int(m.id))
                ],
            }
        )
    return {
        "guild_id": world.guild_id,
        "now": iso(world.clock.now()),
        "channels": channels,
        "problems": problems,
    }


def visible(world: World, channel_id: str) -> list[dict[str, Any]]:
    chan = world.channels[channel_id]
    if chan.deleted:
        return []
    alive = sorted(
        (m for m in world.messages[channel_id].values() if not m.deleted), key=lambda m: int(m.id)
    )
    return [_message(world, m) for m in alive]


def transcript(world: World) -> str:
    lines: list[str] = []
    for chan in sorted(world.channels.values(), key=lambda c: (c.parent_id or c.id, int(c.id))):
        if chan.deleted:
            continue
        marks = [
            n
            for n, on in (
                ("archived", chan.archived),
                ("locked", chan.locked),
                ("pinned", bool(chan.flags & PINNED)),
            )
            if on and chan.is_thread
        ]
        names = {
            t["id"]: t["name"]
            for t in (world.channels[chan.parent_id].tags if chan.parent_id else [])
        }
        marks += ["#" + names.get(t, t) for t in chan.applied_tags]
        lines.append(
            ("== " if chan.is_thread else "#### ")
            + chan.name
            + (f" [{', '.join(marks)}]" if marks else "")
        )
        for msg in sorted(world.messages[chan.id].values(), key=lambda m: int(m.id)):
            if msg.deleted:
                continue
            if msg.type == RENAME_MESSAGE:
                lines.append(
                    f"   ({msg.author['username']} changed the post title to: {msg.content})"
                )
                continue
            when = iso(msg.created)[11:19]
            tag = " APP" if msg.author.get("bot") else ""
            lines.append(
                f"  {when} {msg.author['username']}{tag}" + (" (reply)" if msg.reply_to else "")
            )
            lines += ["    | " + line for line in msg.content.split("\n")] if msg.content else []
            lines += [f"    + file {f.filename} ({len(f.data)} bytes)" for f in msg.files]
            lines += [f"    + embed {e.get('title') or ''}" for e in msg.embeds]
            notes = ["edited"] if msg.edited else []
            notes += [f"{e} {len(w)}" for e, w in msg.reactions.items()]
            notes += [f"pings {', '.join(pings(world, msg))}"] if pings(world, msg) else []
            if notes:
                lines.append("    ~ " + "; ".join(notes))
    return "\n".join(lines) + "\n"
