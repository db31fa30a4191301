"""The Discord channel for one run: one bot in one forum, as an adapter of the channel port."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from vyane_cli.channels.discord import reading, text
from vyane_cli.channels.discord.forum import PAGES_MAX, Forum
from vyane_cli.channels.discord.rest import RateLimits, Rest, Stopped
from vyane_cli.channels.discord.settings import DiscordSettings
from vyane_cli.channels.discord.text import (
    SILENT,
    fit,
    message_of,
    plan_parts,
    with_cut_files,
    without_files,
)
from vyane_cli.channels.port import (
    Capabilities,
    ChannelOutcome,
    ChannelPage,
    ChannelVerdict,
    Conversation,
    Opening,
    Part,
    Post,
    Sign,
    Surroundings,
)

RENAME_PATIENCE_MS = 2_000
RENAME_EVERY_S = 300
"""Discord allows two changes of a thread's title in ten minutes."""
SIGNS = {Sign.SEEN: "👀", Sign.DONE: "✅"}


def _answered(method: Callable[..., ChannelOutcome]) -> Callable[..., ChannelOutcome]:
    """Turn Stopped, raised by the method, into the outcome that it carries."""

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> ChannelOutcome:
        try:
            return method(*args, **named)
        except Stopped as stop:
            return stop.outcome

    return call


class DiscordChannel:
    """The requests of the mirror to Discord; implements `channels.port.Channel`."""

    capabilities = Capabilities(acknowledge=True, title_every_s=RENAME_EVERY_S)

    def __init__(
        self,
        name: str,
        account: str,
        settings: DiscordSettings,
        memory: dict[str, Any],
        around: Surroundings,
    ) -> None:
        self.fingerprint, self.memory = settings.fingerprint, memory
        limits = RateLimits(memory.setdefault("limits", {}), around.now_ms())
        self._rest = Rest(settings, limits, around)
        self._forum = Forum(self._rest, settings, (name, account), memory)

    @_answered
    def check(self) -> ChannelOutcome:
        """Ask who the bot is, and check that the bot can use the forum."""
        return self._forum.look_around()

    @_answered
    def open(self, opening: Opening) -> ChannelOutcome:
        """Find the forum post with this key, or create it."""
        return self._forum.open(opening)

    @_answered
    def probe(self, conversation: Conversation) -> ChannelOutcome:
        """Check whether the thread exists, is locked or is archived."""
        thread = self._forum.ask(self._forum.request("GET", conversation.id, "", "see", "channel"))
        state = thread.get("thread_metadata") or {}
        if state.get("locked"):
            return self._forum.refusal(160005, conversation.id)
        return ChannelOutcome(ChannelVerdict.DONE, archived=bool(state.get("archived")))

    @_answered
    def mark(
        self, conversation: Conversation, title: str | None = None, closed: bool | None = None
    ) -> ChannelOutcome:
        """Change title and closed state in one request.

        If the new title has to wait, the thread is closed (or reopened) without the new title.
        """
        thread = conversation.id
        name = None if title is None else text.title(title)
        left_out = False
        try:
            self._change(thread, name, closed)
        except Stopped as stop:
            if name is None or stop.outcome.verdict is not ChannelVerdict.LATER:
                raise
            if stop.code == 50083 and closed is None:  # archived: open it for the new title
                self._change(thread, name, False)
                self._change(thread, None, True)
            elif closed is not None:
                self._change(thread, None, closed)
                left_out = True
            else:
                raise
        if closed is not None:
            self._forum.note_closed(thread, closed)
        note = "closed without its new title" if left_out else ""
        return ChannelOutcome(ChannelVerdict.DONE, detail=note, quiet=left_out)

    def _change(self, thread: str, name: str | None, closed: bool | None) -> None:
        body: dict[str, Any] = {} if name is None else {"name": name}
        if closed is not None:
            body["archived"] = closed
        route = "change" if name is None else "rename"  # renames have their own limit
        request = self._forum.request("PATCH", thread, "", "mark", route, body)
        patience = None if name is None else RENAME_PATIENCE_MS
        self._forum.ask(request._replace(patience_ms=patience))

    # ------------------------------------------------------------------ out

    def plan(self, post: Post) -> Sequence[Part]:
        """Return the parts of a post, one for each Discord message."""
        return plan_parts(post)

    @_answered
    def post(self, conversation: Conversation, part: Part, nonce: str) -> ChannelOutcome:
        """Post a part. If Discord refuses its file, post it with a shorter file or without one."""
        note = ""
        tries = [part, *with_cut_files(part), *without_files(part)]
        for attempt in tries:
            message, files = message_of(attempt)
            message |= {"nonce": nonce, "enforce_nonce": True}
            request = self._forum.request(
                "POST", conversation.id, "/messages", "post", "post", message, files
            )
            try:
                made = self._forum.tidying(request)
            except Stopped as stop:
                if files and (stop.code in (40005, 50013) or stop.status == 413):
                    note = stop.outcome.detail
                    continue
                return self._not_posted(stop, conversation)
            self._forum.note_closed(conversation.id, False)
            return ChannelOutcome(
                ChannelVerdict.DONE, id=str(made["id"]), detail=note, quiet=bool(note)
            )
        return ChannelOutcome(ChannelVerdict.REFUSED, "refused", note)

    def _not_posted(self, stop: Stopped, conversation: Conversation) -> ChannelOutcome:
        if stop.code == 10008:  # a person removed the post of this nonce: do not restore it
            return ChannelOutcome(ChannelVerdict.DONE, "removed", "somebody removed it", quiet=True)
        if stop.code == 50083:  # a post opens an archived thread, unless the thread is locked
            return self._forum.refusal(160005, conversation.id)
        raise stop

    @_answered
    def find_post(
        self, conversation: Conversation, part: Part, nonce: str, after: str
    ) -> ChannelOutcome:
        """Look for the bot's message with this text after message `after`.

        The text is compared because Discord does not show the nonce of old messages.
        """
        me = self._forum.place()["me"]
        wanted = text.clean(fit(part.text)).strip()
        for page in self._forum.pages(conversation.id, after or "0"):
            for message in page:
                content = str(message.get("content") or "")
                same = content == wanted or content.startswith(wanted + "\n-# ")
                if same and str((message.get("author") or {}).get("id")) == me:
                    return ChannelOutcome(ChannelVerdict.DONE, id=str(message["id"]))
        return ChannelOutcome(ChannelVerdict.DONE)

    @_answered
    def edit(self, conversation: Conversation, message: str, part: Part) -> ChannelOutcome:
        """Edit a message. An archived thread is opened for the edit and archived again."""
        thread = conversation.id
        body = message_of(part)[0]
        body["flags"] &= ~SILENT  # edits are always silent
        request = self._forum.request("PATCH", thread, f"/messages/{message}", "edit", "edit", body)
        try:
            self._forum.ask(request)
        except Stopped as stop:
            if stop.code != 50083:
                raise
            standing = self.probe(conversation)
            if standing.verdict is not ChannelVerdict.DONE:
                return standing
            self._change(thread, None, False)
            self._forum.ask(request)
            self._change(thread, None, True)
        return ChannelOutcome(ChannelVerdict.DONE, id=message)

    # ------------------------------------------------------------------ in

    @_answered
    def read(self, conversation: Conversation, cursor: str) -> ChannelOutcome:
        """Read the messages that people wrote or edited since the cursor."""
        known = reading.parse_cursor(cursor)
        me = self._forum.place()["me"]
        pages = list(self._forum.pages(conversation.id, reading.begin_of(known)))
        found = reading.take(known, [one for page in pages for one in page], me, self._rest.fetch)
        problem = reading.NO_CONTENT if found.hidden else ""
        more = len(pages) == PAGES_MAX and not found.hidden
        page = ChannelPage(found.messages, reading.render_cursor(found.known), more, problem)
        return ChannelOutcome(ChannelVerdict.DONE, page=page)

    @_answered
    def seek_end(self, conversation: Conversation, at_ms: int = 0) -> ChannelOutcome:
        """Move the cursor after the newest message, or after all messages of `at_ms`.

        Ids are times, so `at_ms` needs no request.
        """
        thread = conversation.id
        if at_ms:
            then = reading.snowflake_at(at_ms)
            cursor = reading.render_cursor(reading.Known(then, {}, then))
            return ChannelOutcome(ChannelVerdict.DONE, page=ChannelPage((), cursor))
        request = self._forum.request("GET", thread, "/messages", "read", "list")
        found = self._forum.ask(request._replace(query={"limit": "1"}))
        if not found:
            self._forum.believe_nothing()
        newest = int(found[0]["id"]) if found else int(thread)
        known = reading.Known(newest, {}, newest)
        return ChannelOutcome(
            ChannelVerdict.DONE, page=ChannelPage((), reading.render_cursor(known))
        )

    @_answered
    def acknowledge(
        self, conversation: Conversation, message: str, sign: Sign = Sign.SEEN
    ) -> ChannelOutcome:
        """Add the bot's reaction to a message."""
        path = f"/messages/{message}/reactions/{quote(SIGNS[sign])}/@me"
        self._forum.ask(self._forum.request("PUT", conversation.id, path, "react", "react"))
        return ChannelOutcome(ChannelVerdict.DONE)
