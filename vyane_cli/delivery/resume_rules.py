"""Resume rules: which closed sessions vyane may reopen by itself, and for which mail."""

from __future__ import annotations

from collections.abc import Iterable

from vyane_cli.delivery.gating import Decision, DeliveryVerdict, Moment, Readings, decide
from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.mail.mailbox import MailEntry
from vyane_cli.mail.message import MessageKind

RESUMES_MAX = 2
"""Most times that an interrupted child is resumed before it counts as failed."""


class Allow(StrEnum):
    """The sessions that may be resumed: the choices of `delivery.resume`."""

    NEVER = "never"
    CHILDREN = "children"
    ALL = "all"


class Closed(NamedTuple):
    """The known facts about a session that seems to have ended."""

    gone: bool
    """Whether every process of the session is proven gone."""
    ended: str
    """The reason why the session ended, as reported by the host."""
    child: bool
    """Whether the session's worker was spawned."""
    over: bool
    """Whether the session's worker has ended, or is cancelled."""
    command: bool
    """Whether the runtime has a `resume` command, and hooks that will hand over the mail."""
    starting: bool = False
    """Whether the session is being started now."""


def ask_resume(closed: Closed, allow: Allow) -> str:
    """Return the first rule that refuses to resume this session; empty if all rules allow it."""
    if allow is Allow.NEVER or (allow is Allow.CHILDREN and not closed.child):
        return "resume/not-allowed"
    if closed.over:
        return "resume/worker-ended"
    if not closed.gone:
        return "resume/process-there"
    if closed.ended == "clear":
        return "resume/cleared"  # that session continues under another id
    if closed.starting:
        return "resume/starting"
    if not closed.command:
        return "resume/no-command"
    return ""


def decide_start(
    entries: Iterable[MailEntry], readings: Readings, way: str = "resume", tried_s: float = 0.0
) -> tuple[MailEntry, Decision] | None:
    """Find the first message that may start a turn this way. Return it with its decision.

    The gates are those of any start. A message for which the last attempt was made (not newer than
    `tried_s`) is not tried again: that attempt has failed, and a person is needed.
    """
    for entry in entries:
        message = entry.message
        if not entry.waiting or not message.startable or message.ts <= tried_s:
            continue
        if message.kind is MessageKind.CANCEL:
            continue  # no turn is started only to be stopped
        decision = decide(Moment.WATCH, message.lane, message.position, readings)
        if decision.verdict is DeliveryVerdict.START:
            return entry, decision._replace(rule=f"{way}/{message.lane}")
    return None
