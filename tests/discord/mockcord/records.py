"""What the guild is made of, and how Discord refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .contract import Problem, as_errors

GUILD_TEXT, PUBLIC_THREAD, PRIVATE_THREAD, GUILD_FORUM = 0, 11, 12, 15
DEFAULT_MESSAGE, RENAME_MESSAGE, REPLY = 0, 4, 19
PINNED, REQUIRE_TAG = 1 << 1, 1 << 4
SUPPRESS_EMBEDS, SUPPRESS_NOTIFICATIONS, COMPONENTS_V2 = 1 << 2, 1 << 12, 1 << 15

ALL_PERMISSIONS = frozenset(
    {
        "VIEW_CHANNEL",
        "SEND_MESSAGES",
        "SEND_MESSAGES_IN_THREADS",
        "READ_MESSAGE_HISTORY",
        "ADD_REACTIONS",
        "ATTACH_FILES",
        "CREATE_PUBLIC_THREADS",
        "CREATE_PRIVATE_THREADS",
    }
)
MODERATOR = frozenset({"MANAGE_THREADS", "MANAGE_MESSAGES", "MANAGE_CHANNELS", "MENTION_EVERYONE"})

# In the mock's own words: a client must go by the code, never by the text.
MESSAGES = {
    10003: "no such channel",
    10004: "no such guild",
    10008: "no such message",
    10014: "no such emoji",
    10087: "no such tag",
    30010: "too many different reactions (20)",
    40005: "too large",
    40058: "a forum takes posts, not messages",
    40067: "this forum wants a tag on each post",
    50001: "no access",
    50005: "someone else wrote that message",
    50006: "nothing to send",
    50013: "not permitted",
    50024: "not for this kind of channel",
    50035: "the form is not valid",
    50083: "the thread is archived",
    160005: "the thread is locked",
    160006: "too many threads are active",
}


class ApiError(Exception):
    def __init__(
        self,
        status: int,
        code: int,
        message: str | None = None,
        problems: list[Problem] | None = None,
    ) -> None:
        self.status, self.code = status, code
        self.body: dict[str, Any] = {
            "message": message or MESSAGES.get(code, "Error"),
            "code": code,
        }
        if problems:
            self.body["errors"] = as_errors(problems)
        super().__init__(f"{status} {code} {self.body['message']}")


def form_error(*problems: Problem) -> ApiError:
    return ApiError(400, 50035, problems=list(problems))


@dataclass
class File:
    filename: str
    data: bytes
    content_type: str = "application/octet-stream"
    description: str | None = None
    id: str = ""


@dataclass
class Message:
    id: str
    channel_id: str
    author: dict[str, Any]
    content: str
    created: float
    type: int = DEFAULT_MESSAGE
    edited: float | None = None
    flags: int = 0
    embeds: list[dict[str, Any]] = field(default_factory=list)
    components: list[dict[str, Any]] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    reactions: dict[str, list[str]] = field(default_factory=dict)
    mention_users: list[str] = field(default_factory=list)
    mention_roles: list[str] = field(default_factory=list)
    mention_everyone: bool = False
    reply_to: str | None = None
    webhook_id: str | None = None
    nonce: str | int | None = None
    deleted: bool = False
    versions: list[str] = field(default_factory=list)


@dataclass
class Channel:
    id: str
    type: int
    name: str
    created: float
    parent_id: str | None = None
    owner_id: str | None = None
    flags: int = 0
    tags: list[dict[str, Any]] = field(default_factory=list)
    applied_tags: list[str] = field(default_factory=list)
    archived: bool = False
    locked: bool = False
    auto_archive: int = 4320
    archive_changed: float = 0.0
    last_activity: float = 0.0
    slowmode: int = 0
    sent: int = 0
    deleted: bool = False
    members: set[str] = field(default_factory=set)

    @property
    def is_thread(self) -> bool:
        return self.type in (PUBLIC_THREAD, PRIVATE_THREAD)
