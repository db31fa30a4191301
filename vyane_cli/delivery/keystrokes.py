"""Keystrokes: wake an idle session in tmux by one typed line, after proof of its pane."""

from __future__ import annotations

import os

from vyane_cli.delivery.attempts import record_start
from vyane_cli.delivery.gating import Decision, DeliveryVerdict, Readings
from vyane_cli.delivery.resume_rules import decide_start
from vyane_cli.errors import RefusedError
from vyane_cli.kernel.clock import Clock
from vyane_cli.mail.inbox import waiting
from vyane_cli.mail.mailbox import MailEntry
from vyane_cli.sessions import registry
from vyane_cli.sessions.liveness import look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.tmux import is_same, read_screen, type_line
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home
    from vyane_cli.hosts.port import Host
    from vyane_cli.sessions.session import HostSession


WAY = "tmux"
WATCH_FAILED_S = 10.0
"""Seconds after which the watch of an idle session counts as lost if the mail was not taken."""
IN_USE = "tmux/input-in-use"


def type_for_mail(home: Home, worker_id: str, clock: Clock) -> bool:
    """Type the line if the session is idle, attended, in tmux, and its input box is empty.

    A session with a watch gets the line only for mail that has waited for `WATCH_FAILED_S`. Return
    whether the line was typed.
    """
    layout = home.layout
    worker = registry.Registry(layout).workers.get(worker_id)
    session = registry.current_session(layout, worker_id) if worker is not None else None
    host = home.host(session.host) if session is not None else None
    if worker is None or session is None or host is None or not session.terminal:
        return False
    if not session.attended or not _is_idle(home, worker, session, host):
        return False
    watched = os.path.exists(layout.wake(session.id))
    oldest = waiting(home, worker.id, worker.logical_session_id).oldest_ts
    if oldest is None or (watched and clock.at - oldest < WATCH_FAILED_S):
        return False  # no mail, or the watch was rung: leave the screen alone
    try:
        typed = host.input_text(read_screen(session))
    except RefusedError:
        return False
    if typed is None:
        return False
    line = home.templates.fill("typed-mail")

    def choose(entries: list[MailEntry], readings: Readings) -> tuple[MailEntry, Decision] | None:
        left = [entry for entry in entries if not _was_tried(entry)]
        if watched:  # mail that stays shows that the watch is lost
            left = [entry for entry in left if clock.at - entry.message.ts >= WATCH_FAILED_S]
        found = decide_start(left, readings, WAY)
        if found is None or not typed or is_same(typed, line):
            return found
        return found[0], Decision(DeliveryVerdict.HOLD, IN_USE)

    locks = [(LockKind.INBOX, worker.id), (LockKind.INBOX, worker.logical_session_id or worker.id)]
    with home.held(*locks):
        decision = record_start(home, worker, clock, WAY, choose)
    if decision is None or decision.verdict is not DeliveryVerdict.START:
        return False
    try:
        return type_line(session, line, host.input_text)
    except RefusedError:
        return False


def _was_tried(entry: MailEntry) -> bool:
    """Return whether a line was already typed for the message.

    One line is typed for each message: it takes effect, or the message waits for another way.
    """
    return entry.rule.startswith("tmux/") and entry.rule != IN_USE


def _is_idle(home: Home, worker: Worker, session: HostSession, host: Host) -> bool:
    if look(home, worker).liveness is not Liveness.IDLE or session.process is None:
        return False
    folder, pid = session.config_dir, session.process.pid
    return host.says_idle(folder, pid, session.id, 0.0) and not host.shows_another(folder, pid)
