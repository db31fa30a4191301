"""The port between the mirror and a channel: conversations, requests and their outcomes.

This module names no channel; the adapters are the other modules of `channels/`. The mirror
(`conversations/`) owns the durable state: bindings, the outbox of parts with their nonces, the
cursor and the messages that were received. An adapter keeps only `memory` (for example, rate
limits), which the mirror stores between runs. An adapter never waits past its deadline: it returns
LATER instead.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.config import Key
from vyane_cli.kernel.values import StrEnum


class Placement(StrEnum):
    """The origin of a binding's conversation."""

    CURRENT = "current"  # an existing conversation: the caller gives its id
    CHILD = "child"  # a new conversation below it: the adapter returns its id


class Conversation(NamedTuple):
    """A place where people follow a session. Its fields are normalised, see `normalise`."""

    channel: str
    account: str
    id: str = ""
    parent: str = ""
    """Id of the conversation or folder that contains this one; empty without one."""

    @property
    def account_key(self) -> tuple[str, str]:
        """Return the channel and the account on the channel."""
        return self.channel, self.account


class Capabilities(NamedTuple):
    """The features of a channel. The mirror skips unsupported requests without trying them."""

    placements: tuple[Placement, ...] = (Placement.CURRENT, Placement.CHILD)
    bind: bool = True
    unbind: bool = True
    edit: bool = True
    """Whether the channel can change vyane's own posts in place."""
    title: bool = True
    close: bool = True
    read: bool = True
    acknowledge: bool = False
    exact: bool = True
    """Whether `find_post` finds every existing post. Repeated under its nonce, one shows once."""
    title_every_s: int = 0
    """Shortest time between two changes of one title, in seconds."""


class Sign(StrEnum):
    """A sign at a message, such as a reaction, on channels that have signs."""

    SEEN = "seen"  # at a person's message: vyane has received the message
    DONE = "done"  # at vyane's own last message: the session waits for new work


class File(NamedTuple):
    """A text attached to a part because the text is too long to read in place."""

    name: str
    text: str


class Part(NamedTuple):
    """The content of one request: a piece of a post that fits the channel. Kept in the outbox."""

    text: str
    files: tuple[File, ...] = ()
    notify: bool = False
    """Whether people are notified: for a question or the end. All other parts arrive silently."""
    mention: tuple[str, ...] = ()
    """Ids of the only users that this part may mention, even if its text names others."""


class Post(NamedTuple):
    """A text from the mirror: Markdown of any length. `Channel.plan` splits the post into parts."""

    text: str
    notify: bool = False
    mention: tuple[str, ...] = ()


class Opening(NamedTuple):
    """A request for a conversation: find the one with this key, or create it."""

    key: str
    """Stable and unique, such as a logical session's id; also in the text of the first part. The
    adapter looks for its own conversation with this key before creating one."""
    title: str
    first: Part
    nonce: str
    parent: str = ""
    """Id of the parent to create the conversation in; empty: as the settings say."""


class Incoming(NamedTuple):
    """A message from a person. Own posts, webhook echoes and system notices never become one."""

    id: str
    author: str
    """Stable id of the author; the allow-list holds such ids."""
    name: str
    text: str
    at_ms: int = 0
    edited: bool = False
    """Whether this is a new text for an id that was read before."""


class ChannelPage(NamedTuple):
    """The messages that were read, oldest first, and the cursor for the next read.

    A message may be read more than once: compare ids to detect repeats.
    """

    messages: tuple[Incoming, ...]
    cursor: str
    """Opaque; the mirror saves the cursor and the messages in one write."""
    more: bool = False
    problem: str = ""
    """One line for the person, such as a missing permission that hides the texts."""


class ChannelVerdict(StrEnum):
    """The result of a request. `conversations.state_rules.NEXT` has the next step for each."""

    DONE = "done"
    LATER = "later"  # not accepted, nothing lost: retry, but not before `retry_ms`
    UNKNOWN = "unknown"  # accepted or not: look for the post before sending it again
    ABSENT = "absent"  # the conversation exists, the message does not
    REFUSED = "refused"  # the channel will never accept this request unchanged
    LOCKED = "locked"  # people closed the conversation to vyane
    GONE = "gone"  # the conversation no longer exists
    OFF = "off"  # the channel accepts nothing until its settings change


class ChannelOutcome(NamedTuple):
    """The outcome of one request."""

    verdict: ChannelVerdict
    reason: str = ""
    """A stable slug, such as `rate-limited`, `unknown-channel`, `forum_unset`."""
    detail: str = ""
    """One clear line for the person; contains no secret."""
    fix: str = ""
    """The next step, for `doctor`."""
    retry_ms: int = 0
    """With LATER: the earliest time for the next try, in Unix milliseconds."""
    everywhere: bool = False
    """With LATER: whether the whole channel has to wait, beyond this conversation."""
    id: str = ""
    """Id of the message that was created or found. Empty after DONE of `find_post`: missing."""
    conversation: Conversation | None = None
    page: ChannelPage | None = None
    archived: bool = False
    """With DONE of `probe`: whether the conversation is archived; a post would reopen it."""
    found: bool = False
    """With DONE of `open`: whether the conversation existed before. Then it may contain posts of
    an earlier run."""
    quiet: bool = False
    """Whether part of the request was left out (such as a forbidden file); `detail` names it."""


class Surroundings(NamedTuple):
    """The environment, clock and paths that an adapter may use."""

    environ: Mapping[str, str]
    now_ms: Callable[[], int]
    sleep: Callable[[float], None]
    deadline_ms: int
    """The end of the run, in Unix milliseconds. The adapter never waits past this deadline, and
    returns LATER for requests that would take longer."""
    home: str
    """The state root: the base of relative paths in settings. An adapter writes only to the paths
    there that its settings name."""


class Channel(Protocol):
    """One account of one channel, opened for one run.

    No method raises for what the other side does: each such failure is a ChannelOutcome.
    """

    capabilities: Capabilities
    fingerprint: str
    """Changes with the settings or credentials; not reversible. OFF lasts while it is equal."""
    memory: dict[str, Any]
    """JSON that the mirror stores for the adapter; the adapter changes it in place."""

    def check(self) -> ChannelOutcome:
        """Check the settings. Called before the first conversation, and by `doctor`."""
        ...

    def open(self, opening: Opening) -> ChannelOutcome:
        """Find the conversation with this key, or create it.

        DONE has the `conversation` and the `id` of its first message. Repeated calls, also after
        a lost answer, create only one conversation.
        """
        ...

    def probe(self, conversation: Conversation) -> ChannelOutcome:
        """Check the state of a conversation.

        Return DONE (perhaps `archived`), LOCKED or GONE; LATER or UNKNOWN when the state cannot
        be determined.
        """
        ...

    def plan(self, post: Post) -> Sequence[Part]:
        """Return the parts of a post, in order; none for an empty post. Sends no request."""
        ...

    def post(self, conversation: Conversation, part: Part, nonce: str) -> ChannelOutcome:
        """Post a part at the end. The nonce has at most 25 characters, the same on every try."""
        ...

    def find_post(
        self, conversation: Conversation, part: Part, nonce: str, after: str
    ) -> ChannelOutcome:
        """Look for a part that may have been posted, after message `after` (empty: from the start).

        Return DONE with the `id` of the post, or with an empty `id` when the post is missing.
        """
        ...

    def edit(self, conversation: Conversation, message: str, part: Part) -> ChannelOutcome:
        """Change one of vyane's own posts. Return ABSENT when somebody removed the post."""
        ...

    def mark(
        self, conversation: Conversation, title: str | None = None, closed: bool | None = None
    ) -> ChannelOutcome:
        """Set the title of a conversation, close it or reopen it, in one request.

        None leaves the title, or the closed state, unchanged.
        """
        ...

    def read(self, conversation: Conversation, cursor: str) -> ChannelOutcome:
        """Read the messages of people after the cursor; an empty cursor is the start.

        Return DONE with a `page`. The page may repeat an old message, because the message was
        edited or because ids are not in order.
        """
        ...

    def seek_end(self, conversation: Conversation, at_ms: int = 0) -> ChannelOutcome:
        """Move the cursor past all existing messages.

        Messages from before a session was bound are not meant for the session. Return DONE with
        a `page` that has the cursor and no messages. `at_ms` (Unix milliseconds): move only past
        the messages of that time, on channels that can tell.
        """
        ...

    def acknowledge(
        self, conversation: Conversation, message: str, sign: Sign = Sign.SEEN
    ) -> ChannelOutcome:
        """Put a sign at a message. Idempotent; a lost sign does no harm."""
        ...


class Adapter(Protocol):
    """An adapter module of `channels/`. Its import loads nothing that only a request needs."""

    NAME: str
    SETTINGS: Mapping[str, Key]
    """Keys of `[channels.NAME]` in addition to the common ones, with default and meaning."""

    def open_channel(
        self,
        settings: Mapping[str, Any],
        account: str,
        memory: dict[str, Any],
        around: Surroundings,
    ) -> Channel:
        """Open the channel with these settings: all keys, with defaults filled in.

        Raises InvalidInputError, which names a setting that cannot be right. Errors that only a
        request can show are a ChannelOutcome.
        """
        ...


def render_part(part: Part) -> dict[str, Any]:
    """Return the stored form of a part."""
    data: dict[str, Any] = {"text": part.text}
    if part.files:
        data["files"] = [file._asdict() for file in part.files]
    if part.notify:
        data["notify"] = True
    if part.mention:
        data["mention"] = list(part.mention)
    return data


def parse_part(data: Mapping[str, Any]) -> Part:
    """Parse a part from its stored form. Raises KeyError or TypeError for any other data."""
    return Part(
        str(data["text"]),
        tuple(File(str(one["name"]), str(one["text"])) for one in data.get("files") or ()),
        bool(data.get("notify")),
        tuple(str(one) for one in data.get("mention") or ()),
    )


DEFAULT_ACCOUNT = "default"


def normalise(conversation: Conversation) -> Conversation:
    """Normalise a conversation: strip all fields, and put channel and account in lower case.

    The default account replaces an empty one; a conversation is never its own parent. Raises
    InvalidInputError for an invalid channel, account or id.
    """
    channel = conversation.channel.strip().lower()
    account = conversation.account.strip().lower() or DEFAULT_ACCOUNT
    where, parent = conversation.id.strip(), conversation.parent.strip()
    for field, text in (("channel", channel), ("account", account)):
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", text):
            raise InvalidInputError(field, text, "a name: a-z, 0-9, _ and -, at most 64")
    for field, text in (("conversation", where), ("parent", parent)):
        if len(text) > 256 or not text.isprintable():
            raise InvalidInputError(field, text, "an id: printable, at most 256 characters")
    return Conversation(channel, account, where, "" if parent == where else parent)


SPELLINGS = {
    "channel": "channel", "account": "account", "account_id": "account", "accountId": "account",
    "conversation": "id", "conversation_id": "id", "conversationId": "id",
    "parent": "parent", "parent_conversation_id": "parent", "parentConversationId": "parent",
}  # fmt: skip
"""Accepted JSON keys of a reference → the field of Conversation."""


def parse_conversation(data: object, where: str = "ref") -> Conversation:
    """Parse a JSON reference, in snake_case or camelCase, and return the normalised conversation.

    Raises InvalidInputError for anything else.
    """
    if not isinstance(data, Mapping):
        raise InvalidInputError(where, data, "a JSON object with channel and conversation_id")
    fields = {"channel": "", "account": DEFAULT_ACCOUNT, "id": "", "parent": ""}
    for key, value in data.items():
        if key not in SPELLINGS:
            known = "known: channel, account_id, conversation_id, parent_conversation_id"
            raise InvalidInputError(f"{where}.{key}", value, "a key of a reference", hint=known)
        if value is not None and not isinstance(value, (str, int)):
            raise InvalidInputError(f"{where}.{key}", value, "a text")
        if value is not None:
            fields[SPELLINGS[key]] = str(value)
    return normalise(Conversation(**fields))


def render_conversation(conversation: Conversation) -> dict[str, Any]:
    """Return the stored form of a conversation."""
    return {
        "channel": conversation.channel,
        "account_id": conversation.account,
        "conversation_id": conversation.id,
        "parent_conversation_id": conversation.parent or None,
    }


def binding_id(conversation: Conversation) -> str:
    """Return the id of the only binding that a conversation can have."""
    words = "\0".join(conversation[:3])
    return "b-" + hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()[:16]
