"""Dispatch (cell A of the round matrix): claim one task, start one worker, wait until it registers.

Order: first the claim, which names the id of the worker, then the spawn. A crash between the two
leaves a claim of a dead round whose worker is on no record: the next round frees the claim. A crash
after the spawn leaves a worker that is on record: its liveness decides about the claim.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass

from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of
from vyane_cli.children.order import PROMPT_MAX_BYTES, Order, check_order
from vyane_cli.children.spawn import start_child
from vyane_cli.errors import InvalidInputError, NotFoundError
from vyane_cli.kernel.runtimes import find_runtime
from vyane_cli.projects.claims import Claimed, claim_head, held_tasks
from vyane_cli.projects.goal import Books
from vyane_cli.projects.notice_rules import digest_of
from vyane_cli.projects.project import Project
from vyane_cli.projects.queue import in_order, startable, waiting_for
from vyane_cli.projects.retries import end_of, stuck_tasks, why_not_again
from vyane_cli.projects.retry_rules import AGAIN, Again, fate_of
from vyane_cli.projects.task import Task, TaskStatus
from vyane_cli.sessions import registry
from vyane_cli.sessions.liveness import look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import Worker
from vyane_cli.storage import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home

LOOK_S = 0.1
NOTHING = "nothing-can-start"
CALL = "call-the-person"
TEXT_MAX = PROMPT_MAX_BYTES - 8 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched:
    """Outcome of a dispatch."""

    outcome: str
    """`started`, `not-started`, `not-registered`, `nothing-can-start`."""
    detail: str
    task: str = ""
    worker: str = ""
    stuck: tuple[str, ...] = ()
    """Ids of the tasks that rounds do not start again, and for which the person is called."""
    called: bool = False
    """True when the person is called because every remaining task waits for something."""


def dispatch(home: Home, project: Project, main: Worker, round_id: str) -> Dispatched:
    """Start one worker for the first task that may start.

    The program and the project's folder are checked before a task is claimed. NotFoundError when
    the program is missing, InvalidInputError when the folder is missing or the runtime is unknown
    (`unknown_runtime`). No task is claimed then.
    """
    _check_start(home, project)
    claimed = claim_head(
        home, project.name, round_id, lambda books, held: head(home, project, books, held)
    )
    if claimed is None:
        return Dispatched(outcome=NOTHING, detail="every task that is left waits for something")
    order = order_of(home, project, claimed.task)._replace(worker=claimed.claim.worker)
    check_order(order)
    return _await(home, project, claimed, start_child(home, order, main.id).child)


def _check_start(home: Home, project: Project) -> None:
    check_program(home)
    if not os.path.isdir(project.dir):
        raise InvalidInputError("project dir", project.dir, "a folder")


def check_program(home: Home) -> str:
    """Return the path of the program that `wake.runtime` runs. NotFoundError when it is missing."""
    name = home.config["wake.runtime"]
    words = find_runtime(name, home.config.runtimes).spawn
    path = home.environ.get("PATH", os.defpath)
    found = shutil.which(words[0], path=path)
    if found is None:
        raise NotFoundError(
            "program",
            words[0],
            hint=f"`[runtimes.{name}] spawn` of config.toml takes an absolute path; "
            "`vyane schedule install` records the PATH of the shell that runs it",
        )
    return found


def order_of(home: Home, project: Project, task: Task) -> Order:
    """Return the order for the worker of a task."""
    text = task.text
    if len(text.encode("utf-8", "replace")) > TEXT_MAX:
        text = text.encode("utf-8", "replace")[:TEXT_MAX].decode("utf-8", "ignore")
        text += f"\n…\nvyane task show {task.id} --project {project.name}"
    prompt = settings.load_templates(home.language, "rounds").fill(
        "task", id=task.id, project=project.name, title=task.title, text=text
    )
    return Order(
        prompt,
        runtime=home.config["wake.runtime"],
        independent=True,  # it continues after the main worker's session has ended
        cwd=project.dir,
        task=task.id,
        project=project.name,
        about=f"{task.id} {task.title}",
    )


# ------------------------------------------------------------------ which task


def head(home: Home, project: Project, books: Books, held: frozenset[str]) -> Task | None:
    """Return the task to start, or None.

    Pending tasks that may start come first, then running tasks whose worker is proven gone.
    """
    assert books.ledger is not None
    assert books.graph is not None
    candidates = [
        *startable(books.ledger, books.graph, held),
        *(
            task
            for task in sorted(books.ledger.tasks, key=in_order)
            if task.status is TaskStatus.RUNNING
            and task.id not in held
            and is_abandoned(home, task)
        ),
    ]
    return next((t for t in candidates if why_not_again(home, project, t) is None), None)


def preview(home: Home, project: Project, books: Books) -> str:
    """Return the task that a round would start now, or a word for what it would do instead.

    The word is `CALL` when the round would call the person, and `NOTHING` when it would do nothing.
    Raises what `dispatch` would raise. Changes nothing.
    """
    _check_start(home, project)
    held = held_tasks(home, project.name)
    task = head(home, project, books, held)
    if task is not None:
        return f"{task.id} ({task.title})"
    return NOTHING if held and not stuck_tasks(home, project, books, held) else CALL


def is_abandoned(home: Home, task: Task) -> bool:
    """Return whether the worker that reported the task as running is proven gone."""
    worker = registry.Registry(home.layout).workers.get(task.worker)
    if worker is None:
        return False  # the reporter is not a worker: nothing is proven
    return worker.final or look(home, worker).liveness is Liveness.EXITED


# ------------------------------------------------------------------ until it has registered


def _await(home: Home, project: Project, claimed: Claimed, worker: Worker) -> Dispatched:
    """Keep the domain lock until the worker's session is on record. Return the outcome.

    From then on the worker's liveness decides about the claim. A worker that has ended or does not
    register within `wake.start_wait_s` seconds is reported to the person.
    """
    task = claimed.task
    patience_s = float(home.config["wake.start_wait_s"])
    end = time.monotonic() + patience_s
    while True:
        if registry.read_current(home.layout, worker.id):
            return _came(claimed, "started", f"{worker.name} works on {task.id}")
        known = registry.Registry(home.layout).workers.get(worker.id)
        if known is not None and known.final:
            why = known.failure_reason or f"it has ended ({known.status})"
            _call(home, project, task, worker, why)
            return _came(claimed, "not-started", why)
        if time.monotonic() >= end:
            why = f"it did not register within {patience_s:g} s"
            _call(home, project, task, worker, why)
            return _came(claimed, "not-registered", why)
        time.sleep(LOOK_S)


def _came(claimed: Claimed, outcome: str, detail: str) -> Dispatched:
    return Dispatched(
        outcome=outcome, detail=detail, task=claimed.task.id, worker=claimed.claim.worker
    )


def _call(home: Home, project: Project, task: Task, worker: Worker, why: str) -> None:
    known = registry.Registry(home.layout).workers.get(worker.id)
    counted = AGAIN[fate_of(end_of(home, known))] is Again.COUNTED
    call = call_of(
        NeedKind.START,
        "" if counted else "look",
        project=project.name,
        task=task.id,
        worker=worker.id,
        name=worker.name,
        why=why,
    )
    call_person(home, call)


def call_for_waiting(home: Home, project: Project, books: Books) -> None:
    """Call the person when tasks are left but none can start, once per distinct cause."""
    assert books.ledger is not None
    assert books.graph is not None
    workers = registry.Registry(home.layout).workers
    lines, stops, idle = [], [], []
    for task in books.ledger.tasks:
        if task.status is TaskStatus.PENDING:
            waits = waiting_for(books.ledger, books.graph, task)
            lines.append(f"{task.id} comes after {', '.join(waits)}" if waits else task.id)
        elif task.status is TaskStatus.BLOCKED:
            stops.append(task)
            lines.append(f"{task.id} ({task.title}) is blocked: {task.reason}")
        elif task.status is TaskStatus.RUNNING:
            idle.append(task)
            who = workers.get(task.worker)
            known = f"{who.name} has it and does nothing" if who else "no worker is known to run it"
            lines.append(f"{task.id} ({task.title}) is running, but {known}")
    call = call_of(
        NeedKind.WAITING,
        "blocked" if stops else "idle" if idle else "",
        project=project.name,
        digest=digest_of(*lines),
        lines="; ".join(lines),
        task=next((task.id for task in stops or idle), ""),
    )
    call_person(home, call)
