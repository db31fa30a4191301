"""The plan of a call for the current state, in words: without any change and without a lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vyane_cli.delivery.transaction import Desk
from vyane_cli.errors import InvalidInputError, NotFoundError, RefusedError
from vyane_cli.hosts.port import HookCall, HostEvent, Reply
from vyane_cli.kernel.values import OMIT, InJson
from vyane_cli.mail.mailbox import Op
from vyane_cli.sessions import registry
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.speaker import FromKind
from vyane_cli.sessions.worker import find_worker
from vyane_cli.storage import locks
from vyane_cli.timeline.events import EventKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home
    from vyane_cli.hosts.port import Host


def said_in(reply: Reply) -> dict[str, Any]:
    """Return the parts of a reply that are not empty."""
    return {key: value for key, value in reply._asdict().items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEvent:
    """An event that would be added to the timeline."""

    seq: int
    kind: EventKind
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """A record that would be added to the inbox, about these messages."""

    op: Op
    ids: tuple[str, ...]
    rule: str | None = field(default=None, metadata=OMIT)
    reason: str | None = field(default=None, metadata=OMIT)
    readings: Mapping[str, Any] | None = field(default=None, metadata=OMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMessage:
    """A message that would stay pending, and the rule that holds it."""

    id: str
    rule: str
    readings: Mapping[str, Any]
    again_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNotice:
    """The notice that the main worker of a project would get, or the rule that refuses it."""

    project: str
    to: str | None
    kind: str | None = None
    task: str | None = None
    told: bool = False
    rule: str = "unreadable"
    readings: Mapping[str, Any]
    again_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTick:
    """Everything that a tick would change and print."""

    event: str
    session: str
    worker: str
    reply: Reply = field(metadata={InJson: InJson(form=said_in)})
    timeline: tuple[PlannedEvent, ...]
    mail: tuple[PlannedChange, ...]
    held: tuple[HeldMessage, ...]
    wake_self: bool
    sleeps: bool
    need_user: tuple[str, ...]
    notice: PlannedNotice | None


PlanNotice = Callable[["Home", str, HookCall], PlannedNotice | None]
"""Function that plans the notice for the main worker of a worker's project; None: none is due."""


def explain(home: Home, call: HookCall, host: Host, plan_notice: PlanNotice) -> PlannedTick:
    """Return what a tick would change and print; `projects/supervise` plans the notice."""
    session = registry.load_session(home.layout, call.session) if call.session else None
    if session is None:
        raise NotFoundError("session", call.session or "(none in the payload)")
    plan = Desk(home, session, call, host, locks.Deadline(1)).dry_run()
    return PlannedTick(
        event=call.name,
        session=session.id,
        worker=session.worker,
        reply=plan.reply,
        timeline=tuple(
            PlannedEvent(seq=event.seq, kind=event.kind, payload=event.payload)
            for event in plan.transition.events
        ),
        mail=tuple(
            PlannedChange(
                op=change.op,
                ids=tuple(change.ids),
                rule=change.fields.get("rule"),
                reason=change.fields.get("reason"),
                readings=change.fields.get("readings"),
            )
            for change in plan.changes
        ),
        held=tuple(
            HeldMessage(
                id=entry.message.id,
                rule=decision.rule,
                readings=decision.readings,
                again_ms=decision.again_ms,
            )
            for entry, decision in plan.held
        ),
        wake_self=plan.wake_self,
        sleeps=plan.sleeps,
        need_user=tuple(plan.need_user),
        notice=plan_notice(home, session.worker, call),
    )


def call_for_worker(home: Home, who: str, *, looking: bool = False) -> HookCall:
    """Return the call by which a worker asks for its mail.

    If `who` is empty, the worker is the caller's own, which must run in a session. RefusedError for
    a session whose host has hooks, unless `looking`.
    """
    workers = registry.Registry(home.layout)
    if not who:
        speaker = whoami(home)
        if speaker.kind is not FromKind.WORKER:
            raise InvalidInputError("worker", who, "given", missing=True, hint="--worker NAME")
        who = speaker.id
    worker = find_worker(who, workers.listing())
    session_id = registry.read_current(home.layout, worker.id) or worker.session_id or ""
    session = registry.load_session(home.layout, session_id) if session_id else None
    if session is None:
        raise NotFoundError("session of worker", worker.name)
    if session.host != "generic" and not looking:
        raise RefusedError(
            f"{worker.name} is a session of {session.host}: its own hooks read its mail",
            slug="hooked",
            hint="`vyane inbox` shows it, `tick --dry-run` what its next call would do",
        )
    return HookCall(session.host, HostEvent.CALL, "call", session.id, cwd=session.cwd)
