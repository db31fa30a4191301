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
    """Return the status of a worker as people see it; RELEASED for one that is not on record."""
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
    """Return the title of a session: its name, or for a child `[parent]: what it was asked`."""
    name = worker.name if worker is not None else session.display_name
    if parent is not None:
        asked = one_line(asked_of(home, worker)) or name
        return thread_name(f"[{parent.name}]: {asked}", mark=mark)
    return thread_name(show(name), mark=mark)


def asked_of(home: Home, worker: Worker | None) -> str:
    """Return a child's task in one line; empty if its message is missing."""
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
    """Ask the channel for the session's conversation.

    Returns the outcome, and the parts of the intro that did not fit into the first post. `before`
    is the id of the deleted conversation that this one continues.
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
    """Return the first post: the session, its folder, and that people may write here."""
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
    """Return a line for each end that the binding has, by idle time and by age."""
    said = (("intro-idle", windows.idle_s), ("intro-age", windows.max_age_s))
    lines = [run.texts.fill(name, time=duration_label(s)) for name, s in said if s]
    return "".join(f"\n{line}" for line in lines)


MAKES_ONE = "give the id of a conversation that is there; without one a new one is made"


class ConversationToBind(NamedTuple):
    """A conversation that is to be bound."""

    conversation: Conversation
    cursor: str | None
    """Cursor after the newest message; None if the channel could not be asked, so that the first
    pull sets it."""
    made: bool = False
    """True if the conversation was just made."""
    rest: tuple[PendingPart, ...] = ()
    """Parts that did not fit into its first post, or that must be shown first."""


def make_conversation(
    home: Home,
    wanted: Conversation,
    session: LogicalSession,
    worker: Worker | None,
    placement: Placement,
    windows: Windows,
) -> ConversationToBind:
    """Make a new conversation for `bind`. Raises RefusedError if the channel makes none."""
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
    """Check an existing conversation for `bind`. Raises RefusedError if the channel rejects it.

    `taken` is the binding of the other session that has the conversation so far; people there are
    notified of the change.
    """
    where = fresh.conversation
    rest: tuple[PendingPart, ...] = ()
    try:
        with Run(home, where.channel, where.account) as run:
            if run.blocked is not None:
                return ConversationToBind(where, None)
            cursor, outcome = _end_of(run, where)
            rest = _moved(run, fresh, taken) if taken is not None else ()
    except VyaneError:  # no credentials here, or another run has the channel
        return ConversationToBind(where, None)
    if outcome.verdict in (ChannelVerdict.GONE, ChannelVerdict.REFUSED):
        raise RefusedError(
            f"{where.id!r} cannot be bound: {outcome.detail or outcome.reason}",
            slug="create_failed",
            hint=MAKES_ONE if outcome.verdict is ChannelVerdict.GONE else outcome.fix,
        )
    return ConversationToBind(where, cursor, rest=rest)


def _moved(run: Run, fresh: Binding, taken: Binding) -> tuple[PendingPart, ...]:
    """Return the parts that name the conversation's new session and its former one."""
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
    """Return the cursor after the newest message, or None, and the channel's answer."""
    outcome = run.learn(run.channel.seek_end(where))
    done = outcome.verdict is ChannelVerdict.DONE and outcome.page is not None
    return outcome.page.cursor if done and outcome.page is not None else None, outcome


def begin(home: Home, binding: Binding, place: ConversationToBind) -> None:
    """Start reading after what was there before the session was bound.

    For a conversation that was just made, call this before the binding is stored, so that no
    message there is skipped; else after it. If this fails with a VyaneError, the first pull does
    it.
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
    """Return the state of a conversation that was just opened.

    A conversation that was found, although no run was killed while making it, has lost its state:
    old posts there are not shown again, and old messages of people are not taken in again.
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
