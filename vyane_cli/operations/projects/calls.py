"""Calls of rounds: for what is late, and the end of those that do not hold any more.

An entry that stays open is not called for again, so one that is over would keep the person from
hearing of the next, and the list from being true. A crash before leaves it to the next round.
"""

from vyane_cli.core.liveness import Liveness
from vyane_cli.core.messages import VYANE
from vyane_cli.core.projects import Project
from vyane_cli.core.queue import blocked
from vyane_cli.core.rounds import MATRIX, Cell, Verdict
from vyane_cli.core.tasks import Ledger, Task, TaskStatus
from vyane_cli.errors import VyaneError
from vyane_cli.operations.alone import alone_key
from vyane_cli.operations.liveness import look
from vyane_cli.operations.needs import call_person
from vyane_cli.operations.projects.need_user import list_needs
from vyane_cli.operations.projects.readings import Seen
from vyane_cli.store import needs, registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.runtime import Runtime

REASONS = {
    "gap": "goal-open",
    **{row.reason.replace("-", "_"): row.reason for row in MATRIX if row.cell is Cell.E},
}
"""What the key of a call begins with, and the reason of the rounds in which it holds."""


def blocked_key(project: str, task: Task) -> str:
    """The call for a task, once for each time that it became blocked."""
    return f"blocked:{project}:{task.id}:{task.changed_at:.3f}"


def late_key(project: str, task: Task) -> str:
    """The call for a task that is past its deadline, once for each deadline."""
    return f"late:{project}:{task.id}:{task.deadline_at:.0f}"


def late(ledger: Ledger, now: float) -> list[Task]:
    """The tasks that are past their deadline."""
    return [task for task in ledger.tasks if task.overdue(now)]


def call_for_late(runtime: "Runtime", project: Project, ledger: Ledger) -> list[str]:
    """Call the person for each task that is past its deadline, once; their ids.

    What becomes of it is theirs to say: nothing is started, stopped or blocked because of it.
    """
    tasks, workers = late(ledger, runtime.clock().at), registry.Registry(runtime.layout).workers
    for task in tasks:
        text = f"{task.id} ({task.title}) is past its deadline, and is {task.status}"
        who = workers[task.worker].name if task.worker in workers else ""
        ask = f"see what holds it up, or `vyane task edit {task.id} --project {project.name} "
        ask += "--deadline WHEN`"
        key = late_key(project.name, task)
        call_person(runtime, key, text, who=who, project=project.name, ask=ask)
    return [task.id for task in tasks]


def end_calls(
    runtime: "Runtime", project: Project, verdict: Verdict, seen: Seen, *, waiting: bool
) -> None:
    """Resolve what holds no more. `waiting`: there is work, and this round could start none of it.

    What somebody asks for waits for the person, and so does a start that failed, until its task is
    done: to resolve it says that they have looked.
    """
    try:
        over = [
            one["id"]
            for one in list_needs(runtime, project.name)
            if not _holds(runtime, project, str(one["key"]), verdict, seen, waiting)
        ]
        if over:
            needs.resolve(runtime.layout, over, VYANE, runtime.clock(), runtime.deadline())
    except VyaneError:
        return  # the next round does it


def _holds(
    runtime: "Runtime", project: Project, key: str, verdict: Verdict, seen: Seen, waiting: bool
) -> bool:
    ledger = seen.books.ledger if seen.books is not None else None
    match key.partition(":")[0]:
        case kind if kind in REASONS:
            return verdict.reason == REASONS[kind]
        case "waiting":
            return waiting
        case "round":
            return verdict.cell is not Cell.A  # one that starts a worker can do its work
        case "alone":
            return key == alone_key(runtime, project)
        case "blocked" if ledger is not None:
            return key in [blocked_key(project.name, task) for task in blocked(ledger)]
        case "start" if ledger is not None:  # of a task that is done nobody has to look at it
            task = ledger.get(key.removeprefix(f"start:{project.name}:").partition(":")[0])
            return task is not None and task.status is not TaskStatus.DONE
        case "late" if ledger is not None:
            now = runtime.clock().at
            return key in [late_key(project.name, task) for task in late(ledger, now)]
        case "main_exited" if seen.main is not None:
            same = key.endswith(f":{seen.main.id}")
            return same and look(runtime, seen.main).liveness is Liveness.EXITED
        case _:
            return True
