"""Start attempts: try to start a turn in a session, and record the attempt with its rule."""

from __future__ import annotations

from vyane_cli.delivery.gating import Decision, DeliveryVerdict, Readings, ask_fence, recent_starts
from vyane_cli.delivery.plan import LANES
from vyane_cli.kernel.clock import Clock
from vyane_cli.mail import inbox
from vyane_cli.mail.inbox import boxes_of
from vyane_cli.mail.mailbox import Mailbox, MailEntry, Op, takeover_of
from vyane_cli.mail.message import Lane
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from vyane_cli.home import Home

    Choose = Callable[[list[MailEntry], Readings], tuple[MailEntry, Decision] | None]


def record_start(
    home: Home, worker: Worker, clock: Clock, way: str, choose: Choose
) -> Decision | None:
    """Record the decision of `choose` about a worker's mail. The caller holds the inbox locks.

    `choose` gets the entries by lane, without those that wait behind a takeover. A start is counted
    in the head, so that the gates see it. A decision whose rule the entry already has is not
    recorded again. Return the decision; None if `choose` found no message.
    """
    layout = home.layout
    paths = boxes_of(home, worker.id, worker.logical_session_id)
    boxes = [inbox.Inbox(path, layout.root) for path in paths]
    try:
        own = boxes[0]
        readings = Readings(own.head, Liveness.IDLE, clock.boot_ms, home.config.limits)
        found = choose(_in_order([box.mailbox for box in boxes]), readings)
        if found is None or found[0].rule == found[1].rule:
            return None if found is None else found[1]
        entry, decision = found
        head = own.head
        if decision.verdict is DeliveryVerdict.START:
            starts = (*recent_starts(head, clock.boot_ms), clock.boot_ms)
            head = head._replace(starts_ms=starts)
            if entry.message.lane is Lane.NORMAL:
                head = head._replace(normal_ms=clock.boot_ms)
        fields = {
            "at": clock.at,
            "boot_ms": clock.boot_ms,
            "transport": way,
            "verdict": str(decision.verdict),
            "rule": decision.rule,
            "readings": dict(decision.readings),
        }
        holder = next(box for box in boxes if entry.message.id in box.entries)
        ids = [entry.message.id]
        holder.change(Op.ATTEMPT, ids, fields, head if holder is own else holder.head)
        if holder is not own:
            own.change(Op.ATTEMPT, [], fields, head)
        return decision
    finally:
        for box in boxes:
            box.close()


def _in_order(boxes: list[Mailbox]) -> list[MailEntry]:
    takeover = takeover_of(boxes)
    entries = [entry for box in boxes for entry in box.entries]
    free = [entry for entry in entries if ask_fence(entry.message, takeover) is None]
    return sorted(free, key=lambda entry: LANES.index(entry.message.lane))
