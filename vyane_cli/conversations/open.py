"""Opening: the conversation of a session, found by its key or made, and its first post."""

from __future__ import annotations

from typing import NamedTuple

from vyane_cli.channels.port import ChannelOutcome, ChannelVerdict, Conversation, Opening, Post
from vyane_cli.conversations import state as mirrors
from vyane_cli.conversations.binding import NO_END, Binding, Windows, duration_label, thread_name
from vyane_cli.conversations.channels import check_placement
from vyane_cli.conversations.narration import MARKS, one_line, show
from vyane_cli.conversations.run import Run
from vyane_cli.conversations.state_rules import PendingPart, ThreadState, nonce_of
from vyane_cli.conversations.thread import load_state
from vyane_cli.errors import RefusedError, VyaneError
from vyane_cli.mail.lookup import find_message
from vyane_cli.mail.message import body_of, first_line
from vyane_cli.sessions import registry
from vyane_cli.sessions.liveness import look
from vyane_cli.sessions.session import LogicalSession
from vyane_cli.sessions.worker import Worker, WorkerStatus, shown_status
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.channels.port import Placement
    from vyane_cli.home import Home


def status_of(home: Home, worker: Worker | None) -> WorkerStatus:
    """What people see a worker do; one that is no more on record is released."""
    if worker is None:
        return WorkerStatus.RELEASED
    return shown_status(worker, look(home, worker).liveness)


def title_of(
    home: Home,
    session: LogicalSession,
    worker: Worker | None,
    parent: Worker | None,
    mark: str,
) -> str:
    """A session by its name; a child as `[parent]: what it was asked`."""
    name = worker.name if worker is not None else session.display_name
    if parent is not None:
        asked = one_line(asked_of(home, worker)) or name
        return thread_name(f"[{parent.name}]: {asked}", mark=mark)
    return thread_name(show(name), mark=mark)


def asked_of(home: Home, worker: Worker | None) -> str:
    """What a child was asked, in one line; empty when the message is gone."""
    if worker is None or not worker.dispatch_id:
        return ""
    try:
        message = find_message(home, worker.dispatch_id).message
    except VyaneError:
        return ""
    return message.summary or first_line(body_of(message))


def open_session(
    run: Run,
    session: LogicalSession,
    worker: Worker | None,
    *,
    parent: str = "",
    before: str = "",
    windows: Windows = NO_END,
) -> tuple[ChannelOutcome, tuple[PendingPart, ...]]:
    """Ask the channel for the session's conversation. `before`: a link to the one that is gone.

    With what of its first words did not fit into the first post.
    """
    home = run.home
    above = registry.Registry(home.layout).workers.get((worker and worker.parent_worker_id) or "")
    mark = MARKS[status_of(home, worker)]
    text = intro(run, session, worker, above) + _ends(run, windows)
    key = session.id
    if before:
        text += "\n" + run.texts.fill("continues", before=before)
        key = f"{session.id}-{nonce_of(before)[:6]}"
    parts = run.channel.plan(Post(text))
    nonce = nonce_of("open", run.name, run.account, key)
    title = title_of(home, session, worker, above, mark)
    outcome = run.learn(
        run.channel.open(Opening(key=key, title=title, first=parts[0], nonce=nonce, parent=parent))
    )
    run.keep_memory()
    rest = (PendingPart(nonce_of(nonce, str(n)), part) for n, part in enumerate(parts[1:], 1))
    return outcome, tuple(rest)


def intro(run: Run, session: LogicalSession, worker: Worker | None, parent: Worker | None) -> str:
    """The first post: who it is and where it works, and that one may write here."""
    name = worker.name if worker is not None else session.display_name
    return run.texts.fill(
        "intro-child" if parent is not None else "intro",
        name=show(name),
        kind=worker.worker_type if worker is not None else "",
        cwd=show(worker.cwd if worker is not None else ""),
        key=session.id,
        parent=show(parent.name) if parent is not None else "",
        purpose=show(asked_of(run.home, worker)) if parent is not None else "",
    ).rstrip()


def _ends(run: Run, windows: Windows) -> str:
    """A line for each end that the place has, by idle time and by age."""
    said = (("intro-idle", windows.idle_s), ("intro-age", windows.max_age_s))
    lines = [run.texts.fill(name, time=duration_label(s)) for name, s in said if s]
    return "".join(f"\n{line}" for line in lines)


MAKES_ONE = "give the id of a conversation that is there; without one a new one is made"


class ConversationToBind(NamedTuple):
    """A conversation that is to be bound."""

    conversation: Conversation
    cursor: str | None
    """Behind what stands there; None when it could not be asked for: the first reading sees to it.
    """
    made: bool = False
    """It was not there before."""
    rest: tuple[PendingPart, ...] = ()
    """What did not fit into its first post, or is to be said there first."""


def make_conversation(
    home: Home,
    wanted: Conversation,
    session: LogicalSession,
    worker: Worker | None,
    placement: Placement,
    windows: Windows,
) -> ConversationToBind:
    """A new conversation for `bind`; RefusedError when the channel makes none."""
    with Run(home, wanted.channel, wanted.account) as run:
        check_placement(run.channel.capabilities, placement, wanted.channel)
        if (fault := run.blocked) is not None:
            raise RefusedError(fault.detail or fault.reason, slug="create_failed", hint=fault.fix)
        outcome, rest = open_session(run, session, worker, parent=wanted.parent, windows=windows)
        if outcome.verdict is not ChannelVerdict.DONE or outcome.conversation is None:
            raise RefusedError(
                f"{wanted.channel} made no conversation: {outcome.detail or outcome.reason}",
                slug="create_failed",
                hint=outcome.fix,
            )
        where = outcome.conversation
        if outcome.found:
            return ConversationToBind(where, _end_of(run, where)[0])
        return ConversationToBind(where, "", made=True, rest=rest)


def check_conversation(home: Home, fresh: Binding, taken: Binding | None) -> ConversationToBind:
    """One that is there, for `bind`; RefusedError when the channel says that it is not.

    `taken`: the binding by which it was another session's so far; people there are told.
    """
    where = fresh.conversation
    rest: tuple[PendingPart, ...] = ()
    try:
        with Run(home, where.channel, where.account) as run:
            if run.blocked is not None:
                return ConversationToBind(where, None)
            cursor, outcome = _end_of(run, where)
            rest = _moved(run, fresh, taken) if taken is not None else ()
    except VyaneError:  # no credentials here, or the channel is at work
        return ConversationToBind(where, None)
    if outcome.verdict in (ChannelVerdict.GONE, ChannelVerdict.REFUSED):
        raise RefusedError(
            f"{where.id!r} cannot be bound: {outcome.detail or outcome.reason}",
            slug="create_failed",
            hint=MAKES_ONE if outcome.verdict is ChannelVerdict.GONE else outcome.fix,
        )
    return ConversationToBind(where, cursor, rest=rest)


def _moved(run: Run, fresh: Binding, taken: Binding) -> tuple[PendingPart, ...]:
    """Whom those who write there reach from now on, and whom no more."""
    layout, names = run.home.layout, []
    workers = registry.Registry(layout).workers
    for key in (fresh.target_session, taken.target_session):
        session = registry.load_logical_session(layout, key)
        worker = workers.get(session.worker) if session is not None else None
        names.append(show(worker.name if worker is not None else key))
    text = run.texts.fill("moved", name=names[0], before=names[1])
    nonce = nonce_of("moved", fresh.id, fresh.generation)
    parts = run.channel.plan(Post(text, notify=True))
    return tuple(PendingPart(nonce_of(nonce, str(n)), part) for n, part in enumerate(parts))


def _end_of(run: Run, where: Conversation) -> tuple[str | None, ChannelOutcome]:
    """Behind the newest that stands there, and what was answered."""
    outcome = run.learn(run.channel.seek_end(where))
    done = outcome.verdict is ChannelVerdict.DONE and outcome.page is not None
    return outcome.page.cursor if done and outcome.page is not None else None, outcome


def begin(home: Home, binding: Binding, place: ConversationToBind) -> None:
    """Reading begins behind what was there before the session was bound.

    Of a conversation that was just made before the binding, so that no word written there is
    passed over; else after it, and where this is not done the first reading sees to it.
    """
    channel, account = binding.conversation.account_key
    try:
        with home.held((LockKind.MIRROR, f"{channel}/{account}")):
            state = load_state(home.layout, binding)
            if not state.begun and place.cursor is not None:
                state = state._replace(inbound=place.cursor, begun=True)
            state = state._replace(outbox=(*place.rest, *state.outbox))
            mirrors.save_thread(home.layout, binding, state)
    except VyaneError:
        return


def first_state(
    run: Run,
    binding: Binding,
    outcome: ChannelOutcome,
    rest: tuple[PendingPart, ...],
    title: str,
    begun: bool,
) -> ThreadState:
    """What is known of a conversation that was just opened.

    One that was found although no run was killed while it made it has lost its state: what stands
    there is not said again, and what people wrote there is not taken in again.
    """
    state = load_state(run.home.layout, binding)
    state = state._replace(last=outcome.id, title=title, found=outcome.found)
    if not outcome.found or begun:
        rest = tuple(item._replace(tried=outcome.found) for item in rest)
        return state._replace(outbox=(*rest, *state.outbox), begun=True)
    cursor, _ = _end_of(run, binding.conversation)
    if cursor is None:
        return state._replace(last="", begun=False)
    return state._replace(last="", inbound=cursor, begun=True)
