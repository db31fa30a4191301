"""Mirror out: what happened in sessions becomes posts in their conversations.

A durable consumer of each timeline. Commit point: cursor and outbox in one document; what is in the
outbox is shown later, by this run or by another. A crash repeats nothing and loses nothing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from vyane_cli.channels.port import Conversation, Outcome, Placement, Verdict
from vyane_cli.channels.references import binding_id, normalise
from vyane_cli.conversations import binding
from vyane_cli.conversations import state as mirrors
from vyane_cli.conversations.bind import keep
from vyane_cli.conversations.binding import Binding, BindingStatus, TargetKind
from vyane_cli.conversations.bindings_2 import touch
from vyane_cli.conversations.bindings_sweep import sweep
from vyane_cli.conversations.board import OPEN_BOARD, show_board
from vyane_cli.conversations.family import Family, find_wanted, mirrored_bindings, read_family
from vyane_cli.conversations.narration import MARKS
from vyane_cli.conversations.open import first_state, open_session, status_of, title_of
from vyane_cli.conversations.posts import Story
from vyane_cli.conversations.returning import take_back
from vyane_cli.conversations.run import Problem, Run, SessionProblem, UnopenedChannel, each_channel
from vyane_cli.conversations.state_rules import Fault
from vyane_cli.conversations.thread import Thread
from vyane_cli.errors import ConflictError, VyaneError
from vyane_cli.mail.routing import CHANNEL
from vyane_cli.sessions.worker import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class PushReport:
    """What a push showed in one channel."""

    channel: str
    sent: int
    edited: int
    waiting: int
    opened: int
    state: str
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class _Shown:
    """What a run has shown so far."""

    sent: int = 0
    edited: int = 0
    waiting: int = 0
    opened: int = 0
    problems: list[Problem] = field(default_factory=list)


def push(
    runtime: Runtime, *, channel: str = "", again: bool = False
) -> tuple[PushReport | UnopenedChannel, ...]:
    """Bring every conversation up to date; return what each channel has come to.

    NotFoundError for a channel that is not set up. What a channel answers is a result, no error.
    """
    sweep(runtime, runtime.clock())
    return each_channel(runtime, channel, lambda name: _push_channel(runtime, name, again))


def _push_channel(runtime: Runtime, name: str, again: bool) -> PushReport:
    so_far = _Shown()
    with Run(runtime, name) as run:
        if again:
            run.again()
        family = read_family(runtime)
        if again:
            take_back(run, family)
        _forget_refusals(run, family)
        if run.blocked is None:
            so_far.opened = _open_missing(run, family, so_far.problems)
        for binding in mirrored_bindings(runtime, name, run.account):
            if not (binding.status is BindingStatus.ENDING or binding.is_open(runtime.clock().at)):
                continue  # its end came since: the next run says so there
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


# ------------------------------------------------------------------ conversations that are missing


def _open_missing(run: Run, family: Family, problems: list[Problem]) -> int:
    """Make the conversations that sessions shall have and have not; how many were made."""
    runtime, opened = run.runtime, 0
    for session, worker in family.sessions:
        if run.over or run.blocked is not None:
            break
        wanted = find_wanted(run, family, session, worker)
        if wanted is None:
            continue
        if (fault := run.refused(f"open {session.id}")) is not None:
            problems.append(_not_opened(session.id, fault))
            continue
        begun = session.id in run.state.opening  # by a run that was killed in the middle of it
        run.keep(run.state._replace(opening=(*run.state.opening, session.id)))
        outcome, rest = open_session(run, session, worker, before=wanted.before)
        run.note(f"open {session.id}", outcome)
        where = outcome.conversation
        if outcome.verdict is not Verdict.DONE or where is None:
            if run.blocked is None:  # else it is the channel's problem
                problems.append(_not_opened(session.id, outcome))
            continue
        parent = family.workers.get(worker.parent_worker_id or "")
        fresh = _record(runtime, run, session.id, where, parent)
        title = title_of(runtime, session, worker, parent, MARKS[status_of(runtime, worker)])
        if not binding.is_of_another(family.bindings.get(fresh.id), fresh):
            # before the binding: what is written from now on is read from here
            state = first_state(run, fresh, outcome, rest, title, begun)
            mirrors.save_thread(runtime.layout, fresh, state)
        with suppress(ConflictError):  # a person gave it to another session: it is that one's
            keep(runtime, fresh, worker, free=True)
            opened += 1
        left = tuple(key for key in run.state.opening if key != session.id)
        run.keep(run.state._replace(opening=left))
    return opened


def _not_opened(session: str, why: Outcome | Fault) -> SessionProblem:
    return SessionProblem(session=session, code=why.reason, detail=why.detail, fix=why.fix)


def _failed(session: str, error: VyaneError) -> SessionProblem:
    return SessionProblem(session=session, code=error.slug, detail=error.message, fix=error.hint)


def _forget_refusals(run: Run, family: Family) -> None:
    """Of sessions that have a conversation by now, and of bindings that are no more."""
    bound = [
        one
        for one in family.bindings.values()
        if one.conversation.account_key == (run.name, run.account)
    ]
    here = {one.target_session for one in bound if one.status is not BindingStatus.ENDED}
    living = {*(family.logical.keys() - here), *(one.generation for one in bound)}
    run.note_only({*living, OPEN_BOARD.format(run.name).split()[-1]})


def _record(
    runtime: Runtime, run: Run, session: str, where: Conversation, parent: Worker | None
) -> Binding:
    """A binding that the mirror makes: it lasts as long as its session."""
    where = normalise(where)
    at = runtime.clock().at
    return Binding(
        binding_id(where),
        session,
        TargetKind.SUBAGENT if parent is not None else TargetKind.SESSION,
        where,
        placement=Placement.CHILD,
        bound_at=at,
        last_activity_at=at,
        generation=runtime.entropy(8).hex(),
        open_since=at,
    )


# ------------------------------------------------------------------ one conversation


def _bring_up_to_date(
    run: Run, family: Family, binding: Binding, so_far: _Shown, again: bool
) -> None:
    try:
        thread = Thread(run, binding)
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
        touch(run.runtime, binding.id)
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


def _count(thread: Thread, so_far: _Shown) -> None:
    """Add what came of one conversation."""
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
