"""What a ledger says of the work that is left: which tasks may start, the head first, and why not.

`startable(ledger, graph, claimed)` is what a round may start. `has_queue` and `blocked` are
readings of a round's matrix.
"""

from __future__ import annotations

from collections.abc import Collection

from vyane_cli.projects.queue import Graph, critical, dependencies
from vyane_cli.projects.task import Ledger, Task, TaskStatus, number_of


def has_queue(ledger: Ledger) -> bool:
    """Whether any task is pending or running. A blocked one is no queue."""
    return any(task.status in (TaskStatus.PENDING, TaskStatus.RUNNING) for task in ledger.tasks)


def blocked(ledger: Ledger) -> tuple[Task, ...]:
    """The blocked tasks, in their order."""
    return tuple(sorted((t for t in ledger.tasks if t.status is TaskStatus.BLOCKED), key=in_order))


def in_order(task: Task) -> tuple[int, int, str]:
    """Sort key: order, then the number of the id."""
    return task.order, number_of(task.id), task.id


def is_done(ledger: Ledger, graph: Graph, name: str) -> bool:
    """Whether a task or node is done. Of a node that is a task too the ledger speaks."""
    task = ledger.get(name)
    if task is not None:
        return task.status is TaskStatus.DONE
    node = graph.get(name)
    return node is not None and node.done


def waiting_for(ledger: Ledger, graph: Graph, task: Task) -> tuple[str, ...]:
    """What must be done before this task may start, and is not."""
    needed = dict.fromkeys(task.after)
    node = graph.get(task.id)
    needed.update(dict.fromkeys(node.after if node is not None else ()))
    return tuple(name for name in needed if not is_done(ledger, graph, name))


def line_holder(ledger: Ledger, task: Task) -> Task | None:
    """The other task that runs on this task's line."""
    if not task.line:
        return None
    for other in ledger.tasks:
        same = other.line == task.line and other.id != task.id
        if same and other.status is TaskStatus.RUNNING:
            return other
    return None


def open_links(ledger: Ledger, graph: Graph) -> dict[str, tuple[str, ...]]:
    """What is not done, each with what it waits for: the part of the graph that is left."""
    every = dependencies(((task.id, task.after) for task in ledger.tasks), graph)
    left = {name for name in every if not is_done(ledger, graph, name)}
    return {name: tuple(a for a in every[name] if a in left) for name in every if name in left}


def startable(ledger: Ledger, graph: Graph, claimed: Collection[str] = ()) -> tuple[Task, ...]:
    """The pending tasks that may start now, the head first: on the critical path, then in order.

    Of several tasks of one line all are listed: when one runs, the next call leaves the others
    out. A claimed one counts as running for its line.
    """
    on_path = critical(open_links(ledger, graph))
    taken = {
        t.line
        for t in ledger.tasks
        if t.line and (t.status is TaskStatus.RUNNING or t.id in claimed)
    }
    ready = [
        task
        for task in ledger.tasks
        if task.status is TaskStatus.PENDING
        and task.id not in claimed
        and (not task.line or task.line not in taken)
        and not waiting_for(ledger, graph, task)
    ]
    return tuple(sorted(ready, key=lambda task: (task.id not in on_path, *in_order(task))))
