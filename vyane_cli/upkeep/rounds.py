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
from vyane_cli.conversations.bind import sweep as end_bindings
from vyane_cli.conversations.rounds import show_all, take_in
from vyane_cli.errors import VyaneError
from vyane_cli.projects import claims
from vyane_cli.projects.claims import damaged
from vyane_cli.projects.claims import sweep as sweep_claims
from vyane_cli.projects.dispatch import Dispatched
from vyane_cli.projects.project import Project
from vyane_cli.projects.round import Round, Upkeep, wake
from vyane_cli.projects.round_rules import Cell
from vyane_cli.storage.locks import LockKind
from vyane_cli.upkeep.ended_needs import end_calls
from vyane_cli.upkeep.ending_rules import RoundSays
from vyane_cli.upkeep.gc import GRACE_S, STEPS
from vyane_cli.upkeep.sweep import Sweep, UpkeepStep, run_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


def keep_house(home: Home, project: Project) -> dict[str, Any]:
    """What was done, by part; what had to be left stands in `skipped`."""
    sweep = Sweep(home, grace_s=GRACE_S, dry_run=False)
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
    return len(end_bindings(sweep.home, sweep.home.clock()).ended)


def _take_in(sweep: Sweep) -> int:
    return take_in(sweep.home)


def _notify(sweep: Sweep) -> int:
    """What nobody could be told of when it came up."""
    return len(notify(sweep.home).sent)


def _free_claims(sweep: Sweep, project: Project) -> int:
    with sweep.home.held((LockKind.LEDGER, project.name)):
        before = claims.listing(sweep.layout, project.name)
        return len(before) - len(sweep_claims(sweep.home, project.name))


def _call_for_claims(sweep: Sweep, project: Project) -> int:
    """A claim that cannot be read holds its task: the person is called once for each."""
    found = damaged(sweep.home, project.name)
    for error in found:
        call = call_of(NeedKind.CLAIM, path=error.path, message=error.message, project=project.name)
        call_person(sweep.home, call)
    return len(found)


def run_round(home: Home, project: Project, schedule: str) -> Round:
    """Run one round: keep house, with what people wrote; decide and act; show what happened.

    The channels are shown to when the project's lock is free again: no round has to wait for that.
    """
    made = wake(home, project, schedule, Upkeep(keep_house, end_round_calls))
    if made.maintenance is not None:  # else it was paused, or another round was at work
        show_all(home, lambda channel: _end_channel_calls(home, channel))
    return made


def end_round_calls(home: Home, project: Project, made: Round) -> None:
    """Close the entries of the project whose cause, as this round shows, is gone."""
    started = isinstance(made.done, Dispatched) and bool(made.done.called)
    waiting = made.verdict.cell is Cell.A and started
    says = RoundSays(project.name, made.verdict.cell, made.verdict.reason, waiting)
    try:
        end_calls(home, says=says)
    except VyaneError:
        return  # the next round does it


def _end_channel_calls(home: Home, channel: str) -> None:
    """Close the entries about a channel that could be opened and shown to."""
    try:
        end_calls(home, works=channel)
    except VyaneError:
        return  # the next round does it
