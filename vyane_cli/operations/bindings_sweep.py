"""Sweep: end the bindings whose time has come, or whose conversation is gone.

Each is read again right before it is ended, so that a touch in the meantime saves it.
"""

from typing import Any, NamedTuple

from vyane_cli.core.bindings import Binding, BindingStatus, EndReason
from vyane_cli.core.conversations import Channel, Verdict
from vyane_cli.core.turns import Clock
from vyane_cli.errors import VyaneError
from vyane_cli.operations.bindings import end_one, set_locked, touch
from vyane_cli.operations.channels import is_set_up, open_channel
from vyane_cli.store import bindings as book
from vyane_cli.store import markers, registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.runtime import Runtime


class Swept(NamedTuple):
    """What a sweep did."""

    looked: int
    ended: tuple[Binding, ...] = ()
    kept: tuple[dict[str, Any], ...] = ()
    """Those whose conversation could not be looked at, with the reason."""


def sweep(runtime: "Runtime", clock: Clock, *, probe: bool = False) -> Swept:
    """End what has expired. With `probe` each conversation is asked for too.

    The caller of a round passes its own reading of the clock. Without `probe` nothing is sent.
    """
    ended: list[Binding] = []
    kept: list[dict[str, Any]] = []
    channels: dict[tuple[str, str], Channel] = {}
    active = [
        one for one in book.load(runtime.layout).values() if one.status is BindingStatus.ACTIVE
    ]
    for binding in active:
        if binding.is_expired(clock.at) and not _is_alive(runtime, binding, clock):
            reason = str(binding.expiry_reason(clock.at))
            done = end_one(runtime, binding, reason, still=lambda now: now.is_expired(clock.at))
            ended += [done] if done is not None else []
        elif probe and is_set_up(runtime, *binding.conversation[:2]):
            _probe(runtime, binding, channels, ended, kept)
    return Swept(len(active), tuple(ended), tuple(kept))


def _is_alive(runtime: "Runtime", binding: Binding, clock: Clock) -> bool:
    """Whether the session itself was at work since: that is activity too, and is kept."""
    session = registry.load_logical_session(runtime.layout, binding.target_session)
    current = registry.read_current(runtime.layout, session.worker) if session else ""
    beat = markers.modified(runtime.layout.beat(current)) if current else 0.0
    if beat <= binding.last_activity_at:
        return False
    return not touch(runtime, binding.id, at=beat).is_expired(clock.at)


def _probe(
    runtime: "Runtime",
    binding: Binding,
    channels: dict[tuple[str, str], Channel],
    ended: list[Binding],
    kept: list[dict[str, Any]],
) -> None:
    """Gone: ended without last words. Locked: noted. Anything that cannot be told: kept."""
    where = binding.conversation[:2]
    try:
        channel = channels.get(where) or open_channel(runtime, *where, {})
        channels[where] = channel
        outcome = channel.probe(binding.conversation)
    except VyaneError as error:
        kept.append({"binding_id": binding.id, "reason": error.slug, "detail": error.message})
        return
    if outcome.verdict is Verdict.GONE:
        done = end_one(runtime, binding, EndReason.GONE, status=BindingStatus.ENDED)
        ended += [done] if done is not None else []
    elif outcome.verdict in (Verdict.DONE, Verdict.LOCKED):
        if binding.locked != (outcome.verdict is Verdict.LOCKED):
            set_locked(runtime, binding, outcome.verdict is Verdict.LOCKED)
    else:
        kept.append({"binding_id": binding.id, "reason": outcome.reason, "detail": outcome.detail})
