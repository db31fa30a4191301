"""The boxes while a plan is made."""

from __future__ import annotations

from collections.abc import Iterable

from vyane_cli.delivery.plan import Change, Snapshot
from vyane_cli.mail.mailbox import Entry, Head, Mailbox, Op, advance
from vyane_cli.mail.message import Lane

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LANES = tuple(Lane)
"""The order in which messages are handed over."""


class Draft:
    """The boxes while a plan is made: each change is applied at once and kept for the store."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.clock = snapshot.clock
        self.head = snapshot.boxes[0].head if snapshot.boxes else Head()
        self.boxes = [{entry.message.id: entry for entry in box.entries} for box in snapshot.boxes]
        self.changes: list[Change] = []
        self.need_user: list[str] = []
        self.expired: list[Entry] = []

    def all(self) -> list[tuple[int, Entry]]:
        """Every entry with its box, in file order."""
        return [(number, entry) for number, box in enumerate(self.boxes) for entry in box.values()]

    def mailboxes(self) -> list[Mailbox]:
        """The boxes as they stand now."""
        heads = [self.head, *(Head() for _ in self.boxes[1:])]
        return [
            Mailbox(head, tuple(box.values())) for head, box in zip(heads, self.boxes, strict=True)
        ]

    def put(
        self, op: Op, entries: Iterable[tuple[int, Entry]], head: Head | None = None, **fields: Any
    ) -> None:
        """One change for these entries, a record for each box that it touches."""
        if head is not None:
            self.head = head
        touched: dict[int, list[str]] = {}
        for number, entry in entries:
            touched.setdefault(number, []).append(entry.message.id)
        if head is not None:
            touched.setdefault(0, [])  # the head is in the worker's own inbox alone
        record = {"at": self.clock.at, "boot_ms": self.clock.boot_ms, **fields}
        for number, ids in touched.items():
            box = self.boxes[number]
            for message_id in ids:
                box[message_id] = advance(box[message_id], op, record)
            box_head = self.head if number == 0 else Head()
            self.changes.append(Change(number, op, tuple(ids), record, box_head))


def in_order(draft: Draft) -> list[tuple[int, Entry]]:
    """What may be claimed: control, direct, normal, quiet, and within a lane by position."""
    waiting = [(number, entry) for number, entry in draft.all() if entry.waiting]
    return sorted(waiting, key=lambda item: LANES.index(item[1].message.lane))
