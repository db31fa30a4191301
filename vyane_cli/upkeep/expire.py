"""Expired mail: settle the inboxes of sessions that no longer tick, as a tick would.

A session that exited, or a channel that nobody reads, makes no hook call. `gc` makes a call for
them that delivers nothing: the same plan drops claims of dead processes, closes a dead turn, and
applies each message's time to live. A live session whose turn failed to start in time is treated
the same way. The module also unblocks workers whose awaited reply did not arrive (`lapse`).
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from vyane_cli.delivery.decide import plan_tick
from vyane_cli.delivery.plan import Snapshot, TickPlan
from vyane_cli.delivery.transaction import Desk
from vyane_cli.errors import NotFoundError
from vyane_cli.hosts.port import HookCall, HostEvent
from vyane_cli.mail import inbox
from vyane_cli.mail.lookup import find_message
from vyane_cli.mail.mailbox import Mailbox, brought
from vyane_cli.mail.message import MessageKind, MessageStatus
from vyane_cli.mail.outcomes import save_outcomes, tell, tell_left
from vyane_cli.mail.send import block
from vyane_cli.projects.members import has_not_started
from vyane_cli.sessions import registry
from vyane_cli.sessions.facts import note_in_timeline
from vyane_cli.sessions.liveness import look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.session import HostSession
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import files, journal, locks
from vyane_cli.timeline.events import EventKind
from vyane_cli.timeline.turns import TimelineHead
from vyane_cli.upkeep.sweep import Sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home
    from vyane_cli.hosts.port import Host


class Box(NamedTuple):
    """One inbox file: its path, its owner, and the key of its lock."""

    path: str
    lock: str
    worker: str = ""
    logical_session: str = ""


def all_boxes(home: Home) -> list[Box]:
    """Return every existing inbox, in name order."""
    folder = home.layout("messages", "inbox")
    found = []
    for name in files.listdir(folder):
        stem, dot, end = name.rpartition(".")
        if not dot or end != "jsonl" or name.startswith("."):
            continue
        path = os.path.join(folder, name)
        kind, _, target = stem.partition("-")
        match kind:
            case "worker":
                found.append(Box(path, target, worker=target))
            case "session":
                found.append(Box(path, target, logical_session=target))
            case "channel":
                found.append(Box(path, "channel:" + _channel(path, target)))
            case _:
                pass
    return found


def _channel(path: str, target: str) -> str:
    """Return a channel's name from its messages: the file name may be a digest of it."""
    for line in journal.read(path):
        to_id = brought(line.record or {}).get("to_id")
        if isinstance(to_id, str):
            return to_id
    return target


def quiet_call(session: str) -> HookCall:
    """Return a call that leaves live turns alone and delivers nothing: a watch without a reader."""
    return HookCall("vyane", HostEvent.FILE_CHANGED, "gc", session, rewake=False)


def expire(sweep: Sweep) -> int:
    """Settle expired messages in inboxes without ticks, and notify their senders.

    Returns how many expired. First sends the notices that dead processes left unsent.
    """
    if not sweep.dry_run:
        tell_left(sweep.home, most=sys.maxsize)
    count = 0
    ticking: set[str] = set()
    for worker in registry.Registry(sweep.layout).listing():
        seen = look(sweep.home, worker)
        live = seen.liveness in (Liveness.BUSY, Liveness.IDLE)
        host = sweep.home.host(seen.session.host) if seen.session is not None else None
        if live or (seen.session is not None and host is not None):
            ticking |= {worker.id, worker.logical_session_id}
        silent = not live or has_not_started(sweep.home, worker)
        if silent and seen.session is not None and host is not None:
            count += sweep.guarded(worker.id, _expire_worker, worker, seen.session, host)
    for box in all_boxes(sweep.home):
        if box.worker not in ticking and box.logical_session not in ticking:
            count += sweep.guarded(box.path, _expire_box, box)
    return count


def _expire_worker(sweep: Sweep, worker: Worker, session: HostSession, host: Host) -> int:
    """Settle the inboxes of a silent session, by the tick that it no longer makes.

    Returns how many messages expired.
    """
    home = sweep.home
    desk = Desk(home, session, quiet_call(session.id), host, home.deadline())
    if not any(inbox.read(path).mailbox.unsettled for path in desk.paths):
        return 0
    plan = desk.dry_run() if sweep.dry_run else desk.claim()
    tell(home, desk.untold)
    return len(plan.expired)


def _expire_box(sweep: Sweep, box: Box) -> int:
    """Settle one inbox without a session: a channel's, or that of a worker without a record.

    Returns how many messages expired.
    """
    home = sweep.home
    mailbox = inbox.read(box.path).mailbox
    if not mailbox.unsettled:
        return 0
    plan, found = _plan(home, mailbox), None
    if not sweep.dry_run and plan.changes:
        with home.held((locks.LockKind.INBOX, box.lock)):
            opened = inbox.Inbox(box.path, home.layout.root)
            try:
                plan = _plan(home, opened.mailbox)
                expired = [entry.message for entry in plan.expired]
                found = save_outcomes(home, box.worker, box.lock, plan.need_user, expired)
                opened.change_all(inbox.steps_of(plan.changes))
            finally:
                opened.close()
    tell(home, [found] if found is not None else [])
    return len(plan.expired)


def _plan(home: Home, mailbox: Mailbox) -> TickPlan:
    snapshot = Snapshot(
        worker="",
        name="",
        boxes=(mailbox,),
        timeline=TimelineHead(""),
        clock=home.clock(),
        templates=home.templates,
        limits=home.config.limits,
    )
    return plan_tick(snapshot, quiet_call(""))


def lapse(sweep: Sweep) -> int:
    """Unblock workers whose awaited reply did not arrive before the message expired.

    Returns how many.
    """
    workers = registry.Registry(sweep.layout).listing()
    return sum(sweep.guarded(one.id, _lapse, one) for one in workers if one.blocked_on_message_id)


def _lapse(sweep: Sweep, worker: Worker) -> int:
    waited = worker.blocked_on_message_id or ""
    try:
        found = find_message(sweep.home, waited)
    except NotFoundError:
        found = None
    if found is not None:
        if found.message.kind is MessageKind.TASK_DISPATCH:
            return 0  # the child's result ends the wait, and every child ends
        over_s = found.message.ts + found.message.ttl_seconds
        if found.entry.status is not MessageStatus.EXPIRED and over_s > sweep.now_s:
            return 0
    if not sweep.dry_run:
        payload = {"code": "reply_timeout", "text": f"{waited} was not answered in its time"}
        note_in_timeline(sweep.home, worker, EventKind.DIAGNOSTIC, payload)
        block(sweep.home, worker.id, None, on=waited)
    return 1
