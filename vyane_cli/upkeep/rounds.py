"""Maintenance: what a round keeps in order before it looks: the state of mail, workers, claims.

It is of the tick module: it applies times to live, ends what died, frees claims and bindings, takes
in what people wrote, archives. No message is delivered by it and no notice told. A part that fails
holds up no other, nor the round.
"""

from __future__ import annotations

from typing import Any

from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of
from vyane_cli.attention.notify import notify
from vyane_cli.conversations.bindings_sweep import sweep as end_bindings
from vyane_cli.conversations.rounds import take_in
from vyane_cli.projects import claims
from vyane_cli.projects.claims_2 import damaged
from vyane_cli.projects.claims_2 import sweep as sweep_claims
from vyane_cli.projects.project import Project
from vyane_cli.storage.locks import Kind
from vyane_cli.upkeep.gc import GRACE_S, STEPS
from vyane_cli.upkeep.sweep import Sweep, UpkeepStep, run_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


def keep_house(runtime: Runtime, project: Project) -> dict[str, Any]:
    """What was done, by part; what had to be left stands in `skipped`."""
    sweep = Sweep(runtime, grace_s=GRACE_S, dry_run=False)
    steps = [step for step in (*STEPS, *steps_of(project)) if step.in_round]
    return {**run_steps(steps, sweep), "skipped": sweep.skipped}


def steps_of(project: Project) -> tuple[UpkeepStep, ...]:
    """Return what a round of a project keeps in order beside what `gc` does too."""

    def free_claims(sweep: Sweep) -> int:
        return _free_claims(sweep, project)

    def call_for_claims(sweep: Sweep) -> int:
        return _call_for_claims(sweep, project)

    # fmt: off
    return (
        UpkeepStep("claims",         True, False, free_claims, project.name),
        UpkeepStep("damaged_claims", True, False, call_for_claims, project.name),
        UpkeepStep("unbound",        True, False, _end_bindings, "bindings"),
        UpkeepStep("taken_in",       True, False, _take_in, "mirror"),
        UpkeepStep("notified",       True, False, _notify, "notify"),
    )
    # fmt: on


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
        call = call_of(NeedKind.CLAIM, path=error.path, message=error.message, project=project.name)
        call_person(sweep.runtime, call)
    return len(found)
