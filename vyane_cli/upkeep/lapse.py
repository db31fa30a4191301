"""Lapse: whose message was not answered in its time waits no longer."""

from __future__ import annotations

from vyane_cli.errors import NotFoundError
from vyane_cli.mail.awaiting import block
from vyane_cli.mail.lookup import find_message
from vyane_cli.mail.message import Kind, Status
from vyane_cli.sessions import registry
from vyane_cli.sessions.facts import note_in_timeline
from vyane_cli.sessions.worker import Worker
from vyane_cli.timeline.events import EventKind
from vyane_cli.upkeep.sweep import Sweep


def lapse(sweep: Sweep) -> int:
    """Workers whose message was not answered in its time wait no longer; how many."""
    workers = registry.Registry(sweep.layout).listing()
    return sum(sweep.guarded(one.id, _lapse, one) for one in workers if one.blocked_on_message_id)


def _lapse(sweep: Sweep, worker: Worker) -> int:
    waited = worker.blocked_on_message_id or ""
    try:
        found = find_message(sweep.runtime, waited)
    except NotFoundError:
        found = None
    if found is not None:
        if found.message.kind is Kind.TASK_DISPATCH:
            return 0  # a child's result ends that, and every child has its end
        over_s = found.message.ts + found.message.ttl_seconds
        if found.entry.status is not Status.EXPIRED and over_s > sweep.now_s:
            return 0
    if not sweep.dry_run:
        payload = {"code": "reply_timeout", "text": f"{waited} was not answered in its time"}
        note_in_timeline(sweep.runtime, worker, EventKind.DIAGNOSTIC, payload)
        block(sweep.runtime, worker.id, None, on=waited)
    return 1
