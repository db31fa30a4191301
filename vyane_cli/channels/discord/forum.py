"""The forum and its posts: identify the bot and the forum, and find or create a session's post."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from vyane_cli.channels.discord.errors import CODES, NO_FORUM, ErrorRow, outcome_of
from vyane_cli.channels.discord.rest import Request, Rest, Stopped
from vyane_cli.channels.discord.settings import DiscordSettings
from vyane_cli.channels.discord.text import message_of, title
from vyane_cli.channels.port import ChannelOutcome, ChannelVerdict, Conversation, File, Opening

FORUM = 15
REQUIRE_TAG = 1 << 4
THREADS_MAX = 500
PAGE, PAGES_MAX = 100, 10


class Forum:
    """One forum, as one bot sees it. `memory` caches answers of Discord between runs."""

    def __init__(
        self, rest: Rest, settings: DiscordSettings, bot: tuple[str, str], memory: dict[str, Any]
    ) -> None:
        """Keep the arguments. `bot`: channel and account, as in a conversation."""
        self.rest, self.settings, self.bot, self.memory = rest, settings, bot, memory
        self._may_read = False

    # ------------------------------------------------------------------ bot and forum

    def look_around(self) -> ChannelOutcome:
        """Ask who the bot is, check the forum against the settings, and cache the answers."""
        self.memory.pop("place", None)
        settings = self.settings
        me = self._get("/users/@me", "see", "me")
        forum = self._own(lambda: self._get(f"/channels/{settings.forum}", "see", "channel"))
        if forum.get("type") != FORUM:
            return self._off(NO_FORUM)
        guild = str(forum.get("guild_id"))
        if settings.guild not in ("", guild):
            return ChannelOutcome(
                ChannelVerdict.OFF,
                "wrong-guild",
                f"the forum {settings.forum} is in the server {guild}, not in {settings.guild}",
                "set channels.discord.guild to the server of the forum",
            )
        tags = {str(tag["name"]): str(tag["id"]) for tag in forum.get("available_tags") or ()}
        strange = [tag for tag in settings.tags if tag not in tags and tag not in tags.values()]
        if strange:
            has = f"it has: {', '.join(tags)}" if tags else "it has none"
            words = f"the forum has no tag {', '.join(map(repr, strange))}; {has}"
            return self._off(CODES[10087])._replace(detail=words)
        if not settings.tags and int(forum.get("flags") or 0) & REQUIRE_TAG:
            return self._off(CODES[40067])
        self._archived("2")  # checks the permission now, not first after a crash
        self.memory["place"] = {
            "fingerprint": settings.fingerprint,
            "guild": guild,
            "me": str(me["id"]),
            "tags": [tags.get(tag, tag) for tag in settings.tags],
        }
        return ChannelOutcome(
            ChannelVerdict.DONE, detail=f"{me.get('username')} in #{forum.get('name')}"
        )

    def place(self) -> Mapping[str, Any]:
        """Return the answers of `look_around` for these settings, cached or new.

        Raises Stopped when `look_around` fails.
        """
        place = self.memory.get("place")
        if not isinstance(place, dict) or place.get("fingerprint") != self.settings.fingerprint:
            outcome = self.look_around()
            if outcome.verdict is not ChannelVerdict.DONE:
                raise Stopped(outcome)
            place = self.memory["place"]
        return dict(place)

    # ------------------------------------------------------------------ a session's post

    def open(self, opening: Opening) -> ChannelOutcome:
        """Find the post with this key among open and archived posts, or create it."""
        found = self._find(opening.key)
        thread = found or self._make(opening)
        threads = self.memory.setdefault("threads", {})
        threads[thread] = opening.key
        for old in list(threads)[:-THREADS_MAX]:
            del threads[old]
        where = Conversation(*self.bot, thread, self.settings.forum)
        # the id of a post is also the id of its first message
        return ChannelOutcome(ChannelVerdict.DONE, id=thread, conversation=where, found=bool(found))

    def _make(self, opening: Opening) -> str:
        first = opening.first
        if not _names(first.text, opening.key):
            first = first._replace(text=f"{first.text}\n-# {opening.key}")
        message, files = message_of(first)
        body = {"name": title(opening.title), "message": message}
        if tags := self.place()["tags"]:
            body["applied_tags"] = tags
        forum = self.settings.forum
        path = f"/channels/{forum}/threads"
        request = Request(
            method="POST",
            path=path,
            action="open",
            route="open",
            top=forum,
            place="the forum",
            body=body,
            files=files,
            creates=True,
        )
        try:
            return str(self._own(lambda: self.tidying(request))["id"])
        except Stopped as stop:
            if stop.outcome.verdict is not ChannelVerdict.UNKNOWN:
                raise
        # without an answer, the post may still have been created
        return self._find(opening.key) or str(self._own(lambda: self.tidying(request))["id"])

    def _find(self, key: str) -> str:
        """Find the bot's post that names this key in its first message.

        Return the thread's id, or an empty string without such a post.
        """
        known = self.memory.get("threads", {})
        for thread in [thread for thread, name in known.items() if name == key]:
            if self._is_there(thread):
                return str(thread)
        place = self.place()
        for thread in (*self._active(), *self._archived("100")):
            ident = str(thread["id"])
            mine = str(thread.get("owner_id")) == place["me"] and ident not in known
            here = str(thread.get("parent_id")) == self.settings.forum
            if mine and here and _names(self._first_text(ident), key):
                return ident
        return ""

    def _active(self) -> list[Mapping[str, Any]]:
        path = f"/guilds/{self.place()['guild']}/threads/active"
        return list(self._get(path, "see", "active", top="guild")["threads"])

    def _archived(self, limit: str) -> list[Mapping[str, Any]]:
        path = f"/channels/{self.settings.forum}/threads/archived/public"
        query = {"limit": limit}
        found = self._own(lambda: self._get(path, "list", "archived", query))
        self._may_read = True
        return list(found["threads"])

    def believe_nothing(self) -> None:
        """Check the permission to read messages. Raises Stopped without the permission.

        Without it, Discord returns an empty list of messages, but refuses a list of threads. So
        this lists threads, once in a run, when a list of messages is empty.
        """
        if not self._may_read:
            self._archived("2")

    def _is_there(self, thread: str) -> bool:
        try:
            self._get(f"/channels/{thread}", "see", "channel", top=thread)
        except Stopped as stop:
            if stop.outcome.verdict is ChannelVerdict.GONE:
                return False
            raise
        return True

    def _first_text(self, thread: str) -> str:
        path = f"/channels/{thread}/messages/{thread}"
        try:
            return str(self._get(path, "read", "message", top=thread).get("content") or "")
        except Stopped as stop:
            if stop.outcome.verdict is ChannelVerdict.ABSENT:
                return ""
            raise

    # ------------------------------------------------------------------ open posts are limited

    def tidying(self, request: Request) -> Any:
        """Send a request. At the server's limit of open posts, archive own closed posts, retry."""
        try:
            return self.ask(request)
        except Stopped as stop:
            if stop.code != 160006 or not self._put_away():
                raise
            return self.ask(request)

    def _put_away(self) -> int:
        done, me = set(self.memory.get("closed", ())), self.place()["me"]
        ours = [one for one in self._active() if str(one.get("owner_id")) == me]
        found = [str(one["id"]) for one in ours if str(one["id"]) in done]
        for thread in found:
            body = {"archived": True}
            self.ask(self.request("PATCH", thread, "", "mark", "change", body))
        return len(found)

    def note_closed(self, thread: str, closed: bool) -> None:
        """Remember whether a post was closed, for `tidying`."""
        done = [one for one in self.memory.get("closed", ()) if one != thread]
        self.memory["closed"] = [*done, *([thread] if closed else [])][-THREADS_MAX:]

    # ------------------------------------------------------------------ requests

    def request(
        self,
        method: str,
        thread: str,
        path: str,
        action: str,
        route: str,
        body: Mapping[str, Any] | None = None,
        files: tuple[File, ...] = (),
    ) -> Request:
        """Build a request about one thread. Raises Stopped when the thread's id is not a number."""
        if not (thread.isascii() and thread.isdigit()):
            raise Stopped(self.refusal(10003, thread))
        place, full = f"the thread {thread}", f"/channels/{thread}{path}"
        return Request(
            method=method,
            path=full,
            action=action,
            route=route,
            top=thread,
            place=place,
            body=body,
            files=files,
            query=None,
            creates=route == "post",
        )

    def pages(self, thread: str, after: str) -> Iterator[list[Mapping[str, Any]]]:
        """Yield pages of the messages after an id: oldest page first, each page newest first."""
        for number in range(PAGES_MAX):
            request = self.request("GET", thread, "/messages", "read", "list")
            page = self.ask(request._replace(query={"after": after, "limit": str(PAGE)}))
            if not page and number == 0:
                self.believe_nothing()
            yield page
            if len(page) < PAGE:
                return
            after = max((str(one["id"]) for one in page), key=int)

    def ask(self, request: Request) -> Any:
        """Send a request and return the answer. Raises Stopped.

        If a thread is gone because its forum is gone, the outcome in Stopped is OFF.
        """
        try:
            return self.rest.ask(request)
        except Stopped as stop:
            if stop.code == 10003 and request.top != self.settings.forum:
                forum = self.settings.forum
                self._own(lambda: self._get(f"/channels/{forum}", "see", "channel"))
            raise

    def refusal(self, code: int, thread: str) -> ChannelOutcome:
        """Return the outcome for a code that Discord itself did not send."""
        return outcome_of(0, code, "post", f"the thread {thread}", "", self.rest.around.now_ms())

    def _get(
        self,
        path: str,
        action: str,
        route: str,
        query: Mapping[str, str] | None = None,
        top: str = "",
    ) -> Any:
        where = top or self.settings.forum
        return self.ask(
            Request(
                method="GET",
                path=path,
                action=action,
                route=route,
                top=where,
                place="the forum",
                query=query,
            )
        )

    def _own(self, call: Callable[[], Any]) -> Any:
        """Run a call about the forum itself. A missing forum raises Stopped with OFF.

        Nothing on this channel works without the forum.
        """
        try:
            return call()
        except Stopped as stop:
            if stop.code != 10003:
                raise
            outcome = ChannelOutcome(
                ChannelVerdict.OFF,
                "forum-gone",
                f"there is no forum {self.settings.forum}, or the bot cannot see it",
                "set channels.discord.forum to a forum's id, and invite the bot to its server",
            )
            raise Stopped(outcome, stop.code) from None

    def _off(self, row: ErrorRow) -> ChannelOutcome:
        place = f"channel {self.settings.forum}"
        return ChannelOutcome(row.verdict, row.reason, row.detail.format(place=place), row.fix)


def _names(text: str, key: str) -> bool:
    """Return whether a text contains the key as a separate word."""
    return re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", text) is not None
