"""The plan of a call as things stand, in words: nothing is changed and no lock is taken."""

from typing import Any

from vyane_cli.core.calls import HookCall
from vyane_cli.core.gating import Verdict
from vyane_cli.errors import CorruptStateError, NotFoundError
from vyane_cli.operations.desk import Desk
from vyane_cli.operations.news import look_for_news
from vyane_cli.operations.supervise import MOMENTS, project_of
from vyane_cli.store import locks, registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.core.calls import Host
    from vyane_cli.runtime import Runtime


def explain(runtime: "Runtime", call: HookCall, host: "Host") -> dict[str, Any]:
    """What a tick would change and print."""
    session = registry.load_session(runtime.layout, call.session) if call.session else None
    if session is None:
        raise NotFoundError("session", call.session or "(none in the payload)")
    plan = Desk(runtime, session, call, host, locks.Deadline(1)).dry_run()
    return {
        "event": call.name,
        "session": session.id,
        "worker": session.worker,
        "reply": {key: value for key, value in plan.reply._asdict().items() if value},
        "timeline": [
            {"seq": event.seq, "kind": str(event.kind), "payload": dict(event.payload)}
            for event in plan.transition.events
        ],
        "mail": [
            {
                "op": str(change.op),
                "ids": list(change.ids),
                **{k: v for k, v in change.fields.items() if k in ("rule", "reason", "readings")},
            }
            for change in plan.changes
        ],
        "held": [
            {
                "id": entry.message.id,
                "rule": decision.rule,
                "readings": dict(decision.readings),
                "again_ms": decision.again_ms,
            }
            for entry, decision in plan.held
        ],
        "wake_self": plan.wake_self,
        "sleeps": plan.sleeps,
        "need_user": list(plan.need_user),
        "notice": _notice(runtime, session.worker, call),
    }


def _notice(runtime: "Runtime", worker: str, call: HookCall) -> dict[str, Any] | None:
    """What the main worker of the worker's project would be told; None when none is to be."""
    project = project_of(runtime, worker) if call.event in MOMENTS else None
    if project is None:
        return None
    main = registry.Registry(runtime.layout).workers.get(project.main)
    told: dict[str, Any] = {
        "project": project.name,
        "to": main.id if main is not None else None,
        "kind": None,
        "task": None,
        "told": False,
        "rule": "unreadable",
        "readings": {},
        "again_ms": None,
    }
    try:
        found = look_for_news(runtime, project, main, runtime.clock())
    except CorruptStateError as error:
        return {**told, "readings": {"error": error.message}}
    item, decision = found.item, found.decision
    if item is None or not found.is_due:
        return None
    return {
        **told,
        "kind": str(item.kind),
        "task": item.task.id if item.task is not None else None,
        "told": decision.verdict is Verdict.START,
        "rule": decision.rule,
        "readings": dict(decision.readings),
        "again_ms": decision.again_ms,
    }
