"""Rounds with maintenance: clean up mail, workers and claims, run a project's round, then mirror.

Maintenance applies times to live, ends dead workers, frees claims and bindings, reads what people
wrote in channels, and archives. It delivers no message and reports no project notice. A step that
fails stops neither the other steps nor the round.
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
    """Run the maintenance of a round. Returns the count of each step; `skipped` has the errors."""
    sweep = Sweep(home, grace_s=GRACE_S, dry_run=False)
    steps = [step for step in (*STEPS, *steps_of(project)) if step.in_round]
    return {**run_steps(steps, sweep), "skipped": sweep.skipped}


def steps_of(project: Project) -> tuple[UpkeepStep, ...]:
    """Return the steps that a round of a project runs in addition to those of `STEPS`."""

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
    """Notify the person of entries that could not be sent when they were opened."""
    return len(notify(sweep.home).sent)


def _free_claims(sweep: Sweep, project: Project) -> int:
    with sweep.home.held((LockKind.LEDGER, project.name)):
        before = claims.list_claims(sweep.layout, project.name)
        return len(before) - len(sweep_claims(sweep.home, project.name))


def _call_for_claims(sweep: Sweep, project: Project) -> int:
    """Call the person once for each unreadable claim, because it blocks its task.

    Returns the number of unreadable claims.
    """
    found = damaged(sweep.home, project.name)
    for error in found:
        call = call_of(NeedKind.CLAIM, path=error.path, message=error.message, project=project.name)
        call_person(sweep.home, call)
    return len(found)


def run_round(home: Home, project: Project, schedule: str) -> Round:
    """Run one round: run maintenance, decide and act, then post the news to all channels.

    Posting begins after the project's lock is released, so that no round has to wait for it.
    """
    made = wake(home, project, schedule, Upkeep(keep_house, end_round_calls))
    if made.maintenance is not None:  # None: paused, or another round was running
        show_channels(home)
    return made


def show_channels(home: Home) -> int:
    """Show what happened in all channels, and close the calls about those that were reached.

    Return how many posts were shown.
    """
    return show_all(home, lambda channel: _end_channel_calls(home, channel))


def end_round_calls(home: Home, project: Project, made: Round) -> None:
    """Resolve the entries of the project whose cause is gone according to this round.

    Ignore errors.
    """
    started = isinstance(made.done, Dispatched) and bool(made.done.called)
    waiting = made.verdict.cell is Cell.A and started
    says = RoundSays(project.name, made.verdict.cell, made.verdict.reason, waiting)
    try:
        end_calls(home, says=says)
    except VyaneError:
        return  # the next round tries again


def _end_channel_calls(home: Home, channel: str) -> None:
    """Resolve the entries about a channel that could be opened and posted to. Ignore errors."""
    try:
        end_calls(home, works=channel)
    except VyaneError:
        return  # the next round tries again
