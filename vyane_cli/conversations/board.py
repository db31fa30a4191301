"""Board: what was sent to a channel itself, shown in a conversation that is no session's.

Commit points: the parts of a message go into the conversation's outbox together with its id; when
they have been shown it is settled in its inbox, and after that its id is forgotten. A crash in
between repeats nothing. Settling is the tick module's record: no session ticks for a channel.
"""

from __future__ import annotations

from typing import Any

from vyane_cli.channels.port import Conversation, Opening, Placement, Post, Verdict
from vyane_cli.channels.references import binding_id, normalise
from vyane_cli.conversations import binding, bindings
from vyane_cli.conversations.binding import Binding, TargetKind
from vyane_cli.conversations.mirroring import nonce_of
from vyane_cli.conversations.narration import show
from vyane_cli.conversations.run import Run
from vyane_cli.conversations.state_rules import Item
from vyane_cli.conversations.thread import Thread
from vyane_cli.mail import inbox
from vyane_cli.mail.mailbox import Entry, Op
from vyane_cli.mail.message import Lane, Message, body_of
from vyane_cli.mail.routing import CHANNEL
from vyane_cli.storage.layout import Layout
from vyane_cli.storage.locks import Kind

OPEN_BOARD = "open channel-{}"
"""What is asked for, as `refused` names it."""
SHOWN = "channel"
"""The rule by which `why` names it."""


def show_board(run: Run, *, again: bool) -> Thread | None:
    """Show what waits for the channel; None when nothing does, or no place could be had."""
    waiting = waiting_for(run.runtime.layout, run.name)
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


def _is_lost(thread: Thread) -> bool:
    return thread.state.fault is not None and thread.state.fault.verdict == Verdict.GONE


def record_of(layout: Layout, channel: str, account: str, conversation: str) -> Binding:
    """The place as a binding; that of the session to which a person gave it, if one did."""
    where = normalise(Conversation(channel, account, conversation))
    given = binding.of_conversation(bindings.load(layout), where)
    if given is not None and given.ended_at is None:
        return given
    key = CHANNEL + channel
    return Binding(
        binding_id(where), key, TargetKind.SESSION, where, placement=Placement.CHILD,
        generation=key,
    )  # fmt: skip


def waiting_for(layout: Layout, channel: str) -> list[Entry]:
    """What was sent to a channel and is not shown yet, oldest first."""
    found = inbox.read(layout.channel_inbox(channel)).mailbox.entries
    return [entry for entry in found if entry.waiting]


def _find(run: Run) -> Thread | None:
    if not run.state.board:
        return None
    binding = record_of(run.runtime.layout, run.name, run.account, run.state.board)
    thread = Thread(run, binding)
    if binding.generation == CHANNEL + run.name and thread.state.fault is not None:
        locked = thread.state.fault.verdict == Verdict.LOCKED
        thread.binding = binding._replace(locked=locked)  # no record says so
    return thread


def _open(run: Run) -> Thread | None:
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
    if outcome.verdict is not Verdict.DONE or outcome.conversation is None:
        return None
    run.keep(run.state._replace(board=outcome.conversation.id))
    return _find(run)


def _parts(run: Run, message: Message) -> list[Item]:
    text = run.texts.fill(
        "board-message", name=show(message.from_name), text=show(body_of(message))
    ).rstrip()
    parts = run.channel.plan(Post(text, notify=message.lane is not Lane.QUIET))
    return [
        Item(nonce_of(CHANNEL, run.name, run.account, message.id, str(number)), part)
        for number, part in enumerate(parts)
    ]


def _settle(run: Run, thread: Thread) -> None:
    """What has been shown is delivered, and with that consumed: the channel has it."""
    runtime, told = run.runtime, dict(thread.state.told)
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
    clock, path = runtime.clock(), runtime.layout.channel_inbox(run.name)
    fields: dict[str, Any] = {"at": clock.at, "boot_ms": clock.boot_ms, "transport": "mirror"}
    with runtime.held((Kind.INBOX, CHANNEL + run.name)):
        opened = inbox.Inbox(path, runtime.layout.root)
        try:
            ids = [i for i in shown if i in opened.entries and not opened.entries[i].settled]
            if ids:
                head, ruled = opened.head, {**fields, "rule": SHOWN}
                delivered = inbox.Step(Op.DELIVERED, ids, ruled, head)
                opened.change_all([delivered, inbox.Step(Op.CONSUMED, ids, fields, head)])
        finally:
            opened.close()
    for ident in shown:
        del told[ident]
    thread.keep(thread.state._replace(told=told))
