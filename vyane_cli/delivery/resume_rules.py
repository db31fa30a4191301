"""Resume rules: decide whether vyane may open a closed session again, and for which mail."""

from __future__ import annotations

from collections.abc import Iterable

from vyane_cli.delivery.gating import Decision, DeliveryVerdict, Moment, Readings, decide
from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.mail.mailbox import MailEntry
from vyane_cli.mail.message import MessageKind

RESUMES_MAX = 2
"""So often a child that was broken off is resumed before it has failed."""


class Allow(StrEnum):
    """Which sessions may be resumed: the choices of `delivery.resume`."""

    NEVER = "never"
    CHILDREN = "children"
    ALL = "all"


class Closed(NamedTuple):
    """What is known of a session that seems to be over."""

    gone: bool
    """Every process of it is proven gone."""
    ended: str
    """Why it ended, by the host's word."""
    child: bool
    """Its worker was spawned."""
    over: bool
    """Its worker has ended, or is cancelled."""
    command: bool
    """Its runtime has a `resume` command, and hooks that will hand over its mail."""
    starting: bool = False
    """It is being started at this moment."""


def ask_resume(closed: Closed, allow: Allow) -> str:
    """The rule that refuses to resume this session; empty when none does. First match."""
    if allow is Allow.NEVER or (allow is Allow.CHILDREN and not closed.child):
        return "resume/not-allowed"
    if closed.over:
        return "resume/worker-ended"
    if not closed.gone:
        return "resume/process-there"
    if closed.ended == "clear":
        return "resume/cleared"  # that session goes on under another id
    if closed.starting:
        return "resume/starting"
    if not closed.command:
        return "resume/no-command"
    return ""


def decide_start(
    entries: Iterable[MailEntry], readings: Readings, way: str = "resume", tried_s: float = 0.0
) -> tuple[MailEntry, Decision] | None:
    """The first message that may start a turn this way, with the row that says so.

    Its gates are those of any start. A message that the last try was made for is not tried again:
    that try has failed, and a person is needed.
    """
    for entry in entries:
        message = entry.message
        if not entry.waiting or not message.startable or message.ts <= tried_s:
            continue
        if message.kind is MessageKind.CANCEL:
            continue  # where nothing runs, nothing is begun in order to stop it
        decision = decide(Moment.WATCH, message.lane, message.position, readings)
        if decision.verdict is DeliveryVerdict.START:
            return entry, decision._replace(rule=f"{way}/{message.lane}")
    return None
