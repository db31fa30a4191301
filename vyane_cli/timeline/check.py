"""Timeline checks: the kinds of damage, and a checker for lines read in order."""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.timeline.events import VERSION, EventKind
from vyane_cli.timeline.turns import TimelineHead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class TimelineDamage(StrEnum):
    """The kinds of damage in a line that is whole and has the right checksum."""

    UNKNOWN_VERSION = "unknown_version"
    UNKNOWN_KIND = "unknown_kind"
    ENVELOPE_MISMATCH = "envelope_mismatch"
    SEQ_GAP = "seq_gap"
    INVALID_LIFECYCLE = "invalid_lifecycle"


class TimelineFault(NamedTuple):
    """The damage of one line, with the reason as text."""

    damage: TimelineDamage
    reason: str


KINDS = frozenset(map(str, EventKind))


class Checker:
    """Checks the lines of a timeline in order, from the first one or from the one after a head."""

    __slots__ = ("epoch", "finished", "opened", "seq", "session", "turns")

    def __init__(self, session: str, head: TimelineHead | None = None) -> None:
        self.session = session
        self.epoch = head.epoch if head is not None else ""
        self.seq = head.seq if head is not None else 0
        self.turns = head.turns if head is not None else 0
        self.opened = head.open.id if head is not None and head.open is not None else ""
        self.finished = ""

    def check(self, record: Mapping[str, Any]) -> TimelineFault | None:
        """Check the next line. Return its fault; or None, and advance, if the line is sound."""
        if record.get("v") != VERSION:
            return TimelineFault(TimelineDamage.UNKNOWN_VERSION, f"version {record.get('v')!r}")
        if record.get("kind") not in KINDS:
            return TimelineFault(
                TimelineDamage.UNKNOWN_KIND, f"unknown kind {record.get('kind')!r}"
            )
        fault = self._envelope(record) or self._lifecycle(record)
        if fault is None:
            self.seq += 1
            self.epoch = str(record["epoch"])
        return fault

    def _envelope(self, record: Mapping[str, Any]) -> TimelineFault | None:
        session, epoch, seq = record.get("session"), record.get("epoch"), record.get("seq")
        if session != self.session:
            reason = f"session {session!r} in the timeline of {self.session}"
            return TimelineFault(TimelineDamage.ENVELOPE_MISMATCH, reason)
        if not isinstance(epoch, str) or not epoch or (self.epoch and epoch != self.epoch):
            return TimelineFault(
                TimelineDamage.ENVELOPE_MISMATCH, f"epoch {epoch!r} in epoch {self.epoch!r}"
            )
        if not isinstance(record.get("payload"), Mapping):
            return TimelineFault(TimelineDamage.ENVELOPE_MISMATCH, "no payload")
        if seq != self.seq + 1 or isinstance(seq, bool):
            return TimelineFault(
                TimelineDamage.SEQ_GAP, f"seq {seq!r} where {self.seq + 1} belongs"
            )
        return None

    def _lifecycle(self, record: Mapping[str, Any]) -> TimelineFault | None:
        kind, turn, number = record["kind"], record.get("turn"), record.get("turn_number")
        if kind == EventKind.TURN_STARTED:
            if self.opened:
                return _wrong(f"turn {turn} starts while {self.opened} is open")
            if not isinstance(turn, str) or not turn or number != self.turns + 1:
                return _wrong(f"turn {turn!r} is number {number!r}, not {self.turns + 1}")
            self.opened, self.turns = turn, self.turns + 1
        elif kind == EventKind.TURN_FINISHED:
            if not self.opened:
                return _wrong(f"turn {turn} finishes, and none is open")
            if turn != self.opened:
                return _wrong(f"turn {turn} finishes while {self.opened} is open")
            self.opened, self.finished = "", str(turn)
        elif turn is not None and turn != self.opened:
            state = "has finished" if turn == self.finished else "is not open"
            return _wrong(f"{kind} of turn {turn}, which {state}")
        return self._head(record)

    def _head(self, record: Mapping[str, Any]) -> TimelineFault | None:
        """Check that the line's head agrees with the events so far. Return the fault, if any."""
        head = record.get("head")
        if not isinstance(head, Mapping) or head.get("seq") != record["seq"]:
            return _wrong("its head is not its own")
        opened = head.get("open")
        said = str(opened.get("id") or "") if isinstance(opened, Mapping) else ""
        if said != self.opened or head.get("turns") != self.turns:
            return _wrong(
                f"its head says turn {said or 'none'}, the events say {self.opened or 'none'}"
            )
        return None


def _wrong(reason: str) -> TimelineFault:
    return TimelineFault(TimelineDamage.INVALID_LIFECYCLE, reason)
