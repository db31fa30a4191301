"""One conversation of a run: its outbox is shown, part by part, each once and in order.

Commit points: the part is marked `tried` before it is sent, and leaves the outbox after it was
answered. A crash in between leaves a part that is looked for before it is sent again.
"""

from __future__ import annotations

from vyane_cli.channels.port import Outcome, Part, Verdict
from vyane_cli.conversations import state as mirrors
from vyane_cli.conversations.binding import Binding
from vyane_cli.conversations.bindings_2 import set_locked
from vyane_cli.conversations.known import load_state
from vyane_cli.conversations.losing import lose
from vyane_cli.conversations.mirroring import NEXT, Step
from vyane_cli.conversations.run import Run
from vyane_cli.conversations.state_rules import Item, Slot, ThreadState, fault_of

LOOKS = 2
"""So often a part is sent in one run while its fate stays unknown."""


class Thread:
    """A binding's conversation within a run."""

    def __init__(self, run: Run, binding: Binding) -> None:
        self.run, self.binding = run, binding
        self.state = load_state(run.runtime.layout, binding)
        self.sent = self.edited = 0
        self.problem = ""

    def keep(self, state: ThreadState) -> None:
        """Keep the state, durably, if it is another one."""
        if state != self.state:
            mirrors.save_thread(self.run.runtime.layout, self.binding, state)
            self.state = state

    @property
    def blocked(self) -> bool:
        """Whether nothing is asked of this conversation now."""
        fault = self.state.fault
        if self.binding.locked:
            return True
        if fault is None or fault.verdict == Verdict.LOCKED:  # it was opened again
            return False
        return fault.verdict != Verdict.LATER or fault.retry_ms > self.run.runtime.clock().now_ms

    def again(self) -> None:
        """Forget why it was left alone."""
        self.keep(self.state._replace(fault=None))
        if self.binding.locked:
            set_locked(self.run.runtime, self.binding, False)
            self.binding = self.binding._replace(locked=False)

    # ------------------------------------------------------------------ the outbox

    def put(self, items: list[Item]) -> tuple[Item, ...]:
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
            if outcome.verdict is Verdict.DONE:
                self._shown(item, outcome, slot)
            elif outcome.verdict is Verdict.ABSENT and item.slot:
                slots = {name: s for name, s in self.state.slots.items() if name != item.slot}
                self.keep(self.state._replace(slots=slots))
            elif item.slot and NEXT[outcome.verdict] is Step.WAIT and not outcome.everywhere:
                self.problem = outcome.detail
                position += 1  # progress waits; what was said after it does not
            else:
                self.follow(outcome)
                return False
        return position == 0

    def _show(self, item: Item) -> Outcome:
        """Send a part, or find it where it was sent before."""
        channel, where = self.run.channel, self.binding.conversation
        look = item.tried
        if not item.tried:
            self._replace(item, item._replace(tried=True))
        outcome = Outcome(Verdict.UNKNOWN)
        for _ in range(LOOKS):
            if look:
                found = channel.find_post(where, item.part, item.nonce, self.state.last)
                if found.verdict is not Verdict.DONE or found.id:
                    return self.run.learn(found)
            outcome = self.run.learn(channel.post(where, item.part, item.nonce))
            if outcome.verdict is not Verdict.UNKNOWN:
                return outcome
            look = True
        found = channel.find_post(where, item.part, item.nonce, self.state.last)
        return self.run.learn(found) if found.id or found.verdict is not Verdict.DONE else outcome

    def _change(self, item: Item, slot: Slot) -> Outcome:
        if slot.text == item.part.text:
            return Outcome(Verdict.DONE, id=slot.message)
        where = self.binding.conversation
        outcome = self.run.learn(self.run.channel.edit(where, slot.message, item.part))
        self.edited += outcome.verdict is Verdict.DONE
        return outcome

    def _shown(self, item: Item, outcome: Outcome, slot: Slot | None) -> None:
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

    def _replace(self, old: Item, new: Item) -> None:
        outbox = tuple(new if one.nonce == old.nonce else one for one in self.state.outbox)
        self.keep(self.state._replace(outbox=outbox))

    # ------------------------------------------------------------------ title and end

    def mark(self, title: str, closed: bool) -> bool:
        """Set title and end as they shall be; True when they are."""
        able, state = self.run.channel.capabilities, self.state
        now_ms = self.run.runtime.clock().now_ms
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
        if outcome.verdict is Verdict.DONE:
            if rename:
                after_ms = now_ms + able.title_every_s * 1000
                state = state._replace(title=title, title_at_ms=after_ms)
            self.keep(state._replace(closed=closed if close else state.closed))
            return True
        if outcome.verdict is Verdict.LATER and not outcome.everywhere:
            self.keep(state._replace(title_at_ms=outcome.retry_ms))  # a title holds up nothing
            return False
        if outcome.verdict is not Verdict.UNKNOWN:  # to set it once more is harmless
            self.follow(outcome)
        return False

    # ------------------------------------------------------------------ what an answer leads to

    def follow(self, outcome: Outcome) -> None:
        """What the table says of an answer that is not DONE."""
        runtime = self.run.runtime
        self.problem = outcome.detail or outcome.reason
        match NEXT[outcome.verdict]:
            case Step.WAIT if not outcome.everywhere:
                self.keep(self.state._replace(fault=fault_of(outcome, runtime.clock().at)))
            case Step.HOLD | Step.RENEW:
                self.keep(self.state._replace(fault=fault_of(outcome, runtime.clock().at)))
            case Step.LOCK:
                self.keep(self.state._replace(fault=fault_of(outcome, runtime.clock().at)))
                set_locked(runtime, self.binding, True)
                self.binding = self.binding._replace(locked=True)
            case Step.LOSE:
                self.keep(self.state._replace(fault=fault_of(outcome, runtime.clock().at)))
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
