"""The port between the mirror and a channel: conversations, requests, and what may come of them.

No channel is named here; an adapter is a module of `channels/`. The mirror owns what must survive:
bindings, the outbox of parts with their nonces, the cursor and the messages that were taken in. An
adapter keeps nothing but `memory`, which the mirror stores for it between runs (rate limits, for
example), and never waits past its deadline: it answers LATER.
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
    """Where a binding's conversation comes from."""

    CURRENT = "current"  # one that is there: its id is given
    CHILD = "child"  # a new one below it: its id comes from the adapter


class Conversation(NamedTuple):
    """One place where people follow a session: normalised, see `bindings.normalise`."""

    channel: str
    account: str
    id: str = ""
    parent: str = ""
    """The conversation or folder that it lies in, if it lies in one."""

    @property
    def account_key(self) -> tuple[str, str]:
        """The channel and the account on it."""
        return self.channel, self.account


class Capabilities(NamedTuple):
    """What a channel can do. What it cannot is left out by the mirror, never tried."""

    placements: tuple[Placement, ...] = (Placement.CURRENT, Placement.CHILD)
    bind: bool = True
    unbind: bool = True
    edit: bool = True
    """A post of our own can be changed in place."""
    title: bool = True
    close: bool = True
    read: bool = True
    acknowledge: bool = False
    exact: bool = True
    """A post that is looked for is found if it is there: repeated under its nonce it shows once."""
    title_every_s: int = 0
    """Least time between two changes of one title."""


class Sign(StrEnum):
    """What may be put at a message, where a channel has such a thing."""

    SEEN = "seen"  # at a person's: it was taken in
    DONE = "done"  # at our own last one: its session waits for new work


class File(NamedTuple):
    """A text that goes beside a part, because it is too long to be read in place."""

    name: str
    text: str


class Part(NamedTuple):
    """What one request shows: a piece of a post that fits the channel. Kept in the outbox."""

    text: str
    files: tuple[File, ...] = ()
    notify: bool = False
    """A question, or the end. All else arrives without a sound."""
    mention: tuple[str, ...] = ()
    """The users that this part may call by name: nobody else, whatever the text holds."""


class Post(NamedTuple):
    """What the mirror wants to say: Markdown of any length. `Channel.plan` makes parts of it."""

    text: str
    notify: bool = False
    mention: tuple[str, ...] = ()


class Opening(NamedTuple):
    """A conversation that shall be there."""

    key: str
    """Stable and unique, such as a logical session's id; also in the text of the first part. The
    adapter looks for its own conversation with this key before it makes one."""
    title: str
    first: Part
    nonce: str
    parent: str = ""
    """Where to make it; empty: where the settings say."""


class Incoming(NamedTuple):
    """What a person wrote. Own posts, webhook echoes and system notices never become one."""

    id: str
    author: str
    """Stable id of the writer: the allow-list is about this one."""
    name: str
    text: str
    at_ms: int = 0
    edited: bool = False
    """A new text for an id that was read before."""


class ChannelPage(NamedTuple):
    """What was read, oldest first, and where to go on. Messages may come again: ids tell."""

    messages: tuple[Incoming, ...]
    cursor: str
    """Opaque; kept together with the messages in one write."""
    more: bool = False
    problem: str = ""
    """One line for the person, such as a missing right that hides the texts."""


class ChannelVerdict(StrEnum):
    """What came of a request. `mirroring.NEXT` says what follows from each."""

    DONE = "done"
    LATER = "later"  # not taken, and nothing is lost: not before `retry_ms`
    UNKNOWN = "unknown"  # taken or not: look before it is sent again
    ABSENT = "absent"  # the conversation is there, the message is not
    REFUSED = "refused"  # this request will never be taken as it is
    LOCKED = "locked"  # people closed the conversation to us
    GONE = "gone"  # the conversation is no more
    OFF = "off"  # nothing will be taken on this channel until its settings change


class ChannelOutcome(NamedTuple):
    """The answer to one request."""

    verdict: ChannelVerdict
    reason: str = ""
    """A stable slug, such as `rate-limited`, `unknown-channel`, `forum_unset`."""
    detail: str = ""
    """One clear line for the person; holds no secret."""
    fix: str = ""
    """The next step, for `doctor`."""
    retry_ms: int = 0
    """With LATER: Unix milliseconds before which nobody tries again."""
    everywhere: bool = False
    """With LATER: for the whole channel, and not this conversation alone."""
    id: str = ""
    """The message that was made or found; empty with DONE of `find_post`: it is not there."""
    conversation: Conversation | None = None
    page: ChannelPage | None = None
    archived: bool = False
    """With DONE of `probe`: put away, and a post brings it back."""
    found: bool = False
    """With DONE of `open`: it was there before, and may hold posts of an earlier run."""
    quiet: bool = False
    """Done without some of it (a file that was not allowed, say): `detail` says what."""


class Surroundings(NamedTuple):
    """What an adapter may use of the world."""

    environ: Mapping[str, str]
    now_ms: Callable[[], int]
    sleep: Callable[[float], None]
    deadline_ms: int
    """It never waits past this; what would take longer is LATER."""
    home: str
    """The state root: for paths in settings that are relative. An adapter writes nothing there
    but what its settings name."""


class Channel(Protocol):
    """One account of one channel, opened for one run.

    No method raises for what the other side does: that is an Outcome.
    """

    capabilities: Capabilities
    fingerprint: str
    """Changes when the settings or credentials do; not reversible. OFF holds while it is equal."""
    memory: dict[str, Any]
    """JSON that the mirror keeps for it; changed in place."""

    def check(self) -> ChannelOutcome:
        """Whether the settings lead anywhere: asked before the first conversation, by doctor."""
        ...

    def open(self, opening: Opening) -> ChannelOutcome:
        """Find the conversation of this key, or make it.

        DONE: `conversation`, and the `id` of its first message. Asked twice, also after a lost
        answer, there is one.
        """
        ...

    def probe(self, conversation: Conversation) -> ChannelOutcome:
        """DONE (perhaps `archived`), LOCKED, GONE; LATER or UNKNOWN when it cannot be told."""
        ...

    def plan(self, post: Post) -> Sequence[Part]:
        """The parts of a post, in order; none for an empty one. Asks nobody."""
        ...

    def post(self, conversation: Conversation, part: Part, nonce: str) -> ChannelOutcome:
        """Show a part at the end. The nonce is at most 25 characters, the same on every try."""
        ...

    def find_post(
        self, conversation: Conversation, part: Part, nonce: str, after: str
    ) -> ChannelOutcome:
        """Look for a part whose fate is unknown, behind message `after` (empty: from the start).

        DONE with its `id`, or with none when it is not there.
        """
        ...

    def edit(self, conversation: Conversation, message: str, part: Part) -> ChannelOutcome:
        """Change an own post. ABSENT when somebody removed it."""
        ...

    def mark(
        self, conversation: Conversation, title: str | None = None, closed: bool | None = None
    ) -> ChannelOutcome:
        """Give it a title, close it or open it again: in one request; None leaves it."""
        ...

    def read(self, conversation: Conversation, cursor: str) -> ChannelOutcome:
        """DONE with a `page` of what people wrote after the cursor; an empty one is the start.

        An old message may come again, for its edit or for the order of ids.
        """
        ...

    def seek_end(self, conversation: Conversation, at_ms: int = 0) -> ChannelOutcome:
        """DONE with a `page` without messages, whose cursor stands after all that is there.

        What was written before a session was bound is not for it. `at_ms`: after what was there
        at that time, where the channel can tell.
        """
        ...

    def acknowledge(
        self, conversation: Conversation, message: str, sign: Sign = Sign.SEEN
    ) -> ChannelOutcome:
        """A sign at a message. Twice is once, and its loss is no loss."""
        ...


class Adapter(Protocol):
    """A module of `channels/`. Importing it loads nothing that only a request needs."""

    NAME: str
    SETTINGS: Mapping[str, Key]
    """Keys of `[channels.NAME]` beside the common ones, with default and meaning."""

    def open_channel(
        self,
        settings: Mapping[str, Any],
        account: str,
        memory: dict[str, Any],
        around: Surroundings,
    ) -> Channel:
        """The channel under these settings: all keys, with defaults.

        InvalidInputError names a setting that cannot be right; what only a request can tell is an
        Outcome.
        """
        ...


def render_part(part: Part) -> dict[str, Any]:
    """The stored form of a part."""
    data: dict[str, Any] = {"text": part.text}
    if part.files:
        data["files"] = [file._asdict() for file in part.files]
    if part.notify:
        data["notify"] = True
    if part.mention:
        data["mention"] = list(part.mention)
    return data


def parse_part(data: Mapping[str, Any]) -> Part:
    """A part from its stored form. KeyError or TypeError when it is none."""
    return Part(
        str(data["text"]),
        tuple(File(str(one["name"]), str(one["text"])) for one in data.get("files") or ()),
        bool(data.get("notify")),
        tuple(str(one) for one in data.get("mention") or ()),
    )


DEFAULT_ACCOUNT = "default"


def normalise(conversation: Conversation) -> Conversation:
    """Channel and account without blanks in lower case, ids without blanks, no parent of itself.

    InvalidInputError for a channel that is none.
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
"""How a reference may be written as JSON → the field."""


def parse_conversation(data: object, where: str = "ref") -> Conversation:
    """A reference as JSON, in snake_case or camelCase; normalised."""
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
    """The stored form of a reference."""
    return {
        "channel": conversation.channel,
        "account_id": conversation.account,
        "conversation_id": conversation.id,
        "parent_conversation_id": conversation.parent or None,
    }


def binding_id(conversation: Conversation) -> str:
    """The id of the one binding that a conversation can have."""
    words = "\0".join(conversation[:3])
    return "b-" + hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()[:16]
