"""How far a conversation has come, as `mirror/…` keeps it: outbox, cursors, what stands there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from vyane_cli.channels.port import (
    ChannelOutcome,
    ChannelVerdict,
    Incoming,
    Part,
    parse_part,
    render_part,
)
from vyane_cli.kernel.values import StrEnum

SEEN_MAX = 500
"""So many messages that were taken in are known by id; a channel shows none again that is older."""


class PendingPart(NamedTuple):
    """One part that is still to be shown."""

    nonce: str
    part: Part
    slot: str = ""
    """It becomes the post of this slot, which is changed in place from then on."""
    tried: bool = False
    """It was sent, or was about to be: it is looked for before it is sent again."""


class Slot(NamedTuple):
    """A post that is changed in place: only its newest text is ever sent."""

    message: str
    text: str


class MirrorFault(NamedTuple):
    """Why nothing is sent, as `doctor` says it."""

    verdict: str
    reason: str = ""
    detail: str = ""
    fix: str = ""
    at: float = 0.0
    retry_ms: int = 0
    """With `later`: when it is tried again. All else waits for `--again`, or for other settings."""
    fingerprint: str = ""
    """Of the settings under which it was said, where other ones are worth another try."""


class ThreadState(NamedTuple):
    """One conversation of one binding."""

    binding: str
    session: str
    generation: str = ""
    open_since: float = 0.0
    """As the binding has it: with another one the inbound cursor is still to be set."""
    cursor: str = ""
    """Of the timeline: what is up to it was put into the outbox, or passed over."""
    started: bool = False
    """Whether the cursor was ever set."""
    outbox: tuple[PendingPart, ...] = ()
    last: str = ""
    """The newest post of our own that is known: a look begins behind it."""
    signed: str = ""
    """Our own post at which a sign says that the session waits."""
    heard: Mapping[str, Any] = {}
    """What of the open turn is still to be told: see `narration.Heard`."""
    slots: Mapping[str, Slot] = {}
    title: str = ""
    """As it was last set."""
    title_at_ms: int = 0
    closed: bool = False
    ended: str = ""
    """The dispatch whose result was put into the outbox, or the final status without one."""
    final_children: tuple[str, ...] = ()
    """Children whose last line stood in the overview once."""
    shown_results: tuple[str, ...] = ()
    """Digests of the last whole answers that were shown."""
    told: Mapping[str, int] = {}
    """Of a channel's own conversation: messages whose parts went into the outbox, and how many
    parts; forgotten when they are settled."""
    fault: MirrorFault | None = None
    inbound: str = ""
    """The adapter's cursor of what people wrote."""
    found: bool = False
    """The conversation was there before its state was: what is said first is looked for first."""
    begun: bool = True
    """False: the cursor is still to be put behind what was there before the binding."""
    seen: Mapping[str, str] = {}
    """Message → digest of its text."""
    stored: Mapping[str, str] = {}
    """Message → what it came to in the session's inbox: an edit of it is in that chain."""
    intake: tuple[Incoming, ...] = ()
    """Read from the channel and not yet handed on: the cursor is behind them."""


class ChannelState(NamedTuple):
    """One account of one channel."""

    since: float = 0.0
    """When it was first mirrored."""
    fault: MirrorFault | None = None
    fingerprint: str = ""
    """Of the settings under which `off` was said."""
    refused: Mapping[str, MirrorFault] = {}
    """What was asked for, in two words (`open vs-…`), and refused: not asked for again."""
    opening: tuple[str, ...] = ()
    """Sessions whose conversation is being made, or was when a run was killed."""
    board: str = ""
    """The conversation in which what is sent to the channel itself is shown."""
    memory: Mapping[str, Any] = {}
    fallbacks: Mapping[str, int] = {}
    """Reason → how many results had no place of their own."""
    strangers: Mapping[str, int] = {}
    """User id → how many words were refused; the newest 50."""
    problem: str = ""
    """What the last reading complained of."""


def fault_of(outcome: ChannelOutcome, at: float) -> MirrorFault:
    """What an outcome leaves."""
    return MirrorFault(
        verdict=str(outcome.verdict),
        reason=outcome.reason,
        detail=outcome.detail,
        fix=outcome.fix,
        at=at,
        retry_ms=outcome.retry_ms,
    )


def holds(outcome: ChannelOutcome) -> bool:
    """Whether what was asked for is not to be asked for again, for now or for good."""
    step = NEXT[outcome.verdict]
    return step in (MirrorStep.HOLD, MirrorStep.LOCK) or (
        step is MirrorStep.WAIT and not outcome.everywhere
    )


def remember(seen: Mapping[str, str], key: str, digest: str) -> dict[str, str]:
    """`seen` with one more, the oldest forgotten."""
    kept = {one: value for one, value in seen.items() if one != key}
    kept[key] = digest
    for one in list(kept)[: max(len(kept) - SEEN_MAX, 0)]:
        del kept[one]
    return kept


# ------------------------------------------------------------------ the stored form


def render_thread(state: ThreadState) -> dict[str, Any]:
    """The stored form of a conversation's state."""
    data = state._asdict()
    data["outbox"] = [
        {"nonce": i.nonce, "slot": i.slot, "tried": i.tried, **render_part(i.part)}
        for i in state.outbox
    ]
    data["slots"] = {name: slot._asdict() for name, slot in state.slots.items()}
    data["fault"] = state.fault._asdict() if state.fault else None
    data["intake"] = [one._asdict() for one in state.intake]
    for key in ("final_children", "shown_results"):
        data[key] = list(data[key])
    return data


def parse_thread(data: Mapping[str, Any]) -> ThreadState:
    """A conversation's state from its stored form. KeyError, TypeError or ValueError if none."""
    known = {key: data[key] for key in ThreadState._fields if key in data}
    known["outbox"] = tuple(
        PendingPart(str(i["nonce"]), parse_part(i), str(i.get("slot") or ""), bool(i.get("tried")))
        for i in known.get("outbox") or ()
    )
    known["slots"] = {
        str(name): Slot(str(slot["message"]), str(slot["text"]))
        for name, slot in (known.get("slots") or {}).items()
    }
    known["intake"] = tuple(Incoming(**one) for one in known.get("intake") or ())
    known["fault"] = parse_fault(known.get("fault"))
    for key in ("seen", "stored"):
        known[key] = {str(one): str(value) for one, value in (known.get(key) or {}).items()}
    known["told"] = {str(one): int(value) for one, value in (known.get("told") or {}).items()}
    for key in ("final_children", "shown_results"):
        known[key] = tuple(str(one) for one in known.get(key) or ())
    return ThreadState(**known)


def parse_fault(data: object) -> MirrorFault | None:
    """A fault from its stored form."""
    if not isinstance(data, Mapping):
        return None
    return MirrorFault(**{key: data[key] for key in MirrorFault._fields if key in data})


def render_channel(state: ChannelState) -> dict[str, Any]:
    """The stored form of a channel's state."""
    data = state._asdict()
    data["fault"] = state.fault._asdict() if state.fault else None
    data["refused"] = {what: fault._asdict() for what, fault in state.refused.items()}
    data["opening"] = list(dict.fromkeys(state.opening))
    return data


def parse_channel(data: Mapping[str, Any]) -> ChannelState:
    """A channel's state from its stored form."""
    known = {key: data[key] for key in ChannelState._fields if key in data}
    known["fault"] = parse_fault(known.get("fault"))
    faults = {str(k): parse_fault(v) for k, v in (known.get("refused") or {}).items()}
    known["refused"] = {what: fault for what, fault in faults.items() if fault is not None}
    known["opening"] = tuple(str(key) for key in known.get("opening") or ())
    for key in ("memory", "fallbacks", "strangers"):
        known[key] = dict(known.get(key) or {})
    return ChannelState(**known)


class MirrorStep(StrEnum):
    """What the mirror does after a request."""

    NEXT = "next"  # it is recorded as shown; the next part
    LOOK = "look"  # look for it; sent again once when it is not there, else it stays `trying`
    WAIT = "wait"  # it stays first in the outbox until the time that was given
    RENEW = "renew"  # the post to change is gone: its state goes out as a new one
    HOLD = "hold"  # it stays first, reported once; `mirror push --again` tries it again
    LOCK = "lock"  # the same, and the binding says locked
    LOSE = "lose"  # the binding has ended as gone; its outbox is kept
    STOP = "stop"  # the channel is off until its fingerprint changes, or --again


# fmt: off
NEXT: Mapping[ChannelVerdict, MirrorStep] = {
    ChannelVerdict.DONE:    MirrorStep.NEXT,
    ChannelVerdict.UNKNOWN: MirrorStep.LOOK,
    ChannelVerdict.LATER:   MirrorStep.WAIT,
    ChannelVerdict.ABSENT:  MirrorStep.RENEW,
    ChannelVerdict.REFUSED: MirrorStep.HOLD,
    ChannelVerdict.LOCKED:  MirrorStep.LOCK,
    ChannelVerdict.GONE:    MirrorStep.LOSE,
    ChannelVerdict.OFF:     MirrorStep.STOP,
}
# fmt: on
"""No row leads to another conversation: a bound target that fails is retried, never rerouted."""


def nonce_of(*words: str) -> str:
    """25 characters that are the same on every try, and differ for another text or place."""
    return hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:25]
