"""The task graph of a project as commands change it: add, mark, remove and show its nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vyane_cli.errors import ConflictError
from vyane_cli.projects import ledger
from vyane_cli.projects.claims import held_tasks
from vyane_cli.projects.project import Project
from vyane_cli.projects.queue import (
    Graph,
    GraphNode,
    check_links,
    critical,
    critical_path,
    dependencies,
    find_node,
    is_done,
    open_links,
    put_node,
    sorted_links,
    startable,
)
from vyane_cli.projects.task import Ledger
from vyane_cli.projects.tasks import both, exact_names, links_of, note
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRow:
    """A task or a node, with its dependencies."""

    id: str
    title: str
    kind: str
    """`task` or `node`."""
    status: str
    """The task's own status; `done` or `open` for a node."""
    done: bool
    after: tuple[str, ...]
    waits_for: tuple[str, ...]
    critical: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphReport:
    """The graph of a project as `taskgraph` prints it."""

    project: str
    nodes: tuple[GraphRow, ...]
    critical_path: tuple[str, ...]
    startable: tuple[str, ...]


def show_graph(home: Home, project: Project) -> GraphReport:
    """Return tasks and nodes, sorted by dependency, and the critical path of the open ones."""
    value, graph = both(ledger.load(home.layout, project.name))
    links = dependencies(links_of(value), graph)
    left = open_links(value, graph)
    on_path = critical(left)
    nodes = []
    for name in sorted_links(links):
        task, node = value.get(name), graph.get(name)
        done = is_done(value, graph, name)
        nodes.append(
            GraphRow(
                id=name,
                title=task.title if task is not None else node.title if node else "",
                kind="task" if task is not None else "node",
                status=str(task.status) if task is not None else "done" if done else "open",
                done=done,
                after=tuple(links[name]),
                waits_for=tuple(left.get(name, ())),
                critical=name in on_path,
            )
        )
    ready = startable(value, graph, held_tasks(home, project.name))
    return GraphReport(
        project=project.name,
        nodes=tuple(nodes),
        critical_path=tuple(critical_path(left)),
        startable=tuple(task.id for task in ready),
    )


def add_node(
    home: Home, project: Project, name: str, *, title: str = "", after: tuple[str, ...] = ()
) -> GraphReport:
    """Add a node, or replace the title or the links of one.

    With the id of a task, the node adds links to that task.
    """

    def decide(value: Ledger, graph: Graph) -> Graph:
        (exact,) = exact_names((name,), value, graph)
        before = graph.get(exact) or GraphNode(exact)
        links = exact_names(after, value, graph) if after else before.after
        return put_node(graph, before._replace(title=title or before.title, after=links))

    return _change_graph(home, project, decide, "node", name)


def mark_node(home: Home, project: Project, name: str, done: bool) -> GraphReport:
    """Mark a node as done or open. ConflictError for a task, whose status the ledger has."""

    def decide(value: Ledger, graph: Graph) -> Graph:
        (exact,) = exact_names((name,), value, graph)
        if value.get(exact) is not None:
            raise ConflictError(
                f"{exact} is a task: the ledger says what it is at",
                hint=f"`vyane task report {exact} --state done …`",
            )
        return put_node(graph, find_node(graph, exact)._replace(done=done))

    return _change_graph(home, project, decide, "mark", name)


def remove_node(home: Home, project: Project, name: str) -> GraphReport:
    """Remove a node. NotFoundError while another task or node comes after it."""

    def decide(value: Ledger, graph: Graph) -> Graph:
        node = find_node(graph, exact_names((name,), value, graph)[0])
        return graph._replace(nodes=tuple(one for one in graph.nodes if one.id != node.id))

    return _change_graph(home, project, decide, "remove", name)


def _change_graph(
    home: Home,
    project: Project,
    decide: Callable[[Ledger, Graph], Graph],
    op: str,
    name: str,
) -> GraphReport:
    """Load, decide, check the links, save and note a change of the graph, under the ledger lock."""
    layout = home.layout
    with home.held((LockKind.LEDGER, project.name)):
        stamp = ledger.stamp(layout.taskgraph(project.name))
        value, before = both(ledger.load(layout, project.name))
        after = decide(value, before)
        if after != before:
            check_links(dependencies(links_of(value), after))
            kept = ledger.save_graph(layout, project.name, after, stamp)
            note(home, project, [{"op": f"graph-{op}", "node": name}], kept.revision)
    return show_graph(home, project)
