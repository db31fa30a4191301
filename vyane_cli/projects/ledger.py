"""`tasks.json`, `taskgraph.json`, `goal.json` of a project, each read with its readability.

Owner: the project. Writers: the commands `task`, `taskgraph` and `goal`, under the project's ledger
lock, and people with an editor, without the lock. Commit point: the rename of the one file that
changes. A crash leaves the old or the new file; after a crash, a line of the audit
(`tasks-events.jsonl`) may be missing.

`read` never raises because of a file's content: it is for decisions. `load` raises, for commands. A
writer holds the lock, takes the `stamp` of the file, reads, and passes the stamp to a `save_…`
function. That function raises if an editor saved the file in the meantime.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from vyane_cli.errors import (
    ConflictError,
    CorruptStateError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    TooNewError,
)
from vyane_cli.kernel.json import clean
from vyane_cli.projects.goal import (
    READ,
    Books,
    FileReading,
    Goal,
    Readability,
    Source,
    parse_goal,
    render_goal,
)
from vyane_cli.projects.queue import Graph, check_links, dependencies, parse_graph, render_graph
from vyane_cli.projects.task import Ledger, parse_ledger, render_ledger
from vyane_cli.storage import document, files, journal
from vyane_cli.storage.layout import Layout
from vyane_cli.storage.settings import data_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BY_HAND = "mend it by hand: nothing reads or writes it until then"
STARTERS = ("tasks.json", "taskgraph.json", "goal.json")

Stamp = tuple[int, int, int] | None


def path_of(layout: Layout, project: str, source: Source) -> str:
    """Return the path of the file of a source."""
    match source:
        case Source.TASKS:
            return layout.tasks(project)
        case Source.GRAPH:
            return layout.taskgraph(project)
        case Source.GOAL:
            return layout.goal(project)


def read(layout: Layout, project: str) -> Books:
    """Return the books of a project. A file that cannot be read is None; its reading says why."""
    found: dict[Source, Any] = {}
    readings: dict[Source, FileReading] = {}
    parsers: tuple[tuple[Source, Callable[[Mapping[str, Any]], Any]], ...] = (
        (Source.TASKS, parse_ledger),
        (Source.GRAPH, parse_graph),
        (Source.GOAL, parse_goal),
    )
    for source, parse in parsers:
        readings[source], found[source] = _read(source, path_of(layout, project, source), parse)
    ledger, graph = found[Source.TASKS], found[Source.GRAPH]
    if ledger is not None and graph is not None:
        fault = _link_fault(ledger, graph)
        if fault is not None:
            source, detail = fault
            readings[source] = readings[source]._replace(state=Readability.DAMAGED, detail=detail)
            found[source] = None
    return Books(
        project=project,
        readings=tuple(readings.values()),
        ledger=found[Source.TASKS],
        graph=found[Source.GRAPH],
        goal=found[Source.GOAL],
    )


def _read(
    source: Source, path: str, parse: Callable[[Mapping[str, Any]], Any]
) -> tuple[FileReading, Any]:
    try:
        value = document.load_as(path, lambda data: parse(_sound(data)), _NOUNS[source])
    except CorruptStateError as error:
        newer = error.slug == "too_new"
        state = Readability.NEWER if newer else Readability.DAMAGED
        reason = error.reason if error.line is None else f"line {error.line}: {error.reason}"
        return FileReading(source, path, state, reason), None
    except StorageError as error:
        return FileReading(source, path, Readability.UNREADABLE, error.message), None
    if value is None:
        return FileReading(source, path, Readability.MISSING, "the file is not there"), None
    empty = Readability.EMPTY if _is_empty(value) else Readability.READABLE
    return FileReading(source, path, empty), value


def _sound(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data if every JSON reader accepts it.

    ValueError for a value that could not be written again: it counts as damage.
    """
    try:
        found: dict[str, Any] = clean(dict(data), "value")
    except InvalidInputError as error:
        raise ValueError(error.message) from None
    return found


_NOUNS = {Source.TASKS: "ledger", Source.GRAPH: "task graph", Source.GOAL: "goal"}


def _is_empty(value: Ledger | Graph | Goal) -> bool:
    if isinstance(value, Ledger):
        return not value.tasks
    return not value.nodes if isinstance(value, Graph) else value.empty


def _link_fault(ledger: Ledger, graph: Graph) -> tuple[Source, str] | None:
    """Return the source that has a link to a missing name or a cycle, and the fault.

    None when both sources are sound.
    """
    own = {task.id: task.after for task in ledger.tasks}
    every = dependencies(own.items(), graph)
    try:
        check_links(every)
    except (NotFoundError, InvalidInputError) as error:
        try:
            check_links({**dict.fromkeys(every, ()), **own})
        except (NotFoundError, InvalidInputError):
            return Source.TASKS, error.message
        return Source.GRAPH, error.message
    return None


def load(layout: Layout, project: str, *sources: Source) -> Books:
    """Return the books if these sources (default: ledger and graph) can be read.

    CorruptStateError names the file, the place of the fault and what to do.
    """
    books = read(layout, project)
    for source in sources or (Source.TASKS, Source.GRAPH):
        check(books.reading(source))
    return books


def check(reading: FileReading) -> None:
    """Raise CorruptStateError unless the file could be read."""
    if reading.state in READ:
        return
    if reading.state is Readability.NEWER:
        raise TooNewError(reading.path, reading.detail)
    hint = BY_HAND
    if reading.state is Readability.MISSING:
        hint = "put it back from a copy; `vyane project create` with the same name makes it anew"
    raise CorruptStateError(reading.path, reading.detail, hint=hint)


# ------------------------------------------------------------------ changes, under the lock


def stamp(path: str) -> Stamp:
    """Return a value that changes with every save of the file; None when the file is missing."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def save_ledger(layout: Layout, project: str, ledger: Ledger, before: Stamp) -> Ledger:
    """Save the ledger durably, with the next revision. ConflictError if it was edited meanwhile."""
    kept = ledger._replace(revision=ledger.revision + 1)
    _save(layout, layout.tasks(project), render_ledger(kept), before)
    return kept


def save_graph(layout: Layout, project: str, graph: Graph, before: Stamp) -> Graph:
    """Save the graph durably, with the next revision. ConflictError if it was edited meanwhile."""
    kept = graph._replace(revision=graph.revision + 1)
    _save(layout, layout.taskgraph(project), render_graph(kept), before)
    return kept


def save_goal(layout: Layout, project: str, goal: Goal, before: Stamp) -> Goal:
    """Save the goal durably, with the next revision. ConflictError if it was edited meanwhile."""
    kept = goal._replace(revision=goal.revision + 1)
    _save(layout, layout.goal(project), render_goal(kept), before)
    return kept


def _save(layout: Layout, path: str, value: Mapping[str, Any], before: Stamp) -> None:
    if stamp(path) != before:
        raise ConflictError(
            f"{path} was edited in the meantime; nothing was changed",
            slug="edited",
            hint="run the command again",
        )
    clean(value, os.path.basename(path))  # never write a value that `read` would refuse
    document.save(path, value, layout.root)


def note(layout: Layout, project: str, records: Sequence[Mapping[str, Any]]) -> None:
    """Append the records to the audit. No decision uses it: a crash loses only audit lines."""
    path = layout.tasks_events(project)
    writer = journal.open_writer(path, layout.root)
    try:
        writer.append(list(records))
    finally:
        writer.close()


def make_files(layout: Layout, project: str) -> tuple[str, ...]:
    """Create the missing files of a project from `state_templates/`. Return their names."""
    made = []
    for name in STARTERS:
        path = os.path.join(os.path.dirname(layout.project(project)), name)
        if os.path.exists(path):
            continue
        source = os.path.join(data_folder("state_templates"), name)
        value = document.load(source)
        if value is None:
            raise StorageError(source, FileNotFoundError(2, "no such file"))
        files.make_directories(os.path.dirname(path))
        document.save(path, value, layout.root)
        made.append(name)
    return tuple(made)
