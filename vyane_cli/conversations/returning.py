"""Returning: conversations that were gone and are there again, when a person asks to try again.

A crash leaves a binding that goes on without its fact in the timeline.
"""

from __future__ import annotations

from vyane_cli.channels.port import Verdict
from vyane_cli.conversations import binding, bindings
from vyane_cli.conversations.binding import Binding, BindingStatus, EndReason
from vyane_cli.conversations.bindings_2 import note
from vyane_cli.conversations.family import Family
from vyane_cli.conversations.run import Run
from vyane_cli.storage.locks import Kind


def take_back(run: Run, family: Family) -> None:
    """Sessions whose last conversation was gone go on in it where they were."""
    for session, worker in family.sessions:
        here = family.places(session.id, run.name, run.account)
        if run.over or run.blocked is not None:
            return
        if not here or any(one.status is not BindingStatus.ENDED for one in here):
            continue
        last = max(here, key=lambda one: one.ended_at or 0.0)
        if last.end_reason != EndReason.GONE:
            continue
        if run.learn(run.channel.probe(last.conversation)).verdict is Verdict.DONE:
            back = _revive(run, last)
            if back is not None:
                note(run.runtime, back, worker)


def _revive(run: Run, seen: Binding) -> Binding | None:
    """None: somebody bound it anew meanwhile."""
    runtime = run.runtime
    fresh = binding.revive(seen, runtime.entropy(8).hex(), runtime.clock().at)

    def edit(bindings: bindings.Bindings) -> Binding | None:
        if bindings.get(seen.id) != seen:
            return None
        bindings[seen.id] = fresh
        return fresh

    with runtime.held((Kind.BINDINGS, "")):
        return bindings.change(runtime.layout, edit)
