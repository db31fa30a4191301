"""Claims of a round: take the head of a project's queue, so that no other round starts it.

A round calls `claim_head` before it spawns anything, and spawns the worker under the id that the
claim names. A crash between the two leaves a claim whose process is gone and whose worker is not
on record: the next call frees it. A crash after the spawn leaves one whose worker is on record,
and that worker's liveness speaks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from vyane_cli.errors import CorruptStateError
from vyane_cli.kernel import ids
from vyane_cli.projects import claims, ledger
from vyane_cli.projects.books import Books
from vyane_cli.projects.claim_rules import Claim, is_held
from vyane_cli.projects.queue_2 import startable
from vyane_cli.projects.task import Task
from vyane_cli.sessions import registry
from vyane_cli.sessions.liveness import look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.storage import processes
from vyane_cli.storage.locks import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


class Claimed(NamedTuple):
    """The task that a round may start, and its claim."""

    task: Task
    claim: Claim


Choose = Callable[[Books, frozenset[str]], Task | None]
"""The task to start, of these books and beside the tasks that are held."""


def _first(books: Books, held: frozenset[str]) -> Task | None:
    assert books.ledger is not None
    assert books.graph is not None
    return next(iter(startable(books.ledger, books.graph, held)), None)


def claim_head(
    runtime: Runtime, project: str, round_id: str, choose: Choose = _first
) -> Claimed | None:
    """Take the first task that may start; None when there is none. On disk when this returns.

    `choose` may prefer another: it is asked under the ledger's lock.
    CorruptStateError when ledger or graph cannot be read: then nothing is taken.
    """
    layout = runtime.layout
    with runtime.held((Kind.LEDGER, project)):
        books = ledger.load(layout, project)
        assert books.ledger is not None
        assert books.graph is not None
        held = sweep(runtime, project)
        task = choose(books, held)
        if task is None:
            return None
        clock = runtime.clock()
        worker = ids.worker_id(runtime.entropy(6))
        before = claims.stale(layout, project, task.id)
        claim = Claim(
            task.id,
            worker,
            round_id,
            clock.at,
            clock.at,
            runtime.me(),
            task.generation,
            max((one.number for one in before), default=0) + 1,
            clock.boot,
            clock.awake_ms,
        )
        claims.take(layout, project, claim)
        return Claimed(task, claim)


def sweep(runtime: Runtime, project: str) -> frozenset[str]:
    """Free the claims that are over; the tasks whose claims are not. Under the ledger's lock."""
    held, over = _split(runtime, project)
    for claim in over:
        claims.free(runtime.layout, project, claim)
    return held


def held_tasks(runtime: Runtime, project: str) -> frozenset[str]:
    """The tasks with a claim that is not over. Changes nothing."""
    return _split(runtime, project)[0]


def damaged(runtime: Runtime, project: str) -> list[CorruptStateError]:
    """The claims that cannot be read: each holds its task until somebody mends it."""
    found = []
    for task in claims.listing(runtime.layout, project):
        try:
            claims.load(runtime.layout, project, task)
        except CorruptStateError as error:
            found.append(error)
    return found


def _split(runtime: Runtime, project: str) -> tuple[frozenset[str], list[Claim]]:
    """The tasks that are held, and the claims that are over."""
    held, over = set(), []
    ttl_s, clock = float(runtime.config["ledger.claim_ttl_s"]), runtime.clock()
    for task in claims.listing(runtime.layout, project):
        try:
            claim = claims.load(runtime.layout, project, task)
        except CorruptStateError:
            held.add(task)  # no licence for a second start; maintenance calls the person
            continue
        if claim is None:
            continue
        if is_held(claim, holder_of(runtime, claim), clock, ttl_s):
            held.add(task)
        else:
            over.append(claim)
    return frozenset(held), over


def holder_of(runtime: Runtime, claim: Claim) -> Liveness:
    """Who holds a claim: its worker once that is on record, before that the round's process."""
    worker = registry.Registry(runtime.layout).workers.get(claim.worker)
    if worker is not None:
        return Liveness.EXITED if worker.final else look(runtime, worker).liveness
    present = processes.is_present(claim.process)
    if present is None:
        return Liveness.UNKNOWN
    return Liveness.BUSY if present else Liveness.EXITED
