"""`projects/{name}/claims/{task}.json`: which round started a task, so that no other does.

Owner: the project. Writers: rounds take and renew, a report ends; each under the project's ledger
lock, which the caller holds. Commit point: the rename into place. A crash after it leaves a claim
whose process is gone: `core.claims.is_held` frees it, unless its worker is on record.

A claim that cannot be read counts as held: it is no licence for a second start.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from vyane_cli.errors import ConflictError, CorruptStateError
from vyane_cli.kernel import ids
from vyane_cli.projects import ledger
from vyane_cli.projects.claim_rules import TaskClaim, is_held, parse_claim, render_claim
from vyane_cli.projects.goal import Books
from vyane_cli.projects.queue import startable
from vyane_cli.projects.task import Task
from vyane_cli.sessions import registry
from vyane_cli.sessions.liveness import look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.storage import document, files, processes
from vyane_cli.storage.layout import Layout
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


def load(layout: Layout, project: str, task: str) -> TaskClaim | None:
    """The claim of a task; None when there is none. CorruptStateError when it cannot be read."""
    return document.load_as(layout.claim(project, task), parse_claim, "claim")


def listing(layout: Layout, project: str) -> tuple[str, ...]:
    """The tasks that have a claim, be it one that cannot be read."""
    return tuple(files.json_names(layout("projects", project, "claims")))


def stale(layout: Layout, project: str, task: str) -> tuple[TaskClaim, ...]:
    """The claims of a task that were freed, in no order. One that cannot be read is passed over."""
    found = all_stale(layout, project, f"{task}-")
    return tuple(claim for claim in found.values() if claim.task == task)


def all_stale(layout: Layout, project: str, beginning: str = "") -> dict[str, TaskClaim]:
    """The claims that were freed, by path, of those names that begin so."""
    folder = layout("projects", project, "claims-stale")
    found = {}
    for name in files.json_names(folder):
        if name.startswith(beginning):
            path = os.path.join(folder, name + ".json")
            try:
                claim = document.load_as(path, parse_claim, "claim")
            except CorruptStateError:
                continue
            if claim is not None:
                found[path] = claim
    return found


def take(layout: Layout, project: str, claim: TaskClaim) -> None:
    """Take a task for a round, durably; ConflictError (`claimed`) when another has it."""
    if claim.task in listing(layout, project):
        raise ConflictError(f"{claim.task} is claimed by another round", slug="claimed")
    save(layout, project, claim)


def save(layout: Layout, project: str, claim: TaskClaim) -> None:
    """Keep a claim as it is now, durably: renewed, say."""
    document.save(layout.claim(project, claim.task), render_claim(claim), layout.root)


def free(layout: Layout, project: str, claim: TaskClaim) -> None:
    """Set a claim aside: its task may be started again. It is kept, for whoever asks why."""
    source = layout.claim(project, claim.task)
    files.move(source, layout.stale_claim(project, f"{claim.task}-{claim.round}"[:128]))


class Claimed(NamedTuple):
    """The task that a round may start, and its claim."""

    task: Task
    claim: TaskClaim


Choose = Callable[[Books, frozenset[str]], Task | None]
"""The task to start, of these books and beside the tasks that are held."""


def _first(books: Books, held: frozenset[str]) -> Task | None:
    assert books.ledger is not None
    assert books.graph is not None
    return next(iter(startable(books.ledger, books.graph, held)), None)


def claim_head(home: Home, project: str, round_id: str, choose: Choose = _first) -> Claimed | None:
    """Take the first task that may start; None when there is none. On disk when this returns.

    `choose` may prefer another: it is asked under the ledger's lock.
    CorruptStateError when ledger or graph cannot be read: then nothing is taken.
    """
    layout = home.layout
    with home.held((LockKind.LEDGER, project)):
        books = ledger.load(layout, project)
        assert books.ledger is not None
        assert books.graph is not None
        held = sweep(home, project)
        task = choose(books, held)
        if task is None:
            return None
        clock = home.clock()
        worker = ids.worker_id(home.entropy(6))
        before = stale(layout, project, task.id)
        claim = TaskClaim(
            task=task.id,
            worker=worker,
            round=round_id,
            at=clock.at,
            renewed_at=clock.at,
            process=home.me(),
            generation=task.generation,
            number=max((one.number for one in before), default=0) + 1,
            boot=clock.boot,
            awake_ms=clock.awake_ms,
        )
        take(layout, project, claim)
        return Claimed(task, claim)


def sweep(home: Home, project: str) -> frozenset[str]:
    """Free the claims that are over; the tasks whose claims are not. Under the ledger's lock."""
    held, over = _split(home, project)
    for claim in over:
        free(home.layout, project, claim)
    return held


def held_tasks(home: Home, project: str) -> frozenset[str]:
    """The tasks with a claim that is not over. Changes nothing."""
    return _split(home, project)[0]


def damaged(home: Home, project: str) -> list[CorruptStateError]:
    """The claims that cannot be read: each holds its task until somebody mends it."""
    found = []
    for task in listing(home.layout, project):
        try:
            load(home.layout, project, task)
        except CorruptStateError as error:
            found.append(error)
    return found


def _split(home: Home, project: str) -> tuple[frozenset[str], list[TaskClaim]]:
    """The tasks that are held, and the claims that are over."""
    held, over = set(), []
    ttl_s, clock = float(home.config["ledger.claim_ttl_s"]), home.clock()
    for task in listing(home.layout, project):
        try:
            claim = load(home.layout, project, task)
        except CorruptStateError:
            held.add(task)  # no licence for a second start; maintenance calls the person
            continue
        if claim is None:
            continue
        if is_held(claim, holder_of(home, claim), clock, ttl_s):
            held.add(task)
        else:
            over.append(claim)
    return frozenset(held), over


def holder_of(home: Home, claim: TaskClaim) -> Liveness:
    """Who holds a claim: its worker once that is on record, before that the round's process."""
    worker = registry.Registry(home.layout).workers.get(claim.worker)
    if worker is not None:
        return Liveness.EXITED if worker.final else look(home, worker).liveness
    present = processes.is_present(claim.process)
    if present is None:
        return Liveness.UNKNOWN
    return Liveness.BUSY if present else Liveness.EXITED
