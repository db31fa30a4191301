"""Status of the mirror, from its own files. Asks no channel and changes nothing.

A channel that cannot be opened here, for example for want of a token, is reported as an error of
its own: a run in another environment may work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vyane_cli.conversations import bindings
from vyane_cli.conversations import state as mirrors
from vyane_cli.conversations.binding import Binding, BindingStatus, has_moved
from vyane_cli.conversations.channels import configured, open_channel
from vyane_cli.conversations.push import record_of, waiting_for
from vyane_cli.conversations.run import (
    ChannelProblem,
    ConversationProblem,
    Problem,
    SessionProblem,
    problem_of,
    problem_of_fault,
)
from vyane_cli.conversations.state_rules import ThreadState
from vyane_cli.errors import VyaneError
from vyane_cli.mail.routing import CHANNEL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRow:
    """The progress of one conversation, and what blocks it."""

    conversation: str
    binding_id: str
    session: str
    state: str
    waiting: int
    intake: int
    detail: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """The status of a channel, as `mirror status` prints it."""

    channel: str
    state: str
    fallbacks: Mapping[str, int]
    strangers: Mapping[str, int]
    threads: tuple[ConversationRow, ...]
    problems: tuple[Problem, ...]


def describe_mirror(home: Home) -> tuple[MirrorStatus, ...]:
    """Return the status of each channel that is set up, with its conversations."""
    return tuple(_channel(home, name) for name in configured(home))


def _channel(home: Home, name: str) -> MirrorStatus:
    state = mirrors.load_channel(home.layout, name, "default")
    problems: list[Problem] = []
    if state.fault is not None:
        problems.append(problem_of_fault(state.fault))
    shown = state.fault.verdict if state.fault is not None else "ok"
    try:
        open_channel(home, name, "default", {})
    except VyaneError as error:
        shown = "error"
        problems.append(problem_of(error))
    if state.problem:
        problems.append(ChannelProblem(code="noted", detail=state.problem, fix=""))
    threads = []
    left = dict(state.refused)
    known = bindings.load(home.layout)
    for binding in known.values():
        if binding.conversation.account_key != (name, "default"):
            continue
        try:
            thread = mirrors.load_thread(home.layout, binding)
        except VyaneError as error:
            problems.append(problem_of(error))
            continue
        for key in [key for key in left if key.endswith(f" {binding.generation}")]:
            fault = left.pop(key)
            problems.append(
                ConversationProblem(
                    session=binding.target_session,
                    conversation=binding.conversation.id,
                    code=fault.reason,
                    detail=fault.detail,
                    fix=fault.fix,
                )
            )
        if binding.status is BindingStatus.ENDED and (
            thread is None or thread.fault is None or has_moved(known.values(), binding)
        ):
            continue
        threads.append(_row(binding, thread))
    threads += board_rows(home, name, state.board)
    problems += [
        SessionProblem(session=key[5:], code=fault.reason, detail=fault.detail, fix=fault.fix)
        for key, fault in left.items()
        if key.startswith("open ")
    ]
    return MirrorStatus(
        channel=name,
        state=shown,
        fallbacks=state.fallbacks,
        strangers=state.strangers,
        threads=tuple(threads),
        problems=tuple(problems),
    )


def _row(binding: Binding, thread: ThreadState | None) -> ConversationRow:
    fault = thread.fault if thread is not None else None
    shown = "locked" if binding.locked else str(binding.status)
    if fault is not None and not binding.locked:
        shown = fault.reason or fault.verdict
    return ConversationRow(
        conversation=binding.conversation.id,
        binding_id=binding.id,
        session=binding.target_session,
        state=shown,
        waiting=len(thread.outbox) if thread is not None else 0,
        intake=len(thread.intake) if thread is not None else 0,
        detail=fault.detail if fault is not None else "",
        fix=fault.fix if fault is not None else "",
    )


def board_rows(home: Home, name: str, place: str) -> list[ConversationRow]:
    """Return a row for the channel's own conversation if it exists or messages wait for it."""
    waiting = len(waiting_for(home.layout, name))
    if not (place or waiting):
        return []
    binding = record_of(home.layout, name, "default", place)
    thread = mirrors.load_thread(home.layout, binding) if place else None
    key = CHANNEL + name
    return [replace(_row(binding, thread), session=key, binding_id="", waiting=waiting)]
