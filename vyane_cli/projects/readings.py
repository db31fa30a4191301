"""Readings of a round: the state found in the files, each with file and value. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vyane_cli.attention.kinds import NeedKind, is_of
from vyane_cli.children.stale import may_be_passed, was_silent
from vyane_cli.errors import VyaneError
from vyane_cli.projects import ledger, schedule
from vyane_cli.projects.goal import Books, Judgement, judge
from vyane_cli.projects.members import is_at_work, members_of
from vyane_cli.projects.need_user import list_needs
from vyane_cli.projects.project import Project
from vyane_cli.projects.queue import blocked, has_queue
from vyane_cli.projects.round_rules import Executing, Inputs, Lock, Main, Queue, Schedule, Sources
from vyane_cli.projects.schedule_rules import ScheduleStatus
from vyane_cli.projects.task import TaskStatus
from vyane_cli.sessions import registry
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.worker import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


class RoundReading(NamedTuple):
    """One reading of a round."""

    name: str
    file: str
    value: str
    detail: str = ""


class RoundView(NamedTuple):
    """The readings of a round: the inputs that decide, and the files and values behind them."""

    inputs: Inputs
    readings: tuple[RoundReading, ...]
    books: Books | None = None
    judgement: Judgement | None = None
    main: Worker | None = None


def read_schedule(home: Home, project: str, name: str) -> RoundView:
    """Read whether the schedule is paused. This needs no lock and comes first."""
    path = home.layout.schedules(project)
    if not name:
        value, detail = Schedule.NONE, "run by hand"
    else:
        try:
            status = schedule.load(home.layout, project).plans[name].status
            value = Schedule.PAUSED if status is ScheduleStatus.PAUSED else Schedule.ACTIVE
            detail = name
        except VyaneError as error:
            value, detail = Schedule.UNKNOWN, error.message
    return RoundView(Inputs(value), (RoundReading("schedule", path, value, detail),))


def with_lock(seen: RoundView, path: str, lock: Lock) -> RoundView:
    """Return the readings with that of the domain lock, which comes second."""
    reading = RoundReading("lock", path, lock)
    return seen._replace(inputs=seen.inputs._replace(lock=lock), readings=(*seen.readings, reading))


def read_project(home: Home, project: Project, seen: RoundView) -> RoundView:
    """Read the queue, the workers and the goal, in this order, and return the extended readings."""
    books = ledger.read(home.layout, project.name)
    queue, read_queue = _queue(home, books)
    executing, read_members = _executing(home, project)
    judgement = judge(books)
    main, read_main = _main(home, project)
    sources = Sources.READABLE if books.read else Sources.UNREADABLE
    read_goal = [
        RoundReading(f"goal/{one.source}", one.path, one.says, one.detail)
        for one in judgement.evidence
    ]
    goal_path = home.layout.goal(project.name)
    return RoundView(
        inputs=seen.inputs._replace(
            sources=sources,
            main=Main(read_main.value),
            queue=queue,
            executing=executing,
            goal=judgement.state,
        ),
        readings=(
            *seen.readings,
            read_queue,
            read_members,
            RoundReading("goal", goal_path, judgement.state),
            *read_goal,
            RoundReading("sources", home.layout("projects", project.name), sources, _faults(books)),
            read_main,
        ),
        books=books,
        judgement=judgement,
        main=main,
    )


def _queue(home: Home, books: Books) -> tuple[Queue, RoundReading]:
    path = books.readings[0].path
    if books.ledger is None:
        return Queue.EMPTY, RoundReading("queue", path, "unreadable", books.readings[0].detail)
    open_ones = list_needs(home, books.project)
    asks = [one["id"] for one in open_ones if is_of(NeedKind.ASK, one["key"])]
    value = Queue.EMPTY
    if has_queue(books.ledger):
        value = Queue.WORK
    elif blocked(books.ledger) or asks:
        value = Queue.BLOCKED
    counts = dict.fromkeys(TaskStatus, 0)
    for task in books.ledger.tasks:
        counts[task.status] += 1
    said = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    waits = f"; you are asked for {', '.join(asks)}" if asks else ""
    return value, RoundReading("queue", path, value, (said or "no task") + waits)


def _executing(home: Home, project: Project) -> tuple[Executing, RoundReading]:
    """Read whether a worker of the project works, without the worker that runs this round."""
    path = home.layout.registry
    me = whoami(home)
    try:
        others = [one for one in members_of(home, project) if one.worker.id != me.id]
        working, unknown = [], []
        for one in others:
            at_work = is_at_work(home, one)
            if at_work and not may_be_passed(home, one.worker):
                working.append(one.worker.name)
            elif at_work is None and not was_silent(home, one.worker):
                unknown.append(one.worker.name)
    except VyaneError as error:
        return Executing.UNKNOWN, RoundReading("executing", path, Executing.UNKNOWN, error.message)
    if working:
        return Executing.YES, RoundReading("executing", path, Executing.YES, _list(working))
    if unknown:
        detail = f"cannot be told of {_list(unknown)}"
        return Executing.UNKNOWN, RoundReading("executing", path, Executing.UNKNOWN, detail)
    return Executing.NO, RoundReading(
        "executing", path, Executing.NO, f"none of {len(others)} works"
    )


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _main(home: Home, project: Project) -> tuple[Worker | None, RoundReading]:
    path = home.layout.project(project.name)
    if not project.main:
        return None, RoundReading("main", path, Main.NONE, "none is declared")
    try:
        worker = registry.Registry(home.layout).workers.get(project.main)
    except VyaneError as error:
        return None, RoundReading("main", path, Main.NONE, error.message)
    if worker is None or worker.final:
        ended = f"{worker.name} has ended ({worker.status})" if worker else "it is on no record"
        return None, RoundReading("main", path, Main.ENDED, ended)
    return worker, RoundReading("main", path, Main.DECLARED, worker.name)


def located(path: str, detail: str) -> str:
    """Return the fault with its file. An error text that begins with its file is not changed."""
    return detail if detail.startswith(path) else f"{path}: {detail}"


def _faults(books: Books) -> str:
    return "; ".join(located(one.path, one.detail) for one in books.readings if not one.read)
