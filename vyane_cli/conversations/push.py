"""Push: events of timelines, shown as posts in the sessions' conversations.

It is a durable consumer of each timeline. Commit point: cursor and outbox in one document; this run
or another shows later what is in the outbox. A crash repeats nothing and loses nothing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from vyane_cli.channels.port import (
    ChannelOutcome,
    ChannelVerdict,
    Conversation,
    Opening,
    Placement,
    Post,
    binding_id,
    normalise,
)
from vyane_cli.conversations import binding, bindings
from vyane_cli.conversations import state as mirrors
from vyane_cli.conversations.bind import keep, sweep
from vyane_cli.conversations.binding import Binding, BindingStatus, TargetKind
from vyane_cli.conversations.bindings import touch
from vyane_cli.conversations.family import (
    Family,
    find_wanted,
    mirrored_bindings,
    read_family,
    take_back,
)
from vyane_cli.conversations.narration import MARKS, show
from vyane_cli.conversations.open import first_state, open_session, status_of, title_of
from vyane_cli.conversations.posts import Story
from vyane_cli.conversations.run import Problem, Run, SessionProblem, UnopenedChannel, each_channel
from vyane_cli.conversations.state_rules import MirrorFault, PendingPart, nonce_of
from vyane_cli.conversations.thread import ConversationThread
from vyane_cli.errors import ConflictError, VyaneError
from vyane_cli.mail import inbox
from vyane_cli.mail.mailbox import MailEntry, Op
from vyane_cli.mail.message import Lane, Message, body_of
from vyane_cli.mail.routing import CHANNEL
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage.layout import Layout
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class PushReport:
    """The result of a push on one channel."""

    channel: str
    sent: int
    edited: int
    waiting: int
    opened: int
    state: str
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class _Shown:
    """The counts and problems of a run so far."""

    sent: int = 0
    edited: int = 0
    waiting: int = 0
    opened: int = 0
    problems: list[Problem] = field(default_factory=list)


def push(
    home: Home, *, channel: str = "", again: bool = False
) -> tuple[PushReport | UnopenedChannel, ...]:
    """Bring every conversation up to date; return a report for each channel.

    Raises NotFoundError for a channel that is not set up. An answer of a channel never raises: it
    is part of the report.
    """
    sweep(home, home.clock())
    return each_channel(home, channel, lambda name: _push_channel(home, name, again))


def _push_channel(home: Home, name: str, again: bool) -> PushReport:
    so_far = _Shown()
    with Run(home, name) as run:
        if again:
            run.again()
        family = read_family(home)
        if again:
            take_back(run, family)
        _forget_refusals(run, family)
        if run.blocked is None:
            so_far.opened = _open_missing(run, family, so_far.problems)
        for binding in mirrored_bindings(home, name, run.account):
            if not (binding.status is BindingStatus.ENDING or binding.is_open(home.clock().at)):
                continue  # it expired since the sweep: the next run posts its farewell
            _bring_up_to_date(run, family, binding, so_far, again)
        _bring_board_up_to_date(run, so_far, again)
        state, problems = run.sum_up(so_far.problems)
    return PushReport(
        channel=name,
        sent=so_far.sent,
        edited=so_far.edited,
        waiting=so_far.waiting,
        opened=so_far.opened,
        state=state,
        problems=problems,
    )


# ------------------------------------------------------------------ missing conversations


def _open_missing(run: Run, family: Family, problems: list[Problem]) -> int:
    """Open the conversations that sessions should have but do not. Return how many were opened."""
    home, opened = run.home, 0
    for session, worker in family.sessions:
        if run.over or run.blocked is not None:
            break
        wanted = find_wanted(run, family, session, worker)
        if wanted is None:
            continue
        if (fault := run.refused(f"open {session.id}")) is not None:
            problems.append(_not_opened(session.id, fault))
            continue
        begun = session.id in run.state.opening  # by a run that was killed while making it
        run.keep(run.state._replace(opening=(*run.state.opening, session.id)))
        outcome, rest = open_session(run, session, worker, before=wanted.before)
        run.note(f"open {session.id}", outcome)
        where = outcome.conversation
        if outcome.verdict is not ChannelVerdict.DONE or where is None:
            if run.blocked is None:  # else the problem is the channel's
                problems.append(_not_opened(session.id, outcome))
            continue
        parent = family.workers.get(worker.parent_worker_id or "")
        fresh = _record(home, run, session.id, where, parent)
        title = title_of(home, session, worker, parent, MARKS[status_of(home, worker)])
        if not binding.is_of_another(family.bindings.get(fresh.id), fresh):
            # before the binding, so that every message written from now on is read
            state = first_state(run, fresh, outcome, rest, title, begun)
            mirrors.save_thread(home.layout, fresh, state)
        with suppress(ConflictError):  # a person gave the place to another session
            keep(home, fresh, worker, free=True)
            opened += 1
        left = tuple(key for key in run.state.opening if key != session.id)
        run.keep(run.state._replace(opening=left))
    return opened


def _not_opened(session: str, why: ChannelOutcome | MirrorFault) -> SessionProblem:
    return SessionProblem(session=session, code=why.reason, detail=why.detail, fix=why.fix)


def _failed(session: str, error: VyaneError) -> SessionProblem:
    return SessionProblem(session=session, code=error.slug, detail=error.message, fix=error.hint)


def _forget_refusals(run: Run, family: Family) -> None:
    """Forget refusals of sessions that now have a conversation, and of bindings that are gone."""
    bound = [
        one
        for one in family.bindings.values()
        if one.conversation.account_key == (run.name, run.account)
    ]
    here = {one.target_session for one in bound if one.status is not BindingStatus.ENDED}
    living = {*(family.logical.keys() - here), *(one.generation for one in bound)}
    run.note_only({*living, OPEN_BOARD.format(run.name).split()[-1]})


def _record(
    home: Home, run: Run, session: str, where: Conversation, parent: Worker | None
) -> Binding:
    """Return a new binding made by the mirror: it lasts as long as its session."""
    where = normalise(where)
    at = home.clock().at
    return Binding(
        binding_id(where),
        session,
        TargetKind.SUBAGENT if parent is not None else TargetKind.SESSION,
        where,
        placement=Placement.CHILD,
        bound_at=at,
        last_activity_at=at,
        generation=home.entropy(8).hex(),
        open_since=at,
    )


# ------------------------------------------------------------------ one conversation


def _bring_up_to_date(
    run: Run, family: Family, binding: Binding, so_far: _Shown, again: bool
) -> None:
    try:
        thread = ConversationThread(run, binding)
        if again:
            thread.again()
        story = Story(thread, family)
        more = True
        while more:
            more = story.fill()
            if not thread.drain():
                break
        else:
            story.finish()
    except VyaneError as error:
        so_far.problems.append(_failed(binding.target_session, error))
        return
    if thread.sent + thread.edited:
        touch(run.home, binding.id)
    _count(thread, so_far)


def _bring_board_up_to_date(run: Run, so_far: _Shown, again: bool) -> None:
    if run.blocked is not None or run.over:
        return
    try:
        thread = show_board(run, again=again)
    except VyaneError as error:
        so_far.problems.append(_failed(CHANNEL + run.name, error))
        return
    if thread is not None:
        _count(thread, so_far)
    elif (fault := run.refused(OPEN_BOARD.format(run.name))) is not None:
        so_far.problems.append(_not_opened(CHANNEL + run.name, fault))


def _count(thread: ConversationThread, so_far: _Shown) -> None:
    """Add the counts and the problem of one conversation."""
    so_far.sent += thread.sent
    so_far.edited += thread.edited
    so_far.waiting += len(thread.state.outbox)
    fault = thread.state.fault
    if fault is not None or thread.problem:
        detail = fault.detail if fault is not None else thread.problem
        so_far.problems.append(
            SessionProblem(
                session=thread.binding.target_session,
                code=fault.reason if fault is not None else "noted",
                detail=detail or thread.problem,
                fix=fault.fix if fault is not None else "",
                conversation=thread.binding.conversation.id,
            )
        )


OPEN_BOARD = "open channel-{}"
"""The request to open the channel's own conversation, as a key of `ChannelState.refused`."""
SHOWN = "channel"
"""The rule that is recorded for messages shown in a channel, for `vyane why`."""


def show_board(run: Run, *, again: bool) -> ConversationThread | None:
    """Show the messages sent to the channel in its own conversation.

    Returns None if the channel has no conversation and no message waits, or if none could be made.
    """
    waiting = waiting_for(run.home.layout, run.name)
    thread = _find(run)
    if thread is not None and _is_lost(thread) and (again or run.settings.recreate):
        thread = None
    anew = thread is None and bool(waiting)
    if anew:
        thread = _open(run)
    if thread is None:
        return None
    if anew or again:
        thread.again()
    state = thread.state
    fresh = [one.message for one in waiting if one.message.id not in state.told]
    parts = {message.id: _parts(run, message) for message in fresh}
    items = [item for found in parts.values() for item in found]
    told = {**state.told, **{ident: len(found) for ident, found in parts.items()}}
    thread.keep(state._replace(outbox=thread.put(items), told=told))
    thread.drain()
    _settle(run, thread)
    return thread


def _is_lost(thread: ConversationThread) -> bool:
    return thread.state.fault is not None and thread.state.fault.verdict == ChannelVerdict.GONE


def record_of(layout: Layout, channel: str, account: str, conversation: str) -> Binding:
    """Return the binding by which a conversation is the channel's own.

    If a person gave the conversation to a session, returns that session's binding instead.
    """
    where = normalise(Conversation(channel, account, conversation))
    given = binding.of_conversation(bindings.load(layout), where)
    if given is not None and given.ended_at is None:
        return given
    key = CHANNEL + channel
    return Binding(
        binding_id(where), key, TargetKind.SESSION, where, placement=Placement.CHILD,
        generation=key,
    )  # fmt: skip


def waiting_for(layout: Layout, channel: str) -> list[MailEntry]:
    """Return the messages sent to a channel that have yet to be shown, oldest first."""
    found = inbox.read(layout.channel_inbox(channel)).mailbox.entries
    return [entry for entry in found if entry.waiting]


def _find(run: Run) -> ConversationThread | None:
    if not run.state.board:
        return None
    binding = record_of(run.home.layout, run.name, run.account, run.state.board)
    thread = ConversationThread(run, binding)
    if binding.generation == CHANNEL + run.name and thread.state.fault is not None:
        locked = thread.state.fault.verdict == ChannelVerdict.LOCKED
        thread.binding = binding._replace(locked=locked)  # this binding is not stored
    return thread


def _open(run: Run) -> ConversationThread | None:
    what = OPEN_BOARD.format(run.name)
    key = what.split()[-1]
    if run.refused(what) is not None:
        return None
    texts = run.texts
    first = run.channel.plan(Post(texts.fill("board", channel=run.name).rstrip()))[0]
    nonce = nonce_of("open", run.name, run.account, key, run.state.board)
    opening = Opening(key, texts.fill("board-title").strip(), first, nonce)
    outcome = run.learn(run.channel.open(opening))
    run.keep_memory()
    run.note(what, outcome)
    if outcome.verdict is not ChannelVerdict.DONE or outcome.conversation is None:
        return None
    run.keep(run.state._replace(board=outcome.conversation.id))
    return _find(run)


def _parts(run: Run, message: Message) -> list[PendingPart]:
    text = run.texts.fill(
        "board-message", name=show(message.from_name), text=show(body_of(message))
    ).rstrip()
    parts = run.channel.plan(Post(text, notify=message.lane is not Lane.QUIET))
    return [
        PendingPart(nonce_of(CHANNEL, run.name, run.account, message.id, str(number)), part)
        for number, part in enumerate(parts)
    ]


def _settle(run: Run, thread: ConversationThread) -> None:
    """Record the messages whose parts were all shown as delivered, and so as consumed."""
    home, told = run.home, dict(thread.state.told)
    left = {item.nonce for item in thread.state.outbox}
    shown = [
        ident
        for ident, count in told.items()
        if not any(
            nonce_of(CHANNEL, run.name, run.account, ident, str(number)) in left
            for number in range(count)
        )
    ]
    if not shown:
        return
    clock, path = home.clock(), home.layout.channel_inbox(run.name)
    fields: dict[str, Any] = {"at": clock.at, "boot_ms": clock.boot_ms, "transport": "mirror"}
    with home.held((LockKind.INBOX, CHANNEL + run.name)):
        opened = inbox.Inbox(path, home.layout.root)
        try:
            ids = [i for i in shown if i in opened.entries and not opened.entries[i].settled]
            if ids:
                head, ruled = opened.head, {**fields, "rule": SHOWN}
                delivered = inbox.InboxStep(Op.DELIVERED, ids, ruled, head)
                opened.change_all([delivered, inbox.InboxStep(Op.CONSUMED, ids, fields, head)])
        finally:
            opened.close()
    for ident in shown:
        del told[ident]
    thread.keep(thread.state._replace(told=told))
