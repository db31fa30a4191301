"""One conversation of a run: its outbox is shown, part by part, each once and in order.

Commit points: the part is marked `tried` before it is sent, and leaves the outbox after it was
answered. A crash in between leaves a part that is looked for before it is sent again.
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
"""So often a part is sent in one run while its fate stays unknown."""


class ConversationThread:
    """A binding's conversation within a run."""

    def __init__(self, run: Run, binding: Binding) -> None:
        self.run, self.binding = run, binding
        self.state = load_state(run.home.layout, binding)
        self.sent = self.edited = 0
        self.problem = ""

    def keep(self, state: ThreadState) -> None:
        """Keep the state, durably, if it is another one."""
        if state != self.state:
            mirrors.save_thread(self.run.home.layout, self.binding, state)
            self.state = state

    @property
    def blocked(self) -> bool:
        """Whether nothing is asked of this conversation now."""
        fault = self.state.fault
        if self.binding.locked:
            return True
        if fault is None or fault.verdict == ChannelVerdict.LOCKED:  # it was opened again
            return False
        return (
            fault.verdict != ChannelVerdict.LATER or fault.retry_ms > self.run.home.clock().now_ms
        )

    def again(self) -> None:
        """Forget why it was left alone."""
        self.keep(self.state._replace(fault=None))
        if self.binding.locked:
            set_locked(self.run.home, self.binding, False)
            self.binding = self.binding._replace(locked=False)

    # ------------------------------------------------------------------ the outbox

    def put(self, items: list[PendingPart]) -> tuple[PendingPart, ...]:
        """The outbox with these behind it. Of a slot only the newest text waits."""
        outbox = list(self.state.outbox)
        for item in items:
            same = [i for i, one in enumerate(outbox) if item.slot and one.slot == item.slot]
            if same and not outbox[same[0]].tried:
                outbox[same[0]] = outbox[same[0]]._replace(part=item.part)
            elif not same or outbox[same[0]].part != item.part:
                outbox.append(item)
        return tuple(outbox)

    def drain(self) -> bool:
        """Show what waits; True when nothing is left that could be shown now."""
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
                position += 1  # progress waits; what was said after it does not
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
        """Set title and end as they shall be; True when they are."""
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
            self.keep(state._replace(title_at_ms=outcome.retry_ms))  # a title holds up nothing
            return False
        if outcome.verdict is not ChannelVerdict.UNKNOWN:  # to set it once more is harmless
            self.follow(outcome)
        return False

    # ------------------------------------------------------------------ what an answer leads to

    def follow(self, outcome: ChannelOutcome) -> None:
        """What the table says of an answer that is not DONE."""
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
                pass  # STOP and a wait everywhere are the channel's; LOOK is for the next run


def prune(slots: dict[str, Slot]) -> dict[str, Slot]:
    """The overview, and of the tools the newest."""
    tools = [name for name in slots if name.startswith("tools-")]
    return {name: slot for name, slot in slots.items() if name not in tools[:-1]}


def single(part: Part) -> Part:
    """A part that is changed in place makes no sound."""
    return part._replace(notify=False, mention=())


FAREWELL = "farewell"
"""What `ended` says of a conversation whose binding ended before its session."""


def load_state(layout: Layout, binding: Binding) -> ThreadState:
    """What is known of a conversation; of a new one what its session's last place had left."""
    fresh = ThreadState(
        binding.id,
        binding.target_session,
        binding.generation,
        binding.open_since,
        begun=False,  # what was written there before is not for this session
    )
    known = mirrors.load_thread(layout, binding)
    if known is not None and known.session == binding.target_session:
        if known.generation == binding.generation:
            return known
        return known._replace(  # bound again: it goes on
            generation=binding.generation,
            open_since=binding.open_since,
            begun=known.begun and known.open_since == binding.open_since,
            ended="" if known.ended == FAREWELL else known.ended,
            fault=None,
        )
    if known is not None:  # the conversation spoke to another session before
        fresh = fresh._replace(last=known.last, title=known.title, closed=known.closed)
        fresh = fresh._replace(inbound=known.inbound, seen=known.seen)
    return inherit(layout, binding, fresh)


def inherit(layout: Layout, binding: Binding, fresh: ThreadState) -> ThreadState:
    """Go on where the session's earlier conversation of this channel ended."""
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
    """End it without last words, for nobody could read them. None: it had ended before."""
    ended = end_one(run.home, binding, EndReason.GONE, status=BindingStatus.ENDED)
    if ended is not None and not run.settings.recreate:  # else another is made at once
        with suppress(VyaneError):
            _tell(run, ended)
    return ended


def _tell(run: Run, binding: Binding) -> None:
    """A quiet message: it starts no turn."""
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
    """The parent, where it is there; else the session itself."""
    return next((one for one in (parent, worker) if one is not None and not one.final), None)


class Pen:
    """One conversation's, for what belongs into the outbox together."""

    def __init__(self, thread: ConversationThread) -> None:
        self.thread, self.run = thread, thread.run
        self.items: list[PendingPart] = []
        self.shown: list[str] = []
        """Digests of whole answers among them."""

    def take(self) -> tuple[list[PendingPart], list[str]]:
        """What was gathered so far, with the digests; it begins anew."""
        taken = self.items, self.shown
        self.items, self.shown = [], []
        return taken

    def keep(self) -> None:
        """Put what was gathered into the outbox, durably."""
        items, _ = self.take()
        self.thread.keep(self.thread.state._replace(outbox=self.thread.put(items)))

    def put_slot(self, name: str, nonce: str, text: str) -> None:
        """A post that is changed in place, if its text is another one."""
        slot = self.thread.state.slots.get(name)
        for part in self.run.channel.plan(Post(text))[:1]:
            if slot is None or slot.text != part.text:
                # each change is an item of its own: one that was sent keeps its nonce
                used = {one.nonce for one in self.thread.state.outbox}
                unique = nonce if nonce not in used else nonce_of(nonce, part.text)
                self.items.append(PendingPart(unique, single(part), name))

    def say(self, said: Said, epoch: str, seq: object, position: int) -> None:
        """A post of its own; epoch, sequence number and position tell it from any other."""
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
