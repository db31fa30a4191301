"""Telling: what a plan found out reaches the person and the senders, also after a crash.

What is to be told is kept before the plan is committed, and told after it, without its locks. A
crash between the two leaves it for the next call of any session, and for `gc`: those tell what a
process that is gone left. A note and an entry are known by id and key, so none comes twice.
"""

from __future__ import annotations

from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of, kept_call
from vyane_cli.delivery.plan import TickPlan
from vyane_cli.errors import VyaneError
from vyane_cli.mail import untold
from vyane_cli.mail.bounce import bounce
from vyane_cli.mail.message import Lane
from vyane_cli.mail.untold import Untold
from vyane_cli.storage import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyane_cli.home import Runtime
    from vyane_cli.storage.locks import Deadline

LEFT_MAX = 3
"""How many of those that others left one hook call tells."""


def keep(runtime: Runtime, plan: TickPlan, worker: str, name: str) -> Untold | None:
    """Keep what the plan has to tell; call it before the plan is committed.

    A message that only informed is not worth a note to its sender.
    """
    expired = [e.message for e in plan.expired if e.message.lane is not Lane.QUIET]
    if not plan.need_user and not expired:
        return None
    calls = [call_of(NeedKind.DELIVERY, worker=worker, text=text) for text in plan.need_user]
    found = Untold(
        runtime.new_id(runtime.clock().now_ms),
        runtime.me(),
        tuple((call.key, call.text) for call in calls),
        tuple((message, name) for message in expired),
    )
    untold.keep(runtime.layout, found)
    return found


def tell(runtime: Runtime, found: Iterable[Untold], deadline: Deadline | None = None) -> None:
    """Tell each. What cannot be told at this moment stays, and is told by a later call."""
    for one in found:
        try:
            for key, text in one.calls:
                call_person(runtime, kept_call(key, text), deadline=deadline)
            for message, target in one.expired:
                bounce(runtime, message, target, "ttl")
            untold.done(runtime.layout, one)
        except VyaneError:
            continue  # a note that the disk did not confirm is found by its id, and flushed


def tell_left(runtime: Runtime, deadline: Deadline | None = None, most: int = LEFT_MAX) -> int:
    """Tell what processes that are gone left untold; how many there were."""
    listed = untold.listing(runtime.layout)
    left = [one for one in listed if processes.is_present(one.by) is False][:most]
    tell(runtime, left, deadline)
    return len(left)
