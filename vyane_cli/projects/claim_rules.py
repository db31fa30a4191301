"""Claims: which round started a task, so that no other starts it too, and when that ends.

A round takes a claim under the ledger's lock, before it starts anything. The claim names the id
that the worker will have: when the round dies in the middle, the next one looks for that worker in
the registry and knows whether the start happened. A report of the task's worker renews the claim
or, when it changes the status to any but running, ends it.
"""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.process import Process, parse_process
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.sessions.liveness_rules import Liveness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class TaskClaim(NamedTuple):
    """One task, taken by one round for one worker."""

    task: str
    worker: str
    """Id of the worker that is to run it: fixed before it is spawned."""
    round: str
    """Id of the round."""
    at: float
    renewed_at: float
    process: Process | None = None
    """The round's own process: it speaks for the claim until the worker is on record."""
    generation: int = 0
    """That of the task when it was taken."""
    number: int = 0
    """Of the claims of this task, the first is 1: their order, whatever the clock does."""
    boot: str = ""
    """The boot of the last renewal, and when in it: the age is counted by these, in the time that
    the machine was awake."""
    awake_ms: int = 0


# fmt: off
ENDS: Mapping[Liveness, str] = {
    Liveness.BUSY:    "never",   # it works, however long
    Liveness.IDLE:    "by age",  # it may have forgotten to report
    Liveness.UNKNOWN: "by age",  # nothing is known of it: only time frees the task
    Liveness.EXITED:  "at once",
}
# fmt: on


def renew(claim: TaskClaim, clock: Clock) -> TaskClaim:
    """The claim as it is after a report of its worker."""
    return claim._replace(renewed_at=clock.at, boot=clock.boot, awake_ms=clock.awake_ms)


def is_held(claim: TaskClaim, holder: Liveness, clock: Clock, ttl_s: float) -> bool:
    """Whether the claim still keeps others from its task.

    `holder` is the worker's liveness once it is on record, before that the round's: BUSY while its
    process is there, EXITED when it is gone. A clock that steps does not end a claim early, nor
    keep it for longer.
    """
    match ENDS[holder]:
        case "never":
            return True
        case "at once":
            return False
        case _:
            return clock.since_s(claim.renewed_at, claim.boot, claim.awake_ms) < ttl_s


def parse_claim(data: Mapping[str, Any]) -> TaskClaim:
    """A claim from its stored form; TypeError or KeyError when it is none."""
    known = {key: data[key] for key in TaskClaim._fields if key in data}
    known["process"] = parse_process(known.get("process"))
    for key in ("task", "worker", "round", "boot"):
        if not isinstance(known.get(key, ""), str):
            raise ValueError(f"{key}: {known.get(key)!r} is not a text")
    for key in ("generation", "number", "awake_ms"):
        known[key] = int(known.get(key) or 0)
    for key in ("at", "renewed_at"):
        known[key] = float(known[key])
    return TaskClaim(**known)


def render_claim(claim: TaskClaim) -> dict[str, Any]:
    """The stored form of a claim."""
    data = claim._asdict()
    data["process"] = claim.process._asdict() if claim.process is not None else None
    return data
