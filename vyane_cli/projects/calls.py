"""Calls of rounds: for each task that is past its deadline."""

from __future__ import annotations

from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of
from vyane_cli.projects.project import Project
from vyane_cli.projects.task import Ledger
from vyane_cli.sessions import registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Runtime


def call_for_late(runtime: Runtime, project: Project, ledger: Ledger) -> list[str]:
    """Call the person for each task that is past its deadline, once; their ids.

    What becomes of it is theirs to say: nothing is started, stopped or blocked because of it.
    """
    now = runtime.clock().at
    tasks = [task for task in ledger.tasks if task.overdue(now)]
    workers = registry.Registry(runtime.layout).workers
    for task in tasks:
        call = call_of(
            NeedKind.LATE,
            who=workers[task.worker].name if task.worker in workers else "",
            project=project.name,
            task=task.id,
            deadline_at=task.deadline_at,
            title=task.title,
            status=task.status,
        )
        call_person(runtime, call)
    return [task.id for task in tasks]
