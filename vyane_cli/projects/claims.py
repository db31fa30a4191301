"""`projects/{name}/claims/{task}.json`: which round started a task, so that no other does.

Owner: the project. Writers: rounds take and renew, a report ends; each under the project's ledger
lock, which the caller holds. Commit point: the rename into place. A crash after it leaves a claim
whose process is gone: `core.claims.is_held` frees it, unless its worker is on record.

A claim that cannot be read counts as held: it is no licence for a second start.
"""

from __future__ import annotations

import os

from vyane_cli.errors import ConflictError, CorruptStateError
from vyane_cli.projects.claim_rules import Claim, parse_claim, render_claim
from vyane_cli.storage import document, files
from vyane_cli.storage.layout import Layout


def load(layout: Layout, project: str, task: str) -> Claim | None:
    """The claim of a task; None when there is none. CorruptStateError when it cannot be read."""
    return document.load_as(layout.claim(project, task), parse_claim, "claim")


def listing(layout: Layout, project: str) -> tuple[str, ...]:
    """The tasks that have a claim, be it one that cannot be read."""
    return tuple(files.json_names(layout("projects", project, "claims")))


def stale(layout: Layout, project: str, task: str) -> tuple[Claim, ...]:
    """The claims of a task that were freed, in no order. One that cannot be read is passed over."""
    found = all_stale(layout, project, f"{task}-")
    return tuple(claim for claim in found.values() if claim.task == task)


def all_stale(layout: Layout, project: str, beginning: str = "") -> dict[str, Claim]:
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


def take(layout: Layout, project: str, claim: Claim) -> None:
    """Take a task for a round, durably; ConflictError (`claimed`) when another has it."""
    if claim.task in listing(layout, project):
        raise ConflictError(f"{claim.task} is claimed by another round", slug="claimed")
    save(layout, project, claim)


def save(layout: Layout, project: str, claim: Claim) -> None:
    """Keep a claim as it is now, durably: renewed, say."""
    document.save(layout.claim(project, claim.task), render_claim(claim), layout.root)


def free(layout: Layout, project: str, claim: Claim) -> None:
    """Set a claim aside: its task may be started again. It is kept, for whoever asks why."""
    source = layout.claim(project, claim.task)
    files.move(source, layout.stale_claim(project, f"{claim.task}-{claim.round}"[:128]))
