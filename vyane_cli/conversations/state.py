"""`mirror/{channel}/{account}/`: what a channel and each of its conversations has come to.

Owner: the mirror. Writers: `mirror push`, `mirror pull` and `bind`, under the channel's `mirror`
lock. Commit point: the rename. Cursor and outbox are one document, and so are the cursor of what
people wrote and what was taken in: a crash leaves both before a step, or both after it.
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
    """The state of a channel; an empty one when there is none."""
    path = layout.channel_state(channel, account)
    return document.load_as(path, parse_channel, "channel's state") or ChannelState()


def save_channel(
    layout: Layout, channel: str, account: str, state: ChannelState, *, durable: bool = True
) -> None:
    """Keep the state of a channel."""
    path = layout.channel_state(channel, account)
    document.save(path, render_channel(state), layout.root, durable=durable)


def load_thread(layout: Layout, binding: Binding) -> ThreadState | None:
    """The state of a binding's conversation; None when there is none."""
    path = layout.thread_state(*binding.conversation.account_key, binding.id)
    return document.load_as(path, parse_thread, "conversation's state")


def save_thread(layout: Layout, binding: Binding, state: ThreadState) -> None:
    """Keep the state of a conversation, durably."""
    path = layout.thread_state(*binding.conversation.account_key, binding.id)
    document.save(path, render_thread(state), layout.root)
