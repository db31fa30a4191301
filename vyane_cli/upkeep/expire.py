"""Expire: what a tick would settle, for inboxes whose session does not tick any more.

A session that exited, or a channel that nobody reads, makes no hook call. `gc` gives them one that
hands nothing over: the same plan lets claims of dead processes lapse, closes a dead turn, and
applies each message's time to live. So it is for a session that lives and let a start pass.
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
from vyane_cli.mail.outcomes import keep_outcomes, tell, tell_left
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
    """One inbox file: whose it is, and the key of its lock."""

    path: str
    lock: str
    worker: str = ""
    logical_session: str = ""


def all_boxes(home: Home) -> list[Box]:
    """Every inbox there is, in name order."""
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
    """A channel's name: a file may go by its digest, its messages have the name."""
    for line in journal.read(path):
        to_id = brought(line.record or {}).get("to_id")
        if isinstance(to_id, str):
            return to_id
    return target


def quiet_call(session: str) -> HookCall:
    """A call that moves no live turn and hands nothing over: a watch that nobody waits for."""
    return HookCall("vyane", HostEvent.FILE_CHANGED, "gc", session, rewake=False)


def expire(sweep: Sweep) -> int:
    """Settle what has expired where nobody ticks, and tell the senders; return how many."""
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
    """The inboxes of a session that is over, by the tick it does not make any more."""
    home = sweep.home
    desk = Desk(home, session, quiet_call(session.id), host, home.deadline())
    if not any(inbox.read(path).mailbox.unsettled for path in desk.paths):
        return 0
    plan = desk.dry_run() if sweep.dry_run else desk.claim()
    tell(home, desk.untold)
    return len(plan.expired)


def _expire_box(sweep: Sweep, box: Box) -> int:
    """One inbox without a session: a channel's, or that of a worker which is on no record."""
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
                found = keep_outcomes(home, box.worker, box.lock, plan.need_user, expired)
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
    """Workers whose message was not answered in its time wait no longer; how many."""
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
            return 0  # a child's result ends that, and every child has its end
        over_s = found.message.ts + found.message.ttl_seconds
        if found.entry.status is not MessageStatus.EXPIRED and over_s > sweep.now_s:
            return 0
    if not sweep.dry_run:
        payload = {"code": "reply_timeout", "text": f"{waited} was not answered in its time"}
        note_in_timeline(sweep.home, worker, EventKind.DIAGNOSTIC, payload)
        block(sweep.home, worker.id, None, on=waited)
    return 1
