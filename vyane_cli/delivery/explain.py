"""The plan of a call as things stand, in words: nothing is changed and no lock is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vyane_cli.delivery.gating import Verdict
from vyane_cli.delivery.transaction import Desk
from vyane_cli.errors import CorruptStateError, NotFoundError
from vyane_cli.hosts.port import HookCall, Reply
from vyane_cli.kernel.values import OMIT, InJson
from vyane_cli.mail.mailbox import Op
from vyane_cli.projects.news import look_for_news
from vyane_cli.projects.supervise import MOMENTS, project_of
from vyane_cli.sessions import registry
from vyane_cli.storage import locks
from vyane_cli.timeline.events import EventKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime
    from vyane_cli.hosts.port import Host


def said_in(reply: Reply) -> dict[str, Any]:
    """The parts of a reply that say something."""
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
    """A message that would wait on, and by which rule."""

    id: str
    rule: str
    readings: Mapping[str, Any]
    again_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNotice:
    """What the main worker of a project would be told, or why it would not be."""

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
    """What a tick would change and print."""

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


def explain(runtime: Runtime, call: HookCall, host: Host) -> PlannedTick:
    """What a tick would change and print."""
    session = registry.load_session(runtime.layout, call.session) if call.session else None
    if session is None:
        raise NotFoundError("session", call.session or "(none in the payload)")
    plan = Desk(runtime, session, call, host, locks.Deadline(1)).dry_run()
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
        notice=_notice(runtime, session.worker, call),
    )


def _notice(runtime: Runtime, worker: str, call: HookCall) -> PlannedNotice | None:
    """What the main worker of the worker's project would be told; None when none is to be."""
    project = project_of(runtime, worker) if call.event in MOMENTS else None
    if project is None:
        return None
    main = registry.Registry(runtime.layout).workers.get(project.main)
    told = PlannedNotice(
        project=project.name, to=main.id if main is not None else None, readings={}
    )
    try:
        found = look_for_news(runtime, project, main, runtime.clock())
    except CorruptStateError as error:
        return replace(told, readings={"error": error.message})
    item, decision = found.item, found.decision
    if item is None or not found.is_due:
        return None
    return replace(
        told,
        kind=str(item.kind),
        task=item.task.id if item.task is not None else None,
        told=decision.verdict is Verdict.START,
        rule=decision.rule,
        readings=decision.readings,
        again_ms=decision.again_ms,
    )
