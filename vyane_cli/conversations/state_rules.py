"""State of a conversation and of a channel, as `mirror/…` keeps it: outbox, cursors, faults."""

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
"""Most messages that were taken in whose ids are kept; a channel shows no older message again."""


class PendingPart(NamedTuple):
    """One part that has yet to be shown."""

    nonce: str
    part: Part
    slot: str = ""
    """Name of the slot that the part fills: its post is edited in place from then on."""
    tried: bool = False
    """True if the part was or may have been sent: it is looked for before it is sent again."""


class Slot(NamedTuple):
    """A post that is edited in place: only its newest text is ever sent."""

    message: str
    text: str


class MirrorFault(NamedTuple):
    """The reason why nothing is sent, as `doctor` shows it."""

    verdict: str
    reason: str = ""
    detail: str = ""
    fix: str = ""
    at: float = 0.0
    retry_ms: int = 0
    """With `later`: when it is tried again, in Unix milliseconds. Any other fault waits for
    `--again` or for other settings."""
    fingerprint: str = ""
    """Fingerprint of the settings at the time, for a fault that other settings may remove."""


class ThreadState(NamedTuple):
    """The state of one conversation of one binding."""

    binding: str
    session: str
    generation: str = ""
    open_since: float = 0.0
    """The binding's value; if the binding has another one, the inbound cursor must be set again."""
    cursor: str = ""
    """Timeline cursor: the events before it were put into the outbox, or skipped."""
    started: bool = False
    """True if the cursor was ever set."""
    outbox: tuple[PendingPart, ...] = ()
    last: str = ""
    """Id of vyane's newest known post: a part is looked for after it."""
    signed: str = ""
    """Id of vyane's post at which a sign says that the session waits."""
    heard: Mapping[str, Any] = {}
    """The part of the open turn that has yet to be shown: see `narration.UntoldTurn`."""
    slots: Mapping[str, Slot] = {}
    title: str = ""
    """The title that was set last."""
    title_at_ms: int = 0
    closed: bool = False
    ended: str = ""
    """The dispatch whose result was put into the outbox, or the final status without a dispatch."""
    final_children: tuple[str, ...] = ()
    """Children whose last line has been in the overview."""
    shown_results: tuple[str, ...] = ()
    """Digests of the last whole answers that were shown."""
    told: Mapping[str, int] = {}
    """In a channel's own conversation: messages whose parts went into the outbox, and how many
    parts. Settled messages are removed."""
    fault: MirrorFault | None = None
    inbound: str = ""
    """The adapter's cursor of what people wrote."""
    found: bool = False
    """The conversation existed before this state: the first posts are looked for before they are
    sent."""
    begun: bool = True
    """False: the inbound cursor has yet to be put after the messages from before the binding."""
    seen: Mapping[str, str] = {}
    """Message → digest of its text."""
    stored: Mapping[str, str] = {}
    """Message → its id in the session's inbox; an edit is sent as a reply to that one."""
    intake: tuple[Incoming, ...] = ()
    """Messages read from the channel but not handed on yet; the inbound cursor is after them."""


class ChannelState(NamedTuple):
    """The state of one account of one channel."""

    since: float = 0.0
    """When the account was first mirrored, in Unix seconds."""
    fault: MirrorFault | None = None
    fingerprint: str = ""
    """Fingerprint of the settings under which the channel answered `off`."""
    refused: Mapping[str, MirrorFault] = {}
    """Requests that were refused, as two words (`open vs-…`), and why; they are not repeated."""
    opening: tuple[str, ...] = ()
    """Sessions whose conversation is being made, or was being made when a run was killed."""
    board: str = ""
    """The conversation that shows messages sent to the channel itself."""
    memory: Mapping[str, Any] = {}
    fallbacks: Mapping[str, int] = {}
    """Reason → how many results had no binding of their own."""
    strangers: Mapping[str, int] = {}
    """User id → how many messages were refused, for the newest 50 users."""
    problem: str = ""
    """The problem that the last reading reported."""


def fault_of(outcome: ChannelOutcome, at: float) -> MirrorFault:
    """Return the fault that an outcome leaves."""
    return MirrorFault(
        verdict=str(outcome.verdict),
        reason=outcome.reason,
        detail=outcome.detail,
        fix=outcome.fix,
        at=at,
        retry_ms=outcome.retry_ms,
    )


def holds(outcome: ChannelOutcome) -> bool:
    """Return whether a request with this outcome must not be repeated, for now or for good."""
    step = NEXT[outcome.verdict]
    return step in (MirrorStep.HOLD, MirrorStep.LOCK) or (
        step is MirrorStep.WAIT and not outcome.everywhere
    )


def remember(seen: Mapping[str, str], key: str, digest: str) -> dict[str, str]:
    """Return `seen` with one more entry, without the oldest ones beyond the limit."""
    kept = {one: value for one, value in seen.items() if one != key}
    kept[key] = digest
    for one in list(kept)[: max(len(kept) - SEEN_MAX, 0)]:
        del kept[one]
    return kept


# ------------------------------------------------------------------ the stored form


def render_thread(state: ThreadState) -> dict[str, Any]:
    """Return the stored form of a conversation's state."""
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
    """Parse a conversation's state. Raises KeyError, TypeError or ValueError for another form."""
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
    """Parse a fault from its stored form; return None for anything but an object."""
    if not isinstance(data, Mapping):
        return None
    return MirrorFault(**{key: data[key] for key in MirrorFault._fields if key in data})


def render_channel(state: ChannelState) -> dict[str, Any]:
    """Return the stored form of a channel's state."""
    data = state._asdict()
    data["fault"] = state.fault._asdict() if state.fault else None
    data["refused"] = {what: fault._asdict() for what, fault in state.refused.items()}
    data["opening"] = list(dict.fromkeys(state.opening))
    return data


def parse_channel(data: Mapping[str, Any]) -> ChannelState:
    """Parse a channel's state from its stored form."""
    known = {key: data[key] for key in ChannelState._fields if key in data}
    known["fault"] = parse_fault(known.get("fault"))
    faults = {str(k): parse_fault(v) for k, v in (known.get("refused") or {}).items()}
    known["refused"] = {what: fault for what, fault in faults.items() if fault is not None}
    known["opening"] = tuple(str(key) for key in known.get("opening") or ())
    for key in ("memory", "fallbacks", "strangers"):
        known[key] = dict(known.get(key) or {})
    return ChannelState(**known)


class MirrorStep(StrEnum):
    """The step of the mirror after a request."""

    NEXT = "next"  # the part is recorded as shown; go on with the next part
    LOOK = "look"  # look for the part; send it once more if it is missing, else it stays `tried`
    WAIT = "wait"  # the part stays first in the outbox until the given time
    RENEW = "renew"  # the post to edit is gone: its text goes out as a new post
    HOLD = "hold"  # the part stays first, reported once; `mirror push --again` tries it again
    LOCK = "lock"  # the same, and the binding is marked as locked
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
    """Return 25 characters that are the same on every try, and differ for another text or place."""
    return hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:25]
