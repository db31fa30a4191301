"""Turns as a readable story: the fold of a timeline's events for people and for export."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from vyane_cli.kernel.values import InJson
from vyane_cli.timeline.events import EventKind

Fact = Mapping[str, Any]
"""The payload of an event, with `at`, its time in Unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """An event as programs get it: its stored record, and the cursor after it."""

    record: Mapping[str, Any] = field(metadata={InJson: InJson(spread=True)})
    """The stored record without the keys of the timeline's storage."""
    cursor: str

    @property
    def seq(self) -> int:
        """Return the event's number in the timeline."""
        return int(self.record["seq"])

    @property
    def kind(self) -> str:
        """Return the kind of the event: an `EventKind`."""
        return str(self.record["kind"])

    @property
    def session(self) -> str:
        """Return the id of the event's logical session."""
        return str(self.record["session"])

    @property
    def turn(self) -> str | None:
        """Return the id of the event's turn; None between turns."""
        return self.record.get("turn")

    @property
    def turn_number(self) -> int | None:
        """Return the number of the event's turn; None between turns."""
        return self.record.get("turn_number")

    @property
    def at(self) -> float:
        """Return the time of the event, in Unix seconds."""
        return float(self.record["at"])

    @property
    def payload(self) -> Mapping[str, Any]:
        """Return the event's payload: see `SCHEMAS` in `timeline.events`."""
        return self.record.get("payload") or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """The one mark between the events present at the start of a watch and the new ones."""

    kind: str = "caught_up"
    session: str
    epoch: str
    watermark: int
    """The seq of the last event that was shown."""
    lag: int
    """Number of events that were appended since."""
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCount:
    """The uses of one tool in a turn."""

    tool: str | None
    count: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnChapter:
    """A turn and its events. An open turn has no end yet."""

    type: str = "turn"
    turn: str
    number: int | None
    at: float
    ended_at: float | None
    trigger: str | None
    prompt_chars: int | None
    message_ids: tuple[str, ...]
    provider: str | None
    tools: tuple[ToolCount, ...]
    deliveries: tuple[Fact, ...]
    permissions: tuple[Fact, ...]
    diagnostics: tuple[Fact, ...]
    control: tuple[Fact, ...]
    """The other facts, each with its `kind`."""
    result: str | None
    result_chars: int | None
    usage: Mapping[str, Any] | None
    outcome: str | None
    code: str | None
    text: str | None
    duration_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteChapter:
    """A fact outside of turns: its event as stored."""

    type: str = "note"
    at: float
    event: Mapping[str, Any]


Chapter = TurnChapter | NoteChapter


def tell_turns(records: Iterable[Mapping[str, Any]]) -> Iterator[Chapter]:
    """Yield chapters in order: a turn when it ends (an open one last), and facts between turns."""
    turn: _OpenTurn | None = None
    for record in records:
        kind = record["kind"]
        if kind == EventKind.TURN_STARTED:
            turn = _OpenTurn(record)
        elif record.get("turn") is None or turn is None:
            yield NoteChapter(at=record["at"], event=record)
        elif kind == EventKind.TURN_FINISHED:
            yield turn.chapter(record)
            turn = None
        else:
            turn.add(kind, record)
    if turn is not None:
        yield turn.chapter({})


class _OpenTurn:
    """The state of a turn while its events are read."""

    def __init__(self, started: Mapping[str, Any]) -> None:
        self.started = started
        self.counts: dict[str | None, list[int]] = {}
        """Tool → [number of uses, number of failures]."""
        self.deliveries: list[Fact] = []
        self.permissions: list[Fact] = []
        self.diagnostics: list[Fact] = []
        self.control: list[Fact] = []
        self.result: Mapping[str, Any] = {}
        self.usage: Mapping[str, Any] | None = None

    def add(self, kind: str, record: Mapping[str, Any]) -> None:
        """Add an event of the turn."""
        payload = record.get("payload") or {}
        match kind:
            case EventKind.TOOL_OBSERVED:
                count = self.counts.setdefault(payload.get("tool"), [0, 0])
                count[0] += 1
                count[1] += payload.get("outcome") not in (None, "ok", "success")
            case EventKind.RESULT_OBSERVED:
                self.result = payload
            case EventKind.USAGE_OBSERVED:
                self.usage = payload
            case EventKind.DELIVERY_ATTEMPTED:
                self.deliveries.append({"at": record["at"], **payload})
            case EventKind.PERMISSION_OBSERVED:
                self.permissions.append({"at": record["at"], **payload})
            case EventKind.DIAGNOSTIC:
                self.diagnostics.append({"at": record["at"], **payload})
            case _:
                self.control.append({"at": record["at"], "kind": kind, **payload})

    def chapter(self, finished: Mapping[str, Any]) -> TurnChapter:
        """Return the chapter of the turn; `finished` is empty while the turn is open."""
        started, end = self.started, finished.get("payload") or {}
        payload = started.get("payload") or {}
        return TurnChapter(
            turn=started["turn"],
            number=started.get("turn_number"),
            at=started["at"],
            ended_at=finished.get("at"),
            trigger=payload.get("trigger"),
            prompt_chars=payload.get("prompt_chars"),
            message_ids=tuple(payload.get("message_ids") or ()),
            provider=(started.get("origin") or {}).get("provider"),
            tools=tuple(
                ToolCount(tool=tool, count=count, failed=failed)
                for tool, (count, failed) in self.counts.items()
            ),
            deliveries=tuple(self.deliveries),
            permissions=tuple(self.permissions),
            diagnostics=tuple(self.diagnostics),
            control=tuple(self.control),
            result=self.result.get("excerpt"),
            result_chars=self.result.get("chars"),
            usage=self.usage,
            outcome=end.get("outcome"),
            code=end.get("code"),
            text=end.get("text"),
            duration_ms=end.get("duration_ms"),
        )
