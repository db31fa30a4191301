"""Sweep: end the bindings whose time has come, or whose conversation is gone.

Each is read again right before it is ended, so that a touch in the meantime saves it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from vyane_cli.channels.port import Verdict
from vyane_cli.conversations import bindings as book
from vyane_cli.conversations.binding import Binding, BindingStatus, EndReason
from vyane_cli.conversations.binding_forms import render_binding
from vyane_cli.conversations.bindings_2 import end_one, set_locked, touch
from vyane_cli.conversations.channels import is_set_up
from vyane_cli.conversations.losing import lose
from vyane_cli.conversations.run import Run
from vyane_cli.errors import VyaneError
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.values import InJson
from vyane_cli.sessions import markers, registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBinding:
    """A binding whose conversation could not be looked at, and why."""

    binding_id: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep did."""

    looked: int
    ended: tuple[Binding, ...] = field(metadata={InJson: InJson(form=render_binding)})
    kept: tuple[KeptBinding, ...]


def sweep(runtime: Runtime, clock: Clock, *, probe: bool = False) -> Swept:
    """End what has expired. With `probe` each conversation is asked for too.

    The caller of a round passes its own reading of the clock. Without `probe` nothing is sent.
    """
    ended: list[Binding] = []
    kept: list[KeptBinding] = []
    left: dict[tuple[str, str], list[Binding]] = {}
    active = [
        one for one in book.load(runtime.layout).values() if one.status is BindingStatus.ACTIVE
    ]
    for binding in active:
        try:
            reason = _why_over(runtime, binding, clock)
        except VyaneError as error:
            kept.append(_kept(binding, error.slug, error.message))
            continue
        if reason is not None:
            timed = reason is not EndReason.NO_SESSION
            still = (lambda now: now.is_expired(clock.at)) if timed else None
            done = end_one(runtime, binding, reason, still=still)
            ended += [done] if done is not None else []
        elif probe and is_set_up(runtime, *binding.conversation.account_key):
            left.setdefault(binding.conversation.account_key, []).append(binding)
    for where, bindings in left.items():
        try:
            with Run(runtime, *where) as run:
                for binding in bindings:
                    _probe(run, binding, ended, kept)
        except VyaneError as error:
            kept += [_kept(one, error.slug, error.message) for one in bindings]
    return Swept(looked=len(active), ended=tuple(ended), kept=tuple(kept))


def _why_over(runtime: Runtime, binding: Binding, clock: Clock) -> EndReason | None:
    """Why it is over; None while it is not. That the session itself was at work is activity too."""
    session = registry.load_logical_session(runtime.layout, binding.target_session)
    if session is None:
        return EndReason.NO_SESSION
    if not binding.is_expired(clock.at):
        return None
    current = registry.read_current(runtime.layout, session.worker)
    beat = markers.modified(runtime.layout.beat(current)) if current else 0.0
    if beat > binding.last_activity_at:
        binding = touch(runtime, binding.id, at=beat)
    return binding.expiry_reason(clock.at)


def _probe(run: Run, binding: Binding, ended: list[Binding], kept: list[KeptBinding]) -> None:
    """Gone: ended without last words. Locked: noted. Anything that cannot be told: kept."""
    fault = run.blocked
    if fault is not None:
        kept.append(_kept(binding, fault.reason, fault.detail))
        return
    outcome = run.learn(run.channel.probe(binding.conversation))
    run.keep_memory()
    if outcome.verdict is Verdict.GONE:
        done = lose(run, binding)
        ended += [done] if done is not None else []
    elif outcome.verdict in (Verdict.DONE, Verdict.LOCKED):
        if binding.locked != (outcome.verdict is Verdict.LOCKED):
            set_locked(run.runtime, binding, outcome.verdict is Verdict.LOCKED)
    else:
        kept.append(_kept(binding, outcome.reason, outcome.detail))


def _kept(binding: Binding, reason: str, detail: str) -> KeptBinding:
    return KeptBinding(binding_id=binding.id, reason=reason, detail=detail)
