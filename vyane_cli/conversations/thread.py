"""One conversation of a run, whose outbox is shown part by part, each once and in order.

Commit points: a part is marked `tried` before it is sent, and leaves the outbox after the channel
has answered. A crash in between leaves a part that is looked for before it is sent again.
"""

from __future__ import annotations

from contextlib import suppress

from vyane_cli.channels.port import ChannelOutcome, ChannelVerdict, Part, Post
from vyane_cli.conversations import bindings
from vyane_cli.conversations import state as mirrors
from vyane_cli.conversations.binding import Binding, BindingStatus, EndReason, on_channel
from vyane_cli.conversations.bindings import end_one, set_locked
from vyane_cli.conversations.narration import Said
from vyane_cli.conversations.run import Run
from vyane_cli.conversations.state_rules import (
    NEXT,
    MirrorStep,
    PendingPart,
    Slot,
    ThreadState,
    fault_of,
    nonce_of,
)
from vyane_cli.errors import VyaneError
from vyane_cli.mail.message import VYANE, MessageKind
from vyane_cli.mail.send import MessageDraft, send
from vyane_cli.sessions import registry
from vyane_cli.sessions.speaker import FromKind, Speaker
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage.layout import Layout

LOOKS = 2
"""Most times that a part is sent in one run while its fate is unknown."""


class ConversationThread:
    """A binding's conversation within a run."""

    def __init__(self, run: Run, binding: Binding) -> None:
        self.run, self.binding = run, binding
        self.state = load_state(run.home.layout, binding)
        self.sent = self.edited = 0
        self.problem = ""

    def keep(self, state: ThreadState) -> None:
        """Save the state, durably, if it has changed."""
        if state != self.state:
            mirrors.save_thread(self.run.home.layout, self.binding, state)
            self.state = state

    @property
    def blocked(self) -> bool:
        """Return whether no request may be made for this conversation now."""
        fault = self.state.fault
        if self.binding.locked:
            return True
        if fault is None or fault.verdict == ChannelVerdict.LOCKED:  # reopened since then
            return False
        return (
            fault.verdict != ChannelVerdict.LATER or fault.retry_ms > self.run.home.clock().now_ms
        )

    def again(self) -> None:
        """Forget why the conversation was left alone."""
        self.keep(self.state._replace(fault=None))
        if self.binding.locked:
            set_locked(self.run.home, self.binding, False)
            self.binding = self.binding._replace(locked=False)

    # ------------------------------------------------------------------ the outbox

    def put(self, items: list[PendingPart]) -> tuple[PendingPart, ...]:
        """Return the outbox with these parts at its end. Only the newest text of a slot waits."""
        outbox = list(self.state.outbox)
        for item in items:
            same = [i for i, one in enumerate(outbox) if item.slot and one.slot == item.slot]
            if same and not outbox[same[0]].tried:
                outbox[same[0]] = outbox[same[0]]._replace(part=item.part)
            elif not same or outbox[same[0]].part != item.part:
                outbox.append(item)
        return tuple(outbox)

    def drain(self) -> bool:
        """Show the parts that wait; return True if none is left in the outbox."""
        position = 0
        while position < len(self.state.outbox):
            if self.run.over or self.run.blocked or self.blocked:
                return False
            item = self.state.outbox[position]
            slot = self.state.slots.get(item.slot) if item.slot else None
            outcome = self._change(item, slot) if slot else self._show(item)
            self.run.keep_memory()
            if outcome.verdict is ChannelVerdict.DONE:
                self._shown(item, outcome, slot)
            elif outcome.verdict is ChannelVerdict.ABSENT and item.slot:
                slots = {name: s for name, s in self.state.slots.items() if name != item.slot}
                self.keep(self.state._replace(slots=slots))
            elif item.slot and NEXT[outcome.verdict] is MirrorStep.WAIT and not outcome.everywhere:
                self.problem = outcome.detail
                position += 1  # this part waits; the parts behind it do not
            else:
                self.follow(outcome)
                return False
        return position == 0

    def _show(self, item: PendingPart) -> ChannelOutcome:
        """Send a part, or find it where it was sent before."""
        channel, where = self.run.channel, self.binding.conversation
        look = item.tried
        if not item.tried:
            self._replace(item, item._replace(tried=True))
        outcome = ChannelOutcome(ChannelVerdict.UNKNOWN)
        for _ in range(LOOKS):
            if look:
                found = channel.find_post(where, item.part, item.nonce, self.state.last)
                if found.verdict is not ChannelVerdict.DONE or found.id:
                    return self.run.learn(found)
            outcome = self.run.learn(channel.post(where, item.part, item.nonce))
            if outcome.verdict is not ChannelVerdict.UNKNOWN:
                return outcome
            look = True
        found = channel.find_post(where, item.part, item.nonce, self.state.last)
        return (
            self.run.learn(found)
            if found.id or found.verdict is not ChannelVerdict.DONE
            else outcome
        )

    def _change(self, item: PendingPart, slot: Slot) -> ChannelOutcome:
        if slot.text == item.part.text:
            return ChannelOutcome(ChannelVerdict.DONE, id=slot.message)
        where = self.binding.conversation
        outcome = self.run.learn(self.run.channel.edit(where, slot.message, item.part))
        self.edited += outcome.verdict is ChannelVerdict.DONE
        return outcome

    def _shown(self, item: PendingPart, outcome: ChannelOutcome, slot: Slot | None) -> None:
        outbox = tuple(one for one in self.state.outbox if one.nonce != item.nonce)
        state = self.state._replace(outbox=outbox, fault=None)
        if slot is None:
            self.sent += 1
            state = state._replace(last=outcome.id or state.last, closed=False)
        if item.slot:
            message = slot.message if slot is not None else outcome.id
            slots = {**state.slots, item.slot: Slot(message, item.part.text)}
            state = state._replace(slots=prune(slots))
        if outcome.quiet:
            self.problem = outcome.detail
        self.keep(state)

    def _replace(self, old: PendingPart, new: PendingPart) -> None:
        outbox = tuple(new if one.nonce == old.nonce else one for one in self.state.outbox)
        self.keep(self.state._replace(outbox=outbox))

    # ------------------------------------------------------------------ title and end

    def mark(self, title: str, closed: bool) -> bool:
        """Set the title and close or reopen the conversation; return True if both are as wanted."""
        able, state = self.run.channel.capabilities, self.state
        now_ms = self.run.home.clock().now_ms
        rename = able.title and title != state.title
        close = able.close and closed != state.closed
        if rename and state.title_at_ms > now_ms and not closed:
            rename = False
        if not (rename or close):
            return True
        outcome = self.run.learn(
            self.run.channel.mark(
                self.binding.conversation,
                title=title if rename else None,
                closed=closed if close else None,
            )
        )
        self.run.keep_memory()
        if outcome.verdict is ChannelVerdict.DONE:
            if rename:
                after_ms = now_ms + able.title_every_s * 1000
                state = state._replace(title=title, title_at_ms=after_ms)
            self.keep(state._replace(closed=closed if close else state.closed))
            return True
        if outcome.verdict is ChannelVerdict.LATER and not outcome.everywhere:
            self.keep(state._replace(title_at_ms=outcome.retry_ms))  # a title blocks nothing else
            return False
        if outcome.verdict is not ChannelVerdict.UNKNOWN:  # setting it once more is harmless
            self.follow(outcome)
        return False

    # ------------------------------------------------------------------ outcomes

    def follow(self, outcome: ChannelOutcome) -> None:
        """Apply the step that `NEXT` gives for an outcome other than DONE."""
        home = self.run.home
        self.problem = outcome.detail or outcome.reason
        match NEXT[outcome.verdict]:
            case MirrorStep.WAIT if not outcome.everywhere:
                self.keep(self.state._replace(fault=fault_of(outcome, home.clock().at)))
            case MirrorStep.HOLD | MirrorStep.RENEW:
                self.keep(self.state._replace(fault=fault_of(outcome, home.clock().at)))
            case MirrorStep.LOCK:
                self.keep(self.state._replace(fault=fault_of(outcome, home.clock().at)))
                set_locked(home, self.binding, True)
                self.binding = self.binding._replace(locked=True)
            case MirrorStep.LOSE:
                self.keep(self.state._replace(fault=fault_of(outcome, home.clock().at)))
                lose(self.run, self.binding)
            case _:
                pass  # STOP and a wait everywhere belong to the channel; LOOK is for the next run


def prune(slots: dict[str, Slot]) -> dict[str, Slot]:
    """Return the slots without those of tools, except the newest of them."""
    tools = [name for name in slots if name.startswith("tools-")]
    return {name: slot for name, slot in slots.items() if name not in tools[:-1]}


def single(part: Part) -> Part:
    """Return a part without notification or mention, because edits in place make no sound."""
    return part._replace(notify=False, mention=())


FAREWELL = "farewell"
"""The value of `ended` in a conversation whose binding ended before its session."""


def load_state(layout: Layout, binding: Binding) -> ThreadState:
    """Load the state of a conversation, or inherit it from the session's previous conversation."""
    fresh = ThreadState(
        binding.id,
        binding.target_session,
        binding.generation,
        binding.open_since,
        begun=False,  # messages written there before are not for this session
    )
    known = mirrors.load_thread(layout, binding)
    if known is not None and known.session == binding.target_session:
        if known.generation == binding.generation:
            return known
        return known._replace(  # bound again: the state goes on
            generation=binding.generation,
            open_since=binding.open_since,
            begun=known.begun and known.open_since == binding.open_since,
            ended="" if known.ended == FAREWELL else known.ended,
            fault=None,
        )
    if known is not None:  # the conversation belonged to another session before
        fresh = fresh._replace(last=known.last, title=known.title, closed=known.closed)
        fresh = fresh._replace(inbound=known.inbound, seen=known.seen)
    return inherit(layout, binding, fresh)


def inherit(layout: Layout, binding: Binding, fresh: ThreadState) -> ThreadState:
    """Return the state, going on where the session's earlier conversation on this account ended."""
    earlier = [
        one
        for one in on_channel(
            bindings.load(layout).values(),
            binding.target_session,
            *binding.conversation.account_key,
        )
        if one.id != binding.id and one.status is BindingStatus.ENDED
    ]
    for one in sorted(earlier, key=lambda b: b.ended_at or 0.0, reverse=True):
        before = mirrors.load_thread(layout, one)
        if before is not None and before.started and before.session == binding.target_session:
            return fresh._replace(
                cursor=before.cursor,
                started=True,
                outbox=tuple(i._replace(tried=False) for i in before.outbox if not i.slot),
                heard=before.heard,
                final_children=before.final_children,
                shown_results=before.shown_results,
            )
    return fresh


SPEAKER = Speaker(FromKind.EXTERNAL, VYANE, VYANE)


def lose(run: Run, binding: Binding) -> Binding | None:
    """End a binding without last words, because nobody could read them.

    Returns None if it had ended before.
    """
    ended = end_one(run.home, binding, EndReason.GONE, status=BindingStatus.ENDED)
    if ended is not None and not run.settings.recreate:  # else a new conversation is made at once
        with suppress(VyaneError):
            _tell(run, ended)
    return ended


def _tell(run: Run, binding: Binding) -> None:
    """Send the session's parent, or the session, a quiet message, which starts no turn."""
    layout = run.home.layout
    workers = registry.Registry(layout).workers
    session = registry.load_logical_session(layout, binding.target_session)
    worker = workers.get(session.worker) if session is not None else None
    lead = _lead_of(worker, workers.get((worker and worker.parent_worker_id) or ""))
    if worker is None or lead is None:
        return
    text = run.texts.fill(
        "gone", name=worker.name, channel=run.name, place=binding.conversation.id
    ).rstrip()
    key = f"gone:{binding.generation}"
    send(run.home, MessageDraft(lead.id, text, MessageKind.INFO, idempotency_key=key), SPEAKER)


def _lead_of(worker: Worker | None, parent: Worker | None) -> Worker | None:
    """Return the first of parent and worker that exists and is not final, if any."""
    return next((one for one in (parent, worker) if one is not None and not one.final), None)


class Pen:
    """A collector of parts that go into one conversation's outbox together."""

    def __init__(self, thread: ConversationThread) -> None:
        self.thread, self.run = thread, thread.run
        self.items: list[PendingPart] = []
        self.shown: list[str] = []
        """Digests of the whole answers among the parts."""

    def take(self) -> tuple[list[PendingPart], list[str]]:
        """Return the parts gathered so far, with the digests, and start over."""
        taken = self.items, self.shown
        self.items, self.shown = [], []
        return taken

    def keep(self) -> None:
        """Put the gathered parts into the outbox, durably."""
        items, _ = self.take()
        self.thread.keep(self.thread.state._replace(outbox=self.thread.put(items)))

    def put_slot(self, name: str, nonce: str, text: str) -> None:
        """Add a post that is edited in place, if its text has changed."""
        slot = self.thread.state.slots.get(name)
        for part in self.run.channel.plan(Post(text))[:1]:
            if slot is None or slot.text != part.text:
                # each change is a part of its own: one that was sent keeps its nonce
                used = {one.nonce for one in self.thread.state.outbox}
                unique = nonce if nonce not in used else nonce_of(nonce, part.text)
                self.items.append(PendingPart(unique, single(part), name))

    def say(self, said: Said, epoch: str, seq: object, position: int) -> None:
        """Add a post of its own, identified by epoch, sequence number and position."""
        mention = self.run.settings.ping_users if said.notify else ()
        parts = self.run.channel.plan(Post(said.text, said.notify, mention))
        for number, part in enumerate(parts):
            nonce = nonce_of(
                self.thread.binding.id, self.thread.binding.target_session, epoch, str(seq),
                str(position), str(number),
            )  # fmt: skip
            self.items.append(PendingPart(nonce, part))
        if said.digest:
            self.shown.append(said.digest[:16])
