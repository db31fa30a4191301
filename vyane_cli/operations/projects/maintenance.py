"""Maintenance: what a round keeps in order before it looks: the state of mail, workers, claims.

It is of the tick module: it applies times to live, ends what died, frees claims and bindings, takes
in what people wrote, archives. No message is delivered by it and no notice told. A part that fails
holds up no other, nor the round.
"""

from typing import Any

from vyane_cli.core.projects import Project
from vyane_cli.operations.conversations.bindings_sweep import sweep as end_bindings
from vyane_cli.operations.conversations.mirror_rounds import take_in
from vyane_cli.operations.needs import call_person
from vyane_cli.operations.projects.claims import damaged
from vyane_cli.operations.projects.claims import sweep as sweep_claims
from vyane_cli.operations.projects.notify import notify
from vyane_cli.operations.upkeep.calls import end_calls as end_worker_calls
from vyane_cli.operations.upkeep.expire import all_boxes, expire
from vyane_cli.operations.upkeep.gc import GRACE_S, archive_settled, settle_lost_children
from vyane_cli.operations.upkeep.lapse import lapse
from vyane_cli.operations.upkeep.orphans import mark_orphans
from vyane_cli.operations.upkeep.stale import mark_stale
from vyane_cli.operations.upkeep.sweep import Sweep
from vyane_cli.store import claims
from vyane_cli.store.locks import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.runtime import Runtime


def keep_house(runtime: "Runtime", project: Project) -> dict[str, Any]:
    """What was done, by part; what had to be left stands in `skipped`."""
    sweep = Sweep(runtime, grace_s=GRACE_S, dry_run=False)
    counts: dict[str, Any] = {
        "lost": sweep.guarded("registry", settle_lost_children),
        "stale": sweep.guarded("registry", _mark_stale),
        "orphans": sweep.guarded("registry", mark_orphans),
        "expired": sweep.guarded("registry", expire),
        "lapsed": sweep.guarded("registry", lapse),
        "claims": sweep.guarded(project.name, _free_claims, project),
        "damaged_claims": sweep.guarded(project.name, _call_for_claims, project),
        "unbound": sweep.guarded("bindings", _end_bindings),
        "taken_in": sweep.guarded("mirror", _take_in),
        "archived": sum(
            sweep.guarded(box.path, archive_settled, box) for box in all_boxes(runtime)
        ),
        "notified": sweep.guarded("notify", _notify),
    }
    sweep.guarded("need-user", end_worker_calls)
    return {**counts, "skipped": sweep.skipped}


def _mark_stale(sweep: Sweep) -> int:
    return len(mark_stale(sweep.runtime, sweep.runtime.clock()).stale)


def _end_bindings(sweep: Sweep) -> int:
    return len(end_bindings(sweep.runtime, sweep.runtime.clock()).ended)


def _take_in(sweep: Sweep) -> int:
    return take_in(sweep.runtime)


def _notify(sweep: Sweep) -> int:
    """What nobody could be told of when it came up."""
    return len(notify(sweep.runtime).sent)


def _free_claims(sweep: Sweep, project: Project) -> int:
    with sweep.runtime.held((Kind.LEDGER, project.name)):
        before = claims.listing(sweep.layout, project.name)
        return len(before) - len(sweep_claims(sweep.runtime, project.name))


def _call_for_claims(sweep: Sweep, project: Project) -> int:
    """A claim that cannot be read holds its task: the person is called once for each."""
    found = damaged(sweep.runtime, project.name)
    for error in found:
        text = f"a claim cannot be read, and its task is not started until then: {error.message}"
        ask = f"when nobody works on that task: remove {error.path}"
        call_person(sweep.runtime, f"claim:{error.path}", text, project=project.name, ask=ask)
    return len(found)
