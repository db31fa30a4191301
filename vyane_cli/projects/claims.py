"""`projects/{name}/claims/{task}.json`: the round that started a task, so that no other round does.

Owner: the project. Writers: a round takes and frees claims, and a report renews or ends one; each
under the project's ledger lock, which the caller of `take`, `save` and `free` holds. Commit point:
the rename into place. A crash after it leaves a claim whose process is gone: `claim_rules.is_held`
then returns False, unless the claim's worker is on record, and the next round frees it.

A claim that cannot be read counts as held, because it does not permit a second start.
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
    """Return the claim of a task, or None. CorruptStateError when the claim cannot be read."""
    return document.load_as(layout.claim(project, task), parse_claim, "claim")


def list_claims(layout: Layout, project: str) -> tuple[str, ...]:
    """Return the ids of the tasks that have a claim, including claims that cannot be read."""
    return tuple(files.json_names(layout("projects", project, "claims")))


def stale(layout: Layout, project: str, task: str) -> tuple[TaskClaim, ...]:
    """Return the freed claims of a task, in no order. Claims that cannot be read are skipped."""
    found = all_stale(layout, project, f"{task}-")
    return tuple(claim for claim in found.values() if claim.task == task)


def all_stale(layout: Layout, project: str, beginning: str = "") -> dict[str, TaskClaim]:
    """Return the freed claims by path, for file names that start with `beginning`.

    Claims that cannot be read are skipped.
    """
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
    """Take a claim on its task, durably. ConflictError (`claimed`) when the task has a claim."""
    if claim.task in list_claims(layout, project):
        raise ConflictError(f"{claim.task} is claimed by another round", slug="claimed")
    save(layout, project, claim)


def save(layout: Layout, project: str, claim: TaskClaim) -> None:
    """Save a claim durably in its present form, for example after a renewal."""
    document.save(layout.claim(project, claim.task), render_claim(claim), layout.root)


def free(layout: Layout, project: str, claim: TaskClaim) -> None:
    """Move a claim to the freed ones, so that its task may be started again. The file is kept.

    Freed claims show how often a task was started, and by which rounds.
    """
    source = layout.claim(project, claim.task)
    files.move(source, layout.stale_claim(project, f"{claim.task}-{claim.round}"[:128]))


class Claimed(NamedTuple):
    """The task that a round may start, and its claim."""

    task: Task
    claim: TaskClaim


Choose = Callable[[Books, frozenset[str]], Task | None]
"""Picks the task to start from the books; the second argument has the ids of the held tasks."""


def _first(books: Books, held: frozenset[str]) -> Task | None:
    assert books.ledger is not None
    assert books.graph is not None
    return next(iter(startable(books.ledger, books.graph, held)), None)


def claim_head(home: Home, project: str, round_id: str, choose: Choose = _first) -> Claimed | None:
    """Take a claim on the first task that may start, durably. Return None when no task may start.

    `choose` may pick another task; it is called under the ledger's lock. CorruptStateError when the
    ledger or the graph cannot be read; then no claim is taken.
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
    """Free the claims that have ended. Return the ids of the tasks that are still held.

    The caller holds the ledger's lock.
    """
    held, over = _split(home, project)
    for claim in over:
        free(home.layout, project, claim)
    return held


def held_tasks(home: Home, project: str) -> frozenset[str]:
    """Return the ids of the tasks that are held by a claim. Changes nothing."""
    return _split(home, project)[0]


def damaged(home: Home, project: str) -> list[CorruptStateError]:
    """Return the errors of the claims that cannot be read: each holds its task until repaired."""
    found = []
    for task in list_claims(home.layout, project):
        try:
            load(home.layout, project, task)
        except CorruptStateError as error:
            found.append(error)
    return found


def _split(home: Home, project: str) -> tuple[frozenset[str], list[TaskClaim]]:
    """Return the ids of the tasks that are held, and the claims that have ended."""
    held, over = set(), []
    ttl_s, clock = float(home.config["ledger.claim_ttl_s"]), home.clock()
    for task in list_claims(home.layout, project):
        try:
            claim = load(home.layout, project, task)
        except CorruptStateError:
            held.add(task)  # no second start; upkeep calls the person
            continue
        if claim is None:
            continue
        if is_held(claim, holder_of(home, claim), clock, ttl_s):
            held.add(task)
        else:
            over.append(claim)
    return frozenset(held), over


def holder_of(home: Home, claim: TaskClaim) -> Liveness:
    """Return the liveness of a claim's holder: its worker if on record, else the round process."""
    worker = registry.Registry(home.layout).workers.get(claim.worker)
    if worker is not None:
        return Liveness.EXITED if worker.final else look(home, worker).liveness
    present = processes.is_present(claim.process)
    if present is None:
        return Liveness.UNKNOWN
    return Liveness.BUSY if present else Liveness.EXITED
