"""What is to be said in one conversation, gathered as items of its outbox, each with its nonce."""

from __future__ import annotations

from vyane_cli.channels.port import Post
from vyane_cli.conversations.mirroring import nonce_of
from vyane_cli.conversations.narration import Said
from vyane_cli.conversations.state_rules import Item
from vyane_cli.conversations.thread import Thread, single


class Pen:
    """One conversation's, for what belongs into the outbox together."""

    def __init__(self, thread: Thread) -> None:
        self.thread, self.run = thread, thread.run
        self.items: list[Item] = []
        self.shown: list[str] = []
        """Digests of whole answers among them."""

    def take(self) -> tuple[list[Item], list[str]]:
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
                self.items.append(Item(unique, single(part), name))

    def say(self, said: Said, epoch: str, seq: object, position: int) -> None:
        """A post of its own; epoch, sequence number and position tell it from any other."""
        mention = self.run.settings.ping_users if said.notify else ()
        parts = self.run.channel.plan(Post(said.text, said.notify, mention))
        for number, part in enumerate(parts):
            nonce = nonce_of(
                self.thread.binding.id, self.thread.binding.target_session, epoch, str(seq),
                str(position), str(number),
            )  # fmt: skip
            self.items.append(Item(nonce, part))
        if said.digest:
            self.shown.append(said.digest[:16])
