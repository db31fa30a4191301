"""The sessions of a run: which are to be mirrored, their children, and what they reported."""

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
    """The workers and logical sessions as read when the run began, with the present bindings."""

    home: Home
    workers: Mapping[str, Worker]
    logical: Mapping[str, LogicalSession]

    @property
    def bindings(self) -> Mapping[str, Binding]:
        """Return the bindings, read again each time, because a run makes some."""
        return bindings.load(self.home.layout)

    def places(self, session: str, channel: str, account: str) -> list[Binding]:
        """Return the bindings that a session has or had on one account of a channel."""
        return on_channel(self.bindings.values(), session, channel, account)

    @property
    def sessions(self) -> list[tuple[LogicalSession, Worker]]:
        """Return each logical session with its present worker, parents before their children."""
        found = [
            (session, self.workers[session.worker])
            for session in self.logical.values()
            if session.worker in self.workers
        ]
        return sorted(found, key=lambda pair: (pair[1].created_at, pair[1].id))

    def worker_of(self, session: str) -> Worker | None:
        """Return the present worker of a logical session."""
        known = self.logical.get(session)
        return self.workers.get(known.worker) if known is not None else None

    def children_of(self, worker: Worker | None) -> list[Worker]:
        """Return the children of a worker, oldest first."""
        if worker is None:
            return []
        found = [one for one in self.workers.values() if one.parent_worker_id == worker.id]
        return sorted(found, key=lambda one: (one.created_at, one.id))

    def progress(self, child: Worker) -> str:
        """Return the latest progress of a child."""
        return progress_of(self.home, child)

    def reported(self, child: Worker) -> str:
        """Return a child's last message to its parent if that is a status update, else nothing."""
        said = inbox.last_sent(self.home.layout.outbox(child.id))
        return body_of(said) if said is not None and said.kind is MessageKind.STATUS_UPDATE else ""

    def lies_in(self, child: Worker, where: Conversation) -> bool:
        """Return whether a child's conversation is a thread of this conversation."""
        found = self.places(child.logical_session_id, *where.account_key)
        return any(one.conversation.parent == where.id for one in found)

    def is_pending(self, run: Run, child: Worker) -> bool:
        """Return whether the mirror is still to make a conversation for a child."""
        session = self.logical.get(child.logical_session_id)
        return session is not None and find_wanted(run, self, session, child) is not None


def read_family(home: Home) -> Family:
    """Read what a run needs. A logical session that cannot be read is skipped."""
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
    """Id of the deleted conversation that the new one continues; empty if there was none."""


def find_wanted(
    run: Run, family: Family, session: LogicalSession, worker: Worker
) -> WantedConversation | None:
    """Return the conversation that the mirror is to make for a session; None if it makes none.

    It makes none for a session that has or had a binding here, unless that conversation was deleted
    and `recreate` is set; none for a session whose conversation was given to another session; and
    none for a session that ended before the channel was set up.
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
    """Return whether a child gets a conversation because its parent has one."""
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
    """Return the bindings of a channel that have not ended, oldest first."""
    return [
        one
        for one in bindings.load(home.layout).values()
        if one.conversation.account_key == (channel, account)
        and one.status is not BindingStatus.ENDED
    ]


def answer_of(home: Home, worker: Worker | None, digest: str) -> str | None:
    """Return the whole text of an answer, from the host's transcript; None if it is missing."""
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
    """Revive the bindings of sessions whose last conversation was gone but exists again."""
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
    """Revive a binding as it was seen. Returns None if it was changed meanwhile."""
    home = run.home
    fresh = binding.revive(seen, home.entropy(8).hex(), home.clock().at)

    def edit(bindings: bindings.Bindings) -> Binding | None:
        if bindings.get(seen.id) != seen:
            return None
        bindings[seen.id] = fresh
        return fresh

    with home.held((LockKind.BINDINGS, "")):
        return bindings.change(home.layout, edit)
