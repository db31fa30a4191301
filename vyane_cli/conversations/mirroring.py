"""The mirror's decisions: what follows from an outcome, and which nonce a part has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from vyane_cli.channels.port import Verdict
from vyane_cli.kernel.values import StrEnum


class Step(StrEnum):
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
NEXT: Mapping[Verdict, Step] = {
    Verdict.DONE:    Step.NEXT,
    Verdict.UNKNOWN: Step.LOOK,
    Verdict.LATER:   Step.WAIT,
    Verdict.ABSENT:  Step.RENEW,
    Verdict.REFUSED: Step.HOLD,
    Verdict.LOCKED:  Step.LOCK,
    Verdict.GONE:    Step.LOSE,
    Verdict.OFF:     Step.STOP,
}
# fmt: on
"""No row leads to another conversation: a bound target that fails is retried, never rerouted."""


def nonce_of(*words: str) -> str:
    """25 characters that are the same on every try, and differ for another text or place."""
    return hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:25]
