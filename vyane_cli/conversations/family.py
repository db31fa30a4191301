"""Which sessions are mirrored, their kin, and what they said: read once for a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from vyane_cli.channels.port import ChannelVerdict, Conversation
from vyane_cli.conversations import binding, bindings
from vyane_cli.conversations.binding import Binding, BindingStatus, EndReason, on_channel
from vyane_cli.conversations.bindings import note
from vyane_cli.conversations.run import Run
from vyane_cli.delivery.view import progress_of
from vyane_cli.errors import VyaneError
from vyane_cli.mail import inbox
from vyane_cli.mail.message import MessageKind, body_of
from vyane_cli.sessions import registry
from vyane_cli.sessions.liveness import look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.session import LogicalSession
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


class Family(NamedTuple):
    """The registry, the logical sessions and the bindings, as they stood when the run began."""

    home: Home
    workers: Mapping[str, Worker]
    logical: Mapping[str, LogicalSession]

    @property
    def bindings(self) -> Mapping[str, Binding]:
        """Read anew: a run makes some."""
        return bindings.load(self.home.layout)

    def places(self, session: str, channel: str, account: str) -> list[Binding]:
        """What a session has or had on one account of a channel."""
        return on_channel(self.bindings.values(), session, channel, account)

    @property
    def sessions(self) -> list[tuple[LogicalSession, Worker]]:
        """Each logical session with its present worker, parents before their children."""
        found = [
            (session, self.workers[session.worker])
            for session in self.logical.values()
            if session.worker in self.workers
        ]
        return sorted(found, key=lambda pair: (pair[1].created_at, pair[1].id))

    def worker_of(self, session: str) -> Worker | None:
        """The present worker of a logical session."""
        known = self.logical.get(session)
        return self.workers.get(known.worker) if known is not None else None

    def children_of(self, worker: Worker | None) -> list[Worker]:
        """The children of a worker, oldest first."""
        if worker is None:
            return []
        found = [one for one in self.workers.values() if one.parent_worker_id == worker.id]
        return sorted(found, key=lambda one: (one.created_at, one.id))

    def progress(self, child: Worker) -> str:
        """What a child did last."""
        return progress_of(self.home, child)

    def reported(self, child: Worker) -> str:
        """What a child told its parent last of how far it is; empty when that was another thing."""
        said = inbox.last_sent(self.home.layout.outbox(child.id))
        return body_of(said) if said is not None and said.kind is MessageKind.STATUS_UPDATE else ""

    def lies_in(self, child: Worker, where: Conversation) -> bool:
        """Whether a child's conversation is a thread of this one."""
        found = self.places(child.logical_session_id, *where.account_key)
        return any(one.conversation.parent == where.id for one in found)

    def is_pending(self, run: Run, child: Worker) -> bool:
        """Whether a child is still to get a conversation of its own."""
        session = self.logical.get(child.logical_session_id)
        return session is not None and find_wanted(run, self, session, child) is not None


def read_family(home: Home) -> Family:
    """Read what a run needs; a document that cannot be read is passed over."""
    workers = registry.Registry(home.layout).workers
    logical: dict[str, LogicalSession] = {}
    for key in dict.fromkeys(one.logical_session_id for one in workers.values()):
        try:
            session = registry.load_logical_session(home.layout, key) if key else None
        except VyaneError:
            continue  # `doctor` names it
        if session is not None:
            logical[key] = session
    return Family(home, workers, logical)


class WantedConversation(NamedTuple):
    """A conversation that the mirror is to make."""

    before: str = ""
    """The id of the deleted conversation that it goes on from, if there was one."""


def find_wanted(
    run: Run, family: Family, session: LogicalSession, worker: Worker
) -> WantedConversation | None:
    """Return the conversation that the mirror is to make for a session, None when it is not.

    Not for one that has or had a binding here, but for one whose conversation was deleted where
    `recreate` says so; not for one whose place was given to another session; and not for one that
    was over before the channel was set up.
    """
    if here := family.places(session.id, run.name, run.account):
        last = max(here, key=lambda one: one.bound_at)
        gone = last.status is BindingStatus.ENDED and last.end_reason == EndReason.GONE
        if gone and run.settings.recreate and not worker.final:
            return WantedConversation(last.conversation.id)
        return None
    if any(
        session.id in one.earlier_sessions
        and one.conversation.account_key == (run.name, run.account)
        for one in family.bindings.values()
    ):
        return None
    if run.settings.sessions != "all" and not _follows_parent(run, family, worker):
        return None
    since = run.state.since
    if worker.final and (worker.ended_at or 0.0) < since:
        return None
    if worker.created_at < since and look(run.home, worker).liveness is Liveness.EXITED:
        return None
    return WantedConversation()


def _follows_parent(run: Run, family: Family, worker: Worker) -> bool:
    """Whether a child gets a conversation because its parent has one."""
    parent = family.workers.get(worker.parent_worker_id or "")
    return (
        bool(run.home.config["bindings.spawn_child"])
        and parent is not None
        and any(
            one.status is BindingStatus.ACTIVE
            for one in family.places(parent.logical_session_id, run.name, run.account)
        )
    )


def mirrored_bindings(home: Home, channel: str, account: str) -> list[Binding]:
    """The bindings of a channel that have not ended, oldest first."""
    return [
        one
        for one in bindings.load(home.layout).values()
        if one.conversation.account_key == (channel, account)
        and one.status is not BindingStatus.ENDED
    ]


def answer_of(home: Home, worker: Worker | None, digest: str) -> str | None:
    """The whole text of an answer, from the host's own transcript; None when it is not there."""
    if worker is None:
        return None
    try:
        session = registry.current_session(home.layout, worker.id)
    except VyaneError:
        return None
    host = home.host(session.host) if session is not None else None
    if host is None or session is None or not session.transcript:
        return None
    return host.read_answer(session.transcript, digest)


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
        if run.learn(run.channel.probe(last.conversation)).verdict is ChannelVerdict.DONE:
            back = _revive(run, last)
            if back is not None:
                note(run.home, back, worker)


def _revive(run: Run, seen: Binding) -> Binding | None:
    """None: somebody bound it anew meanwhile."""
    home = run.home
    fresh = binding.revive(seen, home.entropy(8).hex(), home.clock().at)

    def edit(bindings: bindings.Bindings) -> Binding | None:
        if bindings.get(seen.id) != seen:
            return None
        bindings[seen.id] = fresh
        return fresh

    with home.held((LockKind.BINDINGS, "")):
        return bindings.change(home.layout, edit)
