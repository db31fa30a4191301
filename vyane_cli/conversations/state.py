"""`mirror/{channel}/{account}/`: the state of a channel and of each of its conversations.

Owner: the mirror. Writers: `mirror push`, `mirror pull` and `bind`, under the channel's `mirror`
lock. Commit point: the rename. Cursor and outbox are one document, and so are the inbound cursor
and the intake: a crash leaves both as before a step, or both as after it.
"""

from __future__ import annotations

from vyane_cli.conversations.binding import Binding
from vyane_cli.conversations.state_rules import (
    ChannelState,
    ThreadState,
    parse_channel,
    parse_thread,
    render_channel,
    render_thread,
)
from vyane_cli.storage import document
from vyane_cli.storage.layout import Layout


def load_channel(layout: Layout, channel: str, account: str) -> ChannelState:
    """Load the state of a channel; an empty one if none is stored."""
    path = layout.channel_state(channel, account)
    return document.load_as(path, parse_channel, "channel's state") or ChannelState()


def save_channel(
    layout: Layout, channel: str, account: str, state: ChannelState, *, durable: bool = True
) -> None:
    """Save the state of a channel; flushed to disk only if `durable`."""
    path = layout.channel_state(channel, account)
    document.save(path, render_channel(state), layout.root, durable=durable)


def load_thread(layout: Layout, binding: Binding) -> ThreadState | None:
    """Load the state of a binding's conversation; None if none is stored."""
    path = layout.thread_state(*binding.conversation.account_key, binding.id)
    return document.load_as(path, parse_thread, "conversation's state")


def save_thread(layout: Layout, binding: Binding, state: ThreadState) -> None:
    """Save the state of a conversation, durably."""
    path = layout.thread_state(*binding.conversation.account_key, binding.id)
    document.save(path, render_thread(state), layout.root)
