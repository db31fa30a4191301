"""What is known of a conversation when a run comes to it: its own state, or an earlier one's."""

from __future__ import annotations

from vyane_cli.conversations import bindings, state
from vyane_cli.conversations.binding import Binding, BindingStatus, on_channel
from vyane_cli.conversations.state_rules import ThreadState
from vyane_cli.storage.layout import Layout

FAREWELL = "farewell"
"""What `ended` says of a conversation whose binding ended before its session."""


def load_state(layout: Layout, binding: Binding) -> ThreadState:
    """What is known of a conversation; of a new one what its session's last place had left."""
    fresh = ThreadState(
        binding.id,
        binding.target_session,
        binding.generation,
        binding.open_since,
        begun=False,  # what was written there before is not for this session
    )
    known = state.load_thread(layout, binding)
    if known is not None and known.session == binding.target_session:
        if known.generation == binding.generation:
            return known
        return known._replace(  # bound again: it goes on
            generation=binding.generation,
            open_since=binding.open_since,
            begun=known.begun and known.open_since == binding.open_since,
            ended="" if known.ended == FAREWELL else known.ended,
            fault=None,
        )
    if known is not None:  # the conversation spoke to another session before
        fresh = fresh._replace(last=known.last, title=known.title, closed=known.closed)
        fresh = fresh._replace(inbound=known.inbound, seen=known.seen)
    return inherit(layout, binding, fresh)


def inherit(layout: Layout, binding: Binding, fresh: ThreadState) -> ThreadState:
    """Go on where the session's earlier conversation of this channel ended."""
    earlier = [
        one
        for one in on_channel(
            bindings.load(layout).values(),
            binding.target_session,
            *binding.conversation.account_key,
        )
        if one.id != binding.id and one.status is BindingStatus.ENDED
    ]
    for one in sorted(earlier, key=lambda b: b.ended_at or 0.0, reverse=True):
        before = state.load_thread(layout, one)
        if before is not None and before.started and before.session == binding.target_session:
            return fresh._replace(
                cursor=before.cursor,
                started=True,
                outbox=tuple(i._replace(tried=False) for i in before.outbox if not i.slot),
                heard=before.heard,
                final_children=before.final_children,
                shown_results=before.shown_results,
            )
    return fresh
