"""The conversation map: where each session is shown, for lists and trees of sessions."""

from __future__ import annotations

from vyane_cli.conversations import bindings
from vyane_cli.conversations import state as mirrors
from vyane_cli.conversations.binding import place_of
from vyane_cli.delivery.topology import Routing, Unrouted
from vyane_cli.sessions import registry
from vyane_cli.sessions.session import LogicalSession
from vyane_cli.sessions.worker import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


class ConversationMap:
    """The conversations of all sessions, from one reading of the bindings."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.bindings = tuple(bindings.load(home.layout).values())

    def conversation_of(self, session: str) -> str | None:
        """Return the id of the conversation that a logical session is bound to, if any."""
        place = place_of(self.bindings, session) if session else None
        return place.conversation.id if place is not None else None

    def routing(self, logical: LogicalSession, roots: list[Worker]) -> Routing | Unrouted:
        """Return where a session and its children are shown."""
        home, bindings = self.home, self.bindings
        own = place_of(bindings, logical.id)
        if own is None:
            return Unrouted()
        state = mirrors.load_thread(home.layout, own)
        overview = state.slots.get("overview") if state is not None else None
        ids = {worker.id for worker in roots}
        children = {
            worker.logical_session_id: worker.id
            for worker in registry.Registry(home.layout).listing()
            if worker.parent_worker_id in ids
        }
        return Routing(
            primary_channel_id=own.conversation.channel,
            primary_thread_id=own.conversation.id,
            forum_channel_id=own.conversation.parent or None,
            child_thread_ids={
                children[one.target_session]: one.conversation.id
                for one in bindings
                if one.target_session in children
                and one.ended_at is None
                and one.conversation.account_key == own.conversation.account_key
            },
            summary_message_id=overview.message if overview is not None else None,
        )
