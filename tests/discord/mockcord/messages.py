"""Messages: what may be written and edited, who is pinged, what a listing gives."""

from __future__ import annotations

import re
from typing import Any

from .contract import Problem
from .guild import Guild
from .records import (
    COMPONENTS_V2,
    GUILD_FORUM,
    REPLY,
    SUPPRESS_EMBEDS,
    SUPPRESS_NOTIFICATIONS,
    ApiError,
    Channel,
    File,
    Message,
    form_error,
)


class Messages(Guild):
    def _content(self, body: dict[str, Any]) -> str:
        text = body.get("content") or ""
        if self.options["trim_content"]:
            text = text.strip()
        limit = self.options["content_limit"]
        if self.length(text) > limit:
            raise form_error(Problem(("content",), "BASE_TYPE_MAX_LENGTH", f"longer than {limit}"))
        return text

    @staticmethod
    def check_embeds(embeds: list[dict[str, Any]]) -> None:
        total = 0
        for e in embeds:
            total += len(e.get("title") or "") + len(e.get("description") or "")
            total += len((e.get("footer") or {}).get("text") or "") + len(
                (e.get("author") or {}).get("name") or ""
            )
            total += sum(
                len(f.get("name") or "") + len(f.get("value") or "") for f in e.get("fields") or []
            )
        if total > 6000:
            raise form_error(
                Problem(
                    ("embeds",),
                    "MAX_EMBED_SIZE_EXCEEDED",
                    "more than 6000 characters in all embeds",
                )
            )

    def _mentions(self, msg: Message, allowed: dict[str, Any] | None) -> None:
        """Who gets pinged.  Text inside code does not ping."""
        parse: list[str]
        if allowed is None:
            parse, users, roles = ["users", "roles", "everyone"], [], []
        else:
            parse = [p for p in allowed.get("parse") or [] if p]
            users = [str(u) for u in allowed.get("users") or [] if u]
            roles = [str(r) for r in allowed.get("roles") or [] if r]
            for kind, ids in (("users", users), ("roles", roles)):
                if kind in parse and ids:
                    raise form_error(
                        Problem(
                            ("allowed_mentions",),
                            "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE",
                            f"{kind} both in parse and as a list",
                        )
                    )
        plain = strip_code(msg.content)
        user_ids = re.findall(r"<@!?(\d+)>", plain)
        role_ids = re.findall(r"<@&(\d+)>", plain)
        msg.mention_users = [
            u
            for u in dict.fromkeys(user_ids)
            if u in self.users and ("users" in parse or u in users)
        ]
        msg.mention_roles = [
            r
            for r in dict.fromkeys(role_ids)
            if r in self.roles and ("roles" in parse or r in roles)
        ]
        entitled = "MENTION_EVERYONE" in self.permissions
        msg.mention_everyone = bool(
            entitled and "everyone" in parse and re.search(r"@(everyone|here)\b", plain)
        )

    def _fill(self, msg: Message, body: dict[str, Any], files: list[File]) -> None:
        msg.content = self._content(body)
        msg.embeds = list(body.get("embeds") or [])
        msg.components = list(body.get("components") or [])
        self.check_embeds(msg.embeds)
        flags = body.get("flags") or 0
        msg.flags = flags & (SUPPRESS_EMBEDS | SUPPRESS_NOTIFICATIONS | COMPONENTS_V2)
        if msg.flags & COMPONENTS_V2 and (msg.content or msg.embeds or body.get("poll")):
            raise form_error(
                Problem(
                    ("content",),
                    "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2",
                    "not together with that flag",
                )
            )
        msg.files = self._files(files, body.get("attachments") or [])
        if not (
            msg.content
            or msg.embeds
            or msg.components
            or msg.files
            or body.get("sticker_ids")
            or body.get("poll")
        ):
            raise ApiError(400, 50006)
        self._mentions(msg, body.get("allowed_mentions"))

    def _files(self, files: list[File], meta: list[dict[str, Any]]) -> list[File]:
        described = {str(m.get("id")): m for m in meta}
        for index, file in enumerate(files):
            if len(file.data) > self.options["file_limit"]:
                raise ApiError(413, 40005)
            info = described.get(file.id or str(index), {})
            file.filename = info.get("filename") or file.filename
            file.description = info.get("description")
            file.id = self.clock.snowflake()
        return files

    def _add(self, chan: Channel, msg: Message) -> Message:
        self.messages[chan.id][msg.id] = msg
        chan.sent += 1
        chan.last_activity = self.clock.now()
        return msg

    def _open_for_posting(self, chan: Channel) -> None:
        """Posting wakes an archived thread, unless a moderator locked it."""
        if not chan.is_thread:
            return
        if chan.locked and not self.may("MANAGE_THREADS", chan):
            raise ApiError(403, 50083 if chan.archived else 160005)
        if chan.archived:
            if len(self.active_threads()) >= self.options["max_active_threads"]:
                raise ApiError(400, 160006)
            chan.archived, chan.archive_changed = False, self.clock.now()

    def create_message(self, channel_id: str, body: dict[str, Any], files: list[File]) -> Message:
        chan = self.channel(channel_id)
        self.need("SEND_MESSAGES_IN_THREADS" if chan.is_thread else "SEND_MESSAGES", chan)
        if chan.type == GUILD_FORUM:
            raise ApiError(400, 40058)
        if files:
            self.need("ATTACH_FILES", chan)
        nonce = body.get("nonce")
        key = (self.bot["id"], str(nonce))
        if nonce is not None and body.get("enforce_nonce"):
            seen = self._nonces.get(key)
            if seen and self.clock.now() - seen[0] < self.options["nonce_seconds"]:
                old = seen[1]
                if old.deleted or self.channels[old.channel_id].deleted:
                    raise ApiError(
                        404, 10008
                    )  # deliberate: a retry does not bring back what was removed
                if (old.channel_id, seen[2]) != (chan.id, body.get("content") or ""):
                    self.notes.append(f"nonce {nonce!r} was used again for another text or channel")
                return old
        msg = Message(self.clock.snowflake(), chan.id, self.bot, "", self.clock.now())
        self._fill(msg, body, files)
        reference = body.get("message_reference")
        if reference:
            target = self.messages[chan.id].get(str(reference["message_id"]))
            if target is None or target.deleted:
                if reference.get("fail_if_not_exists", True):
                    raise form_error(
                        Problem(
                            ("message_reference",),
                            "MESSAGE_REFERENCE_UNKNOWN_MESSAGE",
                            "Unknown message",
                        )
                    )
            else:
                msg.type, msg.reply_to = REPLY, target.id
        self._open_for_posting(chan)
        msg.nonce = nonce
        if nonce is not None:
            self._nonces[key] = (self.clock.now(), msg, body.get("content") or "")
        return self._add(chan, msg)

    def _writable(self, chan: Channel) -> None:
        if chan.is_thread and chan.archived:
            raise ApiError(400, 50083)
        if chan.is_thread and chan.locked and not self.may("MANAGE_THREADS", chan):
            raise ApiError(403, 160005)

    def edit_message(
        self, chan: Channel, msg: Message, body: dict[str, Any], files: list[File], author_id: str
    ) -> Message:
        self._writable(chan)
        if msg.author["id"] != author_id:
            raise ApiError(403, 50005)
        before = msg.content
        trial = Message(
            msg.id, msg.channel_id, msg.author, msg.content, msg.created, flags=msg.flags
        )
        trial.embeds, trial.components, trial.files = msg.embeds, msg.components, list(msg.files)
        trial.content = self._content(body) if "content" in body else msg.content
        if "embeds" in body:
            trial.embeds = list(body["embeds"] or [])
            self.check_embeds(trial.embeds)
        if "components" in body:
            trial.components = list(body["components"] or [])
        if "flags" in body:
            trial.flags = (msg.flags & ~SUPPRESS_EMBEDS) | (
                (body["flags"] or 0) & (SUPPRESS_EMBEDS | COMPONENTS_V2)
            )
        if "attachments" in body:
            kept = {str(a["id"]) for a in body["attachments"] or []}
            trial.files = [f for f in trial.files if f.id in kept]
        trial.files += self._files(files, body.get("attachments") or [])
        if not (trial.content or trial.embeds or trial.components or trial.files):
            raise ApiError(400, 50006)
        self._mentions(trial, body.get("allowed_mentions"))
        for name in (
            "content",
            "embeds",
            "components",
            "files",
            "flags",
            "mention_users",
            "mention_roles",
            "mention_everyone",
        ):
            setattr(msg, name, getattr(trial, name))
        if msg.content != before:
            msg.versions.append(before)
        msg.edited = self.clock.now()
        return msg

    def list_messages(self, chan: Channel, query: dict[str, Any]) -> list[Message]:
        """Newest first. `after` gives the ids that follow it without a gap, not the newest."""
        given = [k for k in ("around", "before", "after") if query.get(k) is not None]
        if len(given) > 1:
            raise form_error(
                Problem(
                    tuple(given[:1]), "MUTUALLY_EXCLUSIVE", "more than one of around, before, after"
                )
            )
        if not self.may("VIEW_CHANNEL", chan):
            raise ApiError(403, 50001)
        if chan.type == GUILD_FORUM:
            raise ApiError(400, 50024)
        if not self.may("READ_MESSAGE_HISTORY", chan):
            return []
        limit = int(query.get("limit") or 50)
        alive = sorted(
            (m for m in self.messages[chan.id].values() if not m.deleted), key=lambda m: int(m.id)
        )
        if "after" in given:
            alive = [m for m in alive if int(m.id) > int(query["after"])][:limit]
        elif "before" in given:
            alive = [m for m in alive if int(m.id) < int(query["before"])][-limit:]
        elif "around" in given:
            pivot = int(query["around"])
            older = [m for m in alive if int(m.id) <= pivot][-(limit // 2 + 1) :]
            alive = (older + [m for m in alive if int(m.id) > pivot][: limit // 2])[:limit]
        else:
            alive = alive[-limit:]
        return alive[::-1]

    def react(self, chan: Channel, msg: Message, emoji: str) -> None:
        self._writable(chan)
        self.need("READ_MESSAGE_HISTORY", chan)
        emoji = check_emoji(emoji)
        if emoji not in msg.reactions:
            self.need("ADD_REACTIONS", chan)
            if len(msg.reactions) >= 20:
                raise ApiError(400, 30010)
        who = msg.reactions.setdefault(emoji, [])
        if self.bot["id"] not in who:
            who.append(self.bot["id"])


def strip_code(text: str) -> str:
    text = re.sub(r"```.*?```", " ", text, flags=re.DOTALL)
    return re.sub(r"`[^`\n]+`", " ", text)


def check_emoji(raw: str) -> str:
    if re.fullmatch(r"\w{2,32}:\d{15,20}", raw):
        return raw
    if (
        raw
        and not any(c.isascii() and c not in "0123456789#*" for c in raw)
        and len(raw) <= 16
        and any(not c.isascii() for c in raw)
    ):
        return raw
    raise ApiError(400, 10014)
