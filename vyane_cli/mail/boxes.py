"""Boxes: the inboxes that a worker reads, and what waits in them. Looking changes nothing."""

from __future__ import annotations

from vyane_cli.kernel.values import NamedTuple
from vyane_cli.mail import inbox
from vyane_cli.mail.mailbox import takeover_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


def boxes_of(runtime: Runtime, worker_id: str, logical: str) -> list[str]:
    """The inboxes that a worker reads."""
    layout = runtime.layout
    paths = [layout.inbox(worker_id)]
    if logical and inbox.exists(layout.session_inbox(logical)):
        paths.append(layout.session_inbox(logical))
    return paths


class Waiting(NamedTuple):
    """What waits in the inboxes of a worker."""

    pending: int
    oldest_ts: float | None
    takeover: str = ""
    """The takeover that is not over, if there is one."""


def waiting(runtime: Runtime, worker_id: str, logical: str) -> Waiting:
    """How many messages are pending, and since when."""
    boxes = [inbox.read(path).mailbox for path in boxes_of(runtime, worker_id, logical)]
    pending = [entry.message.ts for box in boxes for entry in box.pending]
    return Waiting(len(pending), min(pending, default=None), takeover_of(boxes))
