"""Ended needs: need-user entries whose cause is gone, and the readers of the facts for that.

An open entry suppresses further calls to the person with the same key, so entries whose cause is
gone are resolved here. The table of `ending_rules` says what ends an entry; this module reads the
files for that table. After a crash before the resolution, the next run resolves the entries.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from vyane_cli.attention import needs
from vyane_cli.attention.kinds import NEEDS, EndedBy, NeedKey, parse_key
from vyane_cli.errors import NotFoundError, VyaneError
from vyane_cli.mail import inbox
from vyane_cli.mail.message import VYANE
from vyane_cli.projects import claims, ledger, notices, projects
from vyane_cli.projects.task import Task
from vyane_cli.sessions import markers, registry
from vyane_cli.sessions.liveness import look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import Worker
from vyane_cli.upkeep.ending_rules import NeedFacts, RoundSays, is_over

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home

_Read = Callable[["_Reader", NeedKey], NeedFacts]


def end_calls(
    home: Home,
    *,
    says: RoundSays | None = None,
    works: str = "",
    dry_run: bool = False,
) -> int:
    """Resolve each entry whose cause is gone. Returns how many.

    `says`: the findings of a round, for the entries of its project. `works`: the name of a channel
    that a round has just reached. A fact that is not given or cannot be read ends no entry.
    """
    reader = _Reader(home, says, works)
    over = [
        str(one["id"])
        for one in needs.list_entries(home.layout)
        if reader.is_over(str(one["key"]), str(one["project"]))
    ]
    if over and not dry_run:
        try:
            needs.resolve(home.layout, over, VYANE, home.clock(), home.deadline())
        except NotFoundError:
            return 0  # one of them was resolved in the meantime: the next run tries again
    return len(over)


class _Reader:
    """Reads the facts that the table asks for; the registry and each ledger only once."""

    def __init__(self, home: Home, says: RoundSays | None, works: str) -> None:
        self.home, self.says, self.works = home, says, works
        self.tasks_of: dict[str, dict[str, Task] | None] = {}
        self.known: Mapping[str, Worker] | None = None

    def is_over(self, key: str, project: str) -> bool:
        need = parse_key(key)
        if need is None:
            return False
        read = READERS.get(NEEDS[need.kind].ended_by)
        try:
            facts = read(self, need) if read is not None else NeedFacts()
        except VyaneError:
            return False  # `doctor` reports the file
        says = self.says if self.says is not None and self.says.project == project else None
        return is_over(need, facts._replace(says=says))

    def worker(self, need: NeedKey) -> Worker | None:
        if self.known is None:
            self.known = registry.Registry(self.home.layout).workers
        return self.known.get(need.get("worker"))

    def read_worker(self, need: NeedKey) -> NeedFacts:
        """Read the worker's record: its status, and the time since which it is stale."""
        worker = self.worker(need)
        if worker is None:
            return NeedFacts(status="")
        return NeedFacts(status=worker.status, at=worker.stale_since or 0.0)

    def read_session(self, need: NeedKey) -> NeedFacts:
        """Read the worker's status, and whether its session has exited."""
        worker = self.worker(need)
        if worker is None:
            return NeedFacts(status="")
        return NeedFacts(status=worker.status, exited=self._has_exited(worker))

    def read_main(self, need: NeedKey) -> NeedFacts:
        """Read the project's present main worker, and whether the session in the key has exited."""
        project = projects.load(self.home.layout, need.get("project"))
        worker = self.worker(need)
        return NeedFacts(
            main=project.main if project is not None else None,
            exited=self._has_exited(worker) if worker is not None else None,
        )

    def _has_exited(self, worker: Worker) -> bool | None:
        liveness = look(self.home, worker).liveness
        return None if liveness is Liveness.UNKNOWN else liveness is Liveness.EXITED

    def _tasks(self, project: str) -> dict[str, Task] | None:
        """Return the tasks of a project by id; None when its ledger cannot be read."""
        if project not in self.tasks_of:
            known = ledger.read(self.home.layout, project).ledger
            found = {task.id: task for task in known.tasks} if known is not None else None
            self.tasks_of[project] = found
        return self.tasks_of[project]

    def read_task(self, need: NeedKey) -> NeedFacts:
        """Read the task's status, and the time of its last status change."""
        tasks = self._tasks(need.get("project"))
        if tasks is None:
            return NeedFacts()
        task = tasks.get(need.get("task"))
        if task is None:
            return NeedFacts(status="")
        return NeedFacts(status=task.status, at=task.changed_at)

    def read_deadline(self, need: NeedKey) -> NeedFacts:
        """Read the task's deadline, and whether the task is overdue."""
        tasks = self._tasks(need.get("project"))
        if tasks is None:
            return NeedFacts()
        task = tasks.get(need.get("task"))
        if task is None:
            return NeedFacts(late=False)
        return NeedFacts(late=task.overdue(self.home.clock().at), at=task.deadline_at)

    def read_schedules(self, need: NeedKey) -> NeedFacts:
        """Read the time at which the schedules of the project changed."""
        return NeedFacts(at=markers.modified(self.home.layout.schedules(need.get("project"))))

    def read_channel(self, need: NeedKey) -> NeedFacts:
        """Read whether a round has just reached the channel, or it is no longer configured."""
        channel = need.get("channel")
        if channel == self.works:
            return NeedFacts(works=True)
        if self.home.channels is None:  # this process does not read channel settings
            return NeedFacts()
        return NeedFacts(works=channel not in self.home.config.channels or None)

    def read_file(self, need: NeedKey) -> NeedFacts:
        """Read whether the file is missing, or its own reader accepts it.

        `sound` is None for a file of another kind. Raises VyaneError for an unreadable file.
        """
        path = need.get("path")
        if not os.path.lexists(path):
            return NeedFacts(sound=True)
        layout = self.home.layout
        match os.path.relpath(path, layout.root).split(os.sep):
            case ["projects", project, "project.json"]:
                projects.load(layout, project)
            case ["projects", project, "claims", name]:
                claims.load(layout, project, name.removesuffix(".json"))
            case ["projects", project, "notices.json"]:
                notices.load(layout, project)
            case ["messages", "inbox", _]:
                return NeedFacts(sound=not inbox.read(path, whole=True).damage)
            case _ if path == layout.registry:
                _ = registry.Registry(layout).workers
            case _:
                return NeedFacts()
        return NeedFacts(sound=True)


READERS: Mapping[EndedBy, _Read] = {
    EndedBy.TASK_GOES_ON: _Reader.read_task,
    EndedBy.TASK_IN_TIME: _Reader.read_deadline,
    EndedBy.TASK_DONE: _Reader.read_task,
    EndedBy.SCHEDULES_CHANGED: _Reader.read_schedules,
    EndedBy.MAIN_IS_BACK: _Reader.read_main,
    EndedBy.FILE_IS_SOUND: _Reader.read_file,
    EndedBy.CHANNEL_WORKS: _Reader.read_channel,
    EndedBy.SESSION_IS_BACK: _Reader.read_session,
    EndedBy.PARENT_IS_BACK: _Reader.read_worker,
    EndedBy.SIGN_OF_LIFE: _Reader.read_worker,
}
"""Ending → the method that reads its facts. Only a round or the person shows the other endings."""
