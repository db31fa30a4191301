"""Takeover: a person interrupts a session. One order is one message and gets an honest answer.

Commit point: the message in the inbox; `TakeoverInitiated` is in the timeline before it (see
`mail.enqueue.store`). A pending takeover is read from the inbox. The registry has no second copy of
it, because a tick does not rewrite the registry.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

from vyane_cli.delivery.ring import nudge
from vyane_cli.errors import ConflictError, InvalidInputError, RefusedError
from vyane_cli.mail import inbox
from vyane_cli.mail.enqueue import Sent
from vyane_cli.mail.inbox import boxes_of
from vyane_cli.mail.lookup import find_message
from vyane_cli.mail.mailbox import MailEntry
from vyane_cli.mail.message import MessageKind, MessageStatus
from vyane_cli.mail.send import MessageDraft, send
from vyane_cli.sessions import registry
from vyane_cli.sessions.authority import claim_kind, require_person
from vyane_cli.sessions.facts import diagnose
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.liveness import look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.tmux import read_screen, refused, type_escape
from vyane_cli.sessions.worker import Worker, find_worker
from vyane_cli.storage.watch import Changes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home
    from vyane_cli.sessions.session import HostSession
    from vyane_cli.sessions.speaker import Speaker

INTERRUPTS = ("hook", "tmux", "none")
TIMEOUT_MAX_S = 3600.0
TYPED_MAX = 4_000
"""Most characters of half-typed text that are kept: a screen cannot show a longer text."""
ESCAPED_S = 3.0
"""Seconds to wait after Escape. A client that got Escape says within a second that it is idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverReport:
    """A takeover as programs see it; the fields are those of `Taken`."""

    message_id: str
    status: str
    interrupt: str
    worker_id: str
    typed: str | None


class Taken(NamedTuple):
    """The result of a takeover."""

    sent: Sent
    worker: Worker
    status: str
    """`delivered`: the host has the message. `pending`: the message is stored, and waits."""
    interrupt: str
    """requested_by_hook, timed_out (requested, but no tool call came in time), escape_sent,
    not_needed (nothing ran), or none (not requested)."""
    typed: str = ""
    """Half-typed text in the input box when Escape was sent. The timeline has the text too."""

    @property
    def report(self) -> TakeoverReport:
        """Return the result in the form for programs."""
        return TakeoverReport(
            message_id=self.sent.message.id,
            status=self.status,
            interrupt=self.interrupt,
            worker_id=self.worker.id,
            typed=self.typed or None,
        )


def take_over(
    home: Home,
    who: str,
    instruction: str,
    *,
    interrupt: str = "hook",
    timeout_s: float = 5.0,
    from_kind: str | None = None,
    speaker: Speaker | None = None,
    key: str | None = None,
) -> Taken:
    """Store the order, interrupt, and wait until the host has the order or the time has passed.

    RefusedError for an agent, and for tmux without proof of the pane: then nothing is stored and
    nothing is typed.
    """
    if interrupt not in INTERRUPTS:
        raise InvalidInputError("interrupt", interrupt, "one of " + ", ".join(INTERRUPTS))
    if not 0 <= timeout_s <= TIMEOUT_MAX_S:
        raise InvalidInputError("timeout", timeout_s, "between 0 and an hour")
    if not instruction.strip():
        raise InvalidInputError(
            "instruction", instruction, "given: what shall it do?", missing=True
        )
    speaker = claim_kind(home, from_kind, speaker or whoami(home))
    require_person(home, speaker, "take over a session")
    worker = find_worker(who, registry.Registry(home.layout).listing())
    if worker.final:
        raise ConflictError(f"{worker.name} has ended ({worker.status})")
    seen = look(home, worker)
    busy = seen.liveness is Liveness.BUSY
    types = interrupt == "tmux" and busy
    typed = _save_input(home, seen.session) if types else ""
    payload = {"instruction": instruction, "interrupt_first": interrupt != "none"}
    sent = send(
        home,
        MessageDraft(worker.id, kind=MessageKind.TAKEOVER, payload=payload, idempotency_key=key),
        speaker,
    )
    until = time.monotonic() + timeout_s
    how = "none" if interrupt == "none" else "requested_by_hook" if busy else "not_needed"
    if types and not _delivered(_find(home, worker, sent.message.id)):
        how = _type_escape(seen.session)
        if how == "escape_sent" and seen.session is not None and seen.turn is not None:
            _await_idle(home, seen.session, seen.turn.at)
        nudge(home, worker.id, home.clock())
    arrives = seen.liveness in (Liveness.BUSY, Liveness.IDLE)
    done = arrives and _await(home, worker, sent.message.id, until)
    if how == "requested_by_hook" and not done and timeout_s:
        how = "timed_out"
    return Taken(
        sent=sent,
        worker=worker,
        status="delivered" if done else "pending",
        interrupt=how,
        typed=typed,
    )


def _type_escape(session: HostSession | None) -> str:
    """Type Escape. Return the way of the interrupt.

    A pane that is no longer proven raises no error, because the order is already stored: the hook
    makes the interrupt.
    """
    try:
        type_escape(session)
    except RefusedError:
        return "requested_by_hook"
    return "escape_sent"


def _save_input(home: Home, session: HostSession | None) -> str:
    """Save the text that the person has half typed: the Escape that follows may clear the text.

    Return the text. RefusedError without proof of the pane; any error comes before the order is
    stored.
    """
    screen = read_screen(session)
    host = home.host(session.host) if session is not None else None
    if session is None or session.process is None or host is None:
        return ""
    if host.shows_another(session.config_dir, session.process.pid):
        raise refused("its terminal shows another session")
    typed = host.input_text(screen) or ""
    if typed:
        diagnose(home, session, "input_saved", typed[:TYPED_MAX])
    return typed[:TYPED_MAX]


def resolve(
    home: Home,
    who: str,
    message_id: str,
    decision: str,
    *,
    from_kind: str | None = None,
    speaker: Speaker | None = None,
) -> Sent:
    """Send the person's decision to the worker: work that waited behind the takeover continues."""
    if not decision.strip():
        raise InvalidInputError("decision", decision, "a text: what was decided?")
    speaker = claim_kind(home, from_kind, speaker or whoami(home))
    require_person(home, speaker, "decide a takeover")
    worker = find_worker(who, registry.Registry(home.layout).listing())
    order = find_message(home, message_id).message
    mine = order.to_id in (worker.id, worker.logical_session_id)
    if order.kind is not MessageKind.TAKEOVER or not mine:
        raise RefusedError(
            f"{order.id} is no takeover of {worker.name}", hint="`vyane inbox` lists its messages"
        )
    payload = {"text": decision, "takeover": order.id}
    return send(home, MessageDraft(worker.id, payload=payload, reply_to=order.id), speaker)


def _await(home: Home, worker: Worker, message_id: str, until: float) -> bool:
    """Wait for the receipt; the kernel notifies of changes to the inbox.

    Return whether the host has the message.
    """
    with Changes(home.layout.inbox(worker.id)) as changes:
        while not _delivered(_find(home, worker, message_id)):
            left_s = until - time.monotonic()
            if left_s <= 0:
                return False
            changes.wait(min(left_s, 1.0))
    return True


def _find(home: Home, worker: Worker, message_id: str) -> MailEntry | None:
    for path in boxes_of(home, worker.id, worker.logical_session_id):
        entry = inbox.read(path).mailbox.find(message_id)
        if entry is not None:
            return entry
    return None


def _delivered(entry: MailEntry | None) -> bool:
    """Return whether the host has the message.

    A message that is missing from the entries has already been read.
    """
    return entry is None or entry.status in (MessageStatus.DELIVERED, MessageStatus.CONSUMED)


def _await_idle(home: Home, session: HostSession, since_s: float) -> None:
    """Wait up to `ESCAPED_S` until the host's own record says that Escape has ended the turn."""
    host, end = home.host(session.host), time.monotonic() + ESCAPED_S
    while host is not None and session.process is not None and time.monotonic() < end:
        if host.says_idle(session.config_dir, session.process.pid, session.id, since_s):
            return
        time.sleep(0.1)
