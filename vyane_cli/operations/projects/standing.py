"""Standing: how each project stands, and what its next round would do. Changes nothing."""

from typing import Any

from vyane_cli.core.attention import NEEDS, NeedKind
from vyane_cli.core.projects import Project
from vyane_cli.core.queue import in_order
from vyane_cli.core.rounds import Cell
from vyane_cli.core.schedules import Status
from vyane_cli.core.tasks import TaskStatus
from vyane_cli.errors import CorruptStateError
from vyane_cli.operations.alone import way_to_a_round
from vyane_cli.operations.projects.schedule import describe
from vyane_cli.operations.projects.wake import Round, last_round, wake
from vyane_cli.store import projects, schedules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.runtime import Runtime

SHOWN = (TaskStatus.RUNNING, TaskStatus.BLOCKED)


def list_standings(runtime: "Runtime") -> list[dict[str, Any]]:
    """Every project; what cannot be read of one stands in its `readings`."""
    return [standing(runtime, project) for project in projects.listing(runtime.layout)]


def standing(runtime: "Runtime", project: Project) -> dict[str, Any]:
    """One project."""
    plans, paused, problem = _schedules(runtime, project)
    environ = runtime.environ
    try:
        made = wake(runtime, project, "", dry_run=True)
    finally:
        runtime.environ = environ
    seen = made.seen
    tasks = seen.books.ledger.tasks if seen.books is not None and seen.books.ledger else ()
    left = [name for one in seen.judgement.evidence for name in one.items] if seen.judgement else []
    verdict = made.verdict
    return {
        "project": project.name,
        "dir": project.dir,
        "main": seen.main.name if seen.main is not None else None,
        "goal": str(seen.inputs.goal),
        "title": seen.books.goal.title if seen.books is not None and seen.books.goal else "",
        "left": left,
        "tasks": {str(s): sum(1 for task in tasks if task.status is s) for s in TaskStatus},
        "shown": [
            {
                "id": task.id,
                "title": task.title,
                "status": str(task.status),
                "worker": task.worker,
                "reason": task.reason,
            }
            for task in sorted(tasks, key=in_order)
            if task.status in SHOWN
        ],
        "schedules": plans,
        "problem": problem or (made.error.message if made.error is not None else ""),
        "alert": _alert(runtime, project, made),
        "next": {
            "at": min((one["next_at"] for one in plans if one["next_at"]), default=None),
            "paused": paused,
            "cell": str(verdict.cell),
            "reason": verdict.reason,
            "action": str(verdict.action),
            "would": made.would or None,
            "readings": seen.rendered(),
        },
        "last": last_round(runtime, project.name),
    }


def _alert(runtime: "Runtime", project: Project, made: Round) -> str:
    """That nobody works, that something is left to do, and that no round comes for it soon."""
    if made.verdict.cell not in (Cell.A, Cell.B):
        return ""
    try:
        way = way_to_a_round(runtime, project, schedules.load(runtime.layout, project.name))
    except CorruptStateError:
        return ""  # which is said by itself
    return f"{NEEDS[NeedKind.ALONE].text}: `{way}`" if way else ""


def _schedules(runtime: "Runtime", project: Project) -> tuple[list[dict[str, Any]], bool, str]:
    try:
        found = describe(runtime, project)
    except CorruptStateError as error:
        return [], False, error.message
    return found, all(one["status"] == Status.PAUSED for one in found), ""
