"""The queue of a project: tasks and graph nodes in order of their links, and changes of the ledger.

A node is a step of the plan that need not be a task. Tasks carry their own links (`after`); a node
with the id of a task adds links to that task. Tasks and nodes make one graph, over one set of
names. From it follow cycles, the critical path and the tasks that may start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from vyane_cli.errors import ConflictError, InvalidInputError, NotFoundError, RefusedError
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.kernel.text import nearest_names
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.projects.task import (
    TRANSITIONS,
    Ledger,
    Task,
    TaskStatus,
    TaskUpdate,
    check_change,
    check_texts,
    number_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


Links = Mapping[str, tuple[str, ...]]
"""Name → names of what must be done before it."""


class GraphNode(NamedTuple):
    """One step of the plan."""

    id: str
    title: str = ""
    after: tuple[str, ...] = ()
    done: bool = False
    unknown: Mapping[str, Any] = {}


class Graph(NamedTuple):
    """The plan of a project beside its tasks."""

    nodes: tuple[GraphNode, ...] = ()
    revision: int = 0
    unknown: Mapping[str, Any] = {}

    def get(self, name: str) -> GraphNode | None:
        """Return the node of this id, or None."""
        return next((node for node in self.nodes if node.id == name), None)


def dependencies(
    tasks: Iterable[tuple[str, tuple[str, ...]]], graph: Graph
) -> dict[str, tuple[str, ...]]:
    """Return all links of tasks (id, after) and nodes, in the order of both files."""
    links: dict[str, tuple[str, ...]] = dict(tasks)
    for node in graph.nodes:
        links[node.id] = tuple(dict.fromkeys((*links.get(node.id, ()), *node.after)))
    return links


def check_links(links: Links) -> None:
    """Check the links: NotFoundError for one to a missing name, InvalidInputError for a cycle."""
    for name, after in links.items():
        for other in after:
            if other not in links:
                near = nearest_names(other, [known for known in links if known != name])
                hint = "" if near else "`vyane taskgraph show` lists tasks and nodes"
                raise NotFoundError(f"task or node (for {name} to come after)", other, near, hint)
    found = cycle(links)
    if found:
        way = " → ".join((*found, found[0]))
        raise InvalidInputError(
            "after", way, "free of a cycle", slug="cycle", hint="take one link away"
        )


def cycle(links: Links) -> tuple[str, ...]:
    """Return the names of one cycle, each coming after the next; empty without a cycle."""
    finished: set[str] = set()
    for start in links:
        path: list[str] = []
        on_path: set[str] = set()
        stack = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                path.pop()
                on_path.discard(name)
                finished.add(name)
            elif name in on_path:
                return tuple(path[path.index(name) :])
            elif name not in finished:
                path.append(name)
                on_path.add(name)
                stack.append((name, True))
                stack += [(other, False) for other in reversed(links.get(name, ()))]
    return ()


def sorted_links(links: Links) -> tuple[str, ...]:
    """Return the names, each after everything that it waits for. `links` must have no cycle."""
    found: dict[str, None] = {}
    for start in links:
        stack = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                found[name] = None
            elif name not in found:
                stack.append((name, True))
                stack += [(other, False) for other in reversed(links[name]) if other not in found]
    return tuple(found)


def _chains(links: Links) -> tuple[dict[str, int], dict[str, int]]:
    """Return for each name the lengths of the longest chains that end in it and begin with it."""
    before: dict[str, int] = {}
    behind = dict.fromkeys(links, 1)
    names = sorted_links(links)
    for name in names:
        before[name] = 1 + max((before[other] for other in links[name]), default=0)
    for name in reversed(names):
        for other in links[name]:
            behind[other] = max(behind[other], behind[name] + 1)
    return before, behind


def critical(links: Links) -> frozenset[str]:
    """Return the names on a longest chain. `links` has unfinished tasks and nodes only."""
    before, behind = _chains(links)
    longest = max(before.values(), default=0)
    return frozenset(name for name in links if before[name] + behind[name] - 1 == longest)


def critical_path(links: Links) -> tuple[str, ...]:
    """Return one longest chain of the unfinished tasks and nodes, its first step first."""
    before, behind = _chains(links)
    path: list[str] = []
    for name in sorted(links, key=lambda n: before[n]):
        wanted = max(before.values(), default=0) - len(path)
        follows = not path or path[-1] in links[name]
        if follows and before[name] == len(path) + 1 and behind[name] == wanted:
            path.append(name)
    return tuple(path)


def put_node(graph: Graph, node: GraphNode) -> Graph:
    """Return the graph with this node: it replaces the node of the same id, or goes to the end."""
    if not is_safe_id(node.id):
        raise InvalidInputError("node", node.id, "an id: 1 to 128 of A-Z, a-z, 0-9, _ and -")
    if len(node.title) > 200 or (node.title and not node.title.isprintable()):
        raise InvalidInputError("title", node.title, "one line of at most 200 characters")
    if graph.get(node.id) is None:
        return graph._replace(nodes=(*graph.nodes, node))
    return graph._replace(nodes=tuple(node if n.id == node.id else n for n in graph.nodes))


def find_node(graph: Graph, name: str) -> GraphNode:
    """Return the node of this id; NotFoundError names the nearest."""
    node = graph.get(name)
    if node is None:
        near = nearest_names(name, [n.id for n in graph.nodes])
        raise NotFoundError("node", name, near, "" if near else "`vyane taskgraph show` lists them")
    return node


# ------------------------------------------------------------------ the stored form


def parse_graph(data: Mapping[str, Any]) -> Graph:
    """Return the graph of `taskgraph.json`, which people may edit. ValueError names the node."""
    raw = data.get("nodes")
    if not isinstance(raw, list):
        raise ValueError('"nodes" is not a list')
    nodes = tuple(_parse_node(f"nodes[{position}]", item) for position, item in enumerate(raw))
    seen: set[str] = set()
    for node in nodes:
        if node.id in seen:
            raise ValueError(f"two nodes have the id {node.id}")
        seen.add(node.id)
    revision = data.get("revision", 0)
    if isinstance(revision, bool) or not isinstance(revision, int):
        raise ValueError(f"revision: {revision!r} is not a whole number")
    rest = {key: value for key, value in data.items() if key not in Graph._fields and key != "v"}
    return Graph(nodes, revision, rest)


def _parse_node(where: str, data: object) -> GraphNode:
    if not isinstance(data, dict):
        raise ValueError(f"{where} is not an object")
    name, title = data.get("id"), data.get("title", "")
    if not isinstance(name, str) or not is_safe_id(name):
        raise ValueError(f"{where}.id: {name!r} is not an id (A-Z, a-z, 0-9, _ and -)")
    where = f"{where} ({name})"
    if not isinstance(title, str):
        raise ValueError(f"{where}.title: {title!r} is not a text")
    after, done = data.get("after", []), data.get("done", False)
    if not isinstance(after, list) or not all(isinstance(item, str) for item in after):
        raise ValueError(f"{where}.after: {after!r} is not a list of ids")
    if not isinstance(done, bool):
        raise ValueError(f"{where}.done: {done!r} is not true or false")
    rest = {key: value for key, value in data.items() if key not in GraphNode._fields}
    return GraphNode(
        id=name, title=title, after=tuple(dict.fromkeys(after)), done=done, unknown=rest
    )


def render_graph(graph: Graph) -> dict[str, Any]:
    """Return the stored form of a graph."""
    nodes = []
    for node in graph.nodes:
        data = node._asdict()
        unknown = data.pop("unknown")
        nodes.append({**data, "after": list(node.after), **unknown})
    return {**graph.unknown, "revision": graph.revision, "nodes": nodes}


def has_queue(ledger: Ledger) -> bool:
    """Return whether any task is pending or running. Blocked tasks do not count."""
    return any(task.status in (TaskStatus.PENDING, TaskStatus.RUNNING) for task in ledger.tasks)


def blocked(ledger: Ledger) -> tuple[Task, ...]:
    """Return the blocked tasks, in their order."""
    return tuple(sorted((t for t in ledger.tasks if t.status is TaskStatus.BLOCKED), key=in_order))


def in_order(task: Task) -> tuple[int, int, str]:
    """Return the sort key of a task: its order, then the number of its id."""
    return task.order, number_of(task.id), task.id


def is_done(ledger: Ledger, graph: Graph, name: str) -> bool:
    """Return whether a task or node is done. If a node is also a task, the ledger decides."""
    task = ledger.get(name)
    if task is not None:
        return task.status is TaskStatus.DONE
    node = graph.get(name)
    return node is not None and node.done


def waiting_for(ledger: Ledger, graph: Graph, task: Task) -> tuple[str, ...]:
    """Return the tasks and nodes that must be done before this task may start, and are not done."""
    needed = dict.fromkeys(task.after)
    node = graph.get(task.id)
    needed.update(dict.fromkeys(node.after if node is not None else ()))
    return tuple(name for name in needed if not is_done(ledger, graph, name))


def line_holder(ledger: Ledger, task: Task) -> Task | None:
    """Return the other task that runs on this task's line, or None."""
    if not task.line:
        return None
    for other in ledger.tasks:
        same = other.line == task.line and other.id != task.id
        if same and other.status is TaskStatus.RUNNING:
            return other
    return None


def open_links(ledger: Ledger, graph: Graph) -> dict[str, tuple[str, ...]]:
    """Return every unfinished task and node with the unfinished ones that it waits for."""
    every = dependencies(((task.id, task.after) for task in ledger.tasks), graph)
    left = {name for name in every if not is_done(ledger, graph, name)}
    return {name: tuple(a for a in every[name] if a in left) for name in every if name in left}


def startable(ledger: Ledger, graph: Graph, claimed: Collection[str] = ()) -> tuple[Task, ...]:
    """Return the pending tasks that may start now: first those on the critical path, then in order.

    All tasks of one line are listed; when one of them runs, the next call leaves the others out. A
    claimed task counts as running for its line.
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


def find_task(ledger: Ledger, text: str) -> Task:
    """Return the task of this id, ignoring case; NotFoundError names the nearest."""
    wanted = text.strip().casefold()
    for task in ledger.tasks:
        if task.id.casefold() == wanted:
            return task
    names = [task.id for task in ledger.tasks]
    hint = "" if nearest_names(text, names) else "`vyane task list` shows them"
    raise NotFoundError("task", text, nearest_names(text, names), hint)


def add(ledger: Ledger, task: Task, at: float) -> tuple[Ledger, Task]:
    """Return the ledger with one more pending task, and that task with its id.

    The links of the task are not checked here: the caller does so with `check_links`, which needs
    the graph.
    """
    number = ledger.next
    made = check_texts(
        task._replace(
            id=f"T{number}",
            status=TaskStatus.PENDING,
            generation=0,
            created_at=at,
            changed_at=at,
            order=task.order or number,
        )
    )
    return ledger._replace(tasks=(*ledger.tasks, made), next=number + 1), made


def put(ledger: Ledger, task: Task) -> Ledger:
    """Return the ledger with this task in place of the task of the same id."""
    return ledger._replace(tasks=tuple(task if t.id == task.id else t for t in ledger.tasks))


def transition(ledger: Ledger, graph: Graph, task_id: str, change: TaskUpdate, at: float) -> Ledger:
    """Return the ledger after a report. A report of the present status only updates the details.

    InvalidInputError for blocked without a reason and for done without an artifact or a reason.
    ConflictError for a transition that is not in the table. RefusedError (`not_ready`, `line_busy`)
    for a start that must wait.
    """
    task = find_task(ledger, task_id)
    check_change(change)
    before, after = task.status, change.status
    if before is not after and after not in TRANSITIONS[before]:
        hint = "report it pending first: it is opened again" if before is TaskStatus.DONE else ""
        raise ConflictError(f"{task.id} is {before} and does not become {after}", hint=hint)
    if after is TaskStatus.RUNNING and before is not after:
        check_start(ledger, graph, task)
    done = after is TaskStatus.DONE
    moved = before is not after
    return put(
        ledger,
        task._replace(
            status=after,
            reason=change.reason if after is TaskStatus.BLOCKED else "",
            artifact=change.artifact if done else "",
            no_artifact_reason=change.no_artifact_reason if done else "",
            worker=change.worker or task.worker,
            generation=task.generation + (moved and after is TaskStatus.PENDING),
            changed_at=at if moved else task.changed_at,
            started_at=at
            if after is TaskStatus.RUNNING and not task.started_at
            else task.started_at,
            ended_at=(at if moved else task.ended_at) if done else None,
        ),
    )


def check_start(ledger: Ledger, graph: Graph, task: Task) -> None:
    """Check that the task may start. RefusedError when it must wait for its links or its line."""
    waits = waiting_for(ledger, graph, task)
    if waits:
        raise RefusedError(
            f"{task.id} comes after {', '.join(waits)}, not done yet",
            slug="not_ready",
            hint="`vyane taskgraph` shows what comes first",
        )
    runs = line_holder(ledger, task)
    if runs is not None:
        raise RefusedError(
            f"{runs.id} of line {task.line!r} is running, and a line runs one at a time",
            slug="line_busy",
            hint=f"wait for it, or `vyane task report {runs.id} --state pending`",
        )
