"""Claims: a claim records which round started a task, so that no other round starts it too.

A round takes a claim under the ledger's lock, before it starts anything. The claim names the id
that the worker will have. If the round dies midway, the next round looks for that worker in the
registry and so knows whether the start happened. A report of the task's worker renews the claim, or
ends the claim when the report changes the status to any other than running.
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
    """One task, claimed by one round for one worker."""

    task: str
    worker: str
    """Id of the worker that is to run the task: fixed before the worker is spawned."""
    round: str
    """Id of the round."""
    at: float
    renewed_at: float
    process: Process | None = None
    """The round's own process. Its liveness decides about the claim until the worker is on
    record."""
    generation: int = 0
    """The generation of the task when the claim was taken."""
    number: int = 0
    """Position among the claims of this task, from 1. It gives their order even if the clock is
    changed."""
    boot: str = ""
    """Boot id of the last renewal. With `awake_ms` it gives the age of the claim, counted in the
    time that the machine was awake."""
    awake_ms: int = 0


# fmt: off
ENDS: Mapping[Liveness, str] = {
    Liveness.BUSY:    "never",   # it works, and may take any time
    Liveness.IDLE:    "by age",  # it may have forgotten to report
    Liveness.UNKNOWN: "by age",  # its state is unknown: only time frees the task
    Liveness.EXITED:  "at once",
}
# fmt: on


def renew(claim: TaskClaim, clock: Clock) -> TaskClaim:
    """Return the claim as renewed by a report of its worker."""
    return claim._replace(renewed_at=clock.at, boot=clock.boot, awake_ms=clock.awake_ms)


def is_held(claim: TaskClaim, holder: Liveness, clock: Clock, ttl_s: float) -> bool:
    """Return whether the claim still keeps other rounds from its task.

    `holder` is the liveness of the worker once the worker is on record. Before that, it is the
    liveness of the round: BUSY while the round's process exists, EXITED after that. A wall clock
    that is set back or forward neither shortens nor extends the claim.
    """
    match ENDS[holder]:
        case "never":
            return True
        case "at once":
            return False
        case _:
            return clock.since_s(claim.renewed_at, claim.boot, claim.awake_ms) < ttl_s


def parse_claim(data: Mapping[str, Any]) -> TaskClaim:
    """Return the claim of a stored form. TypeError, KeyError or ValueError when it is malformed."""
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
    """Return the stored form of a claim."""
    data = claim._asdict()
    data["process"] = claim.process._asdict() if claim.process is not None else None
    return data
