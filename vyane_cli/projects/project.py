"""A project: a folder, a main worker, and the workers that were declared to belong to it.

Membership is declared, never guessed from a folder: by `Worker.project`, by being the project's
main worker, or by being a child (at any depth) of such a worker. The folder only decides which
project is selected by a command typed there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from vyane_cli.errors import InvalidInputError, NotFoundError
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.kernel.text import nearest_names
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.sessions.worker import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME_MAX = 40


class Project(NamedTuple):
    """One project, as stored in `projects/{name}/project.json`."""

    name: str
    dir: str
    """Absolute path, without symbolic links."""
    main: str = ""
    """Id of the declared main worker; empty when none is declared. A main worker is never
    guessed."""
    folders: tuple[str, ...] = ()
    """Further folders in which commands select this project, such as worktrees."""
    created_at: float = 0.0
    unknown: Mapping[str, Any] = {}


def check_name(name: str) -> str:
    """Check a project's name, which is part of a path and typed by people. Return the name."""
    if not is_safe_id(name) or len(name) > NAME_MAX or name.startswith("-"):
        raise InvalidInputError(
            "project", name, f"a name: 1 to {NAME_MAX} of A-Z, a-z, 0-9, _ and -, not - first"
        )
    return name


def find_project(name: str, projects: Sequence[Project]) -> Project:
    """Return the project of this name; NotFoundError names the nearest."""
    for project in projects:
        if project.name.casefold() == name.casefold():
            return project
    near = nearest_names(name, [project.name for project in projects])
    raise NotFoundError("project", name, near, "" if near else "`vyane project list` shows them")


def project_of_folder(folder: str, projects: Iterable[Project]) -> Project | None:
    """Return the project whose folder is this one or contains it; the innermost one of several."""
    found, longest = None, -1
    for project in projects:
        for place in (project.dir, *project.folders):
            above = place.rstrip("/\\")
            inside = folder.startswith(above) and folder[len(above) :][:1] in ("", "/", "\\")
            if inside and len(above) > longest:
                found, longest = project, len(above)
    return found


def project_of_worker(
    worker: Worker, workers: Mapping[str, Worker], projects: Iterable[Project]
) -> str:
    """Return the name of the worker's project, by the nearest declaration; empty without one."""
    mains = {project.main: project.name for project in projects if project.main}
    seen: set[str] = set()
    above: Worker | None = worker
    while above is not None and above.id not in seen:
        if above.project or above.id in mains:
            return above.project or mains[above.id]
        seen.add(above.id)
        above = workers.get(above.parent_worker_id or "")
    return ""


def members(
    project: Project, workers: Mapping[str, Worker], projects: Iterable[Project]
) -> tuple[Worker, ...]:
    """Return the workers of a project, in the registry's order, including ended ones."""
    known = tuple(projects)
    return tuple(
        w for w in workers.values() if project_of_worker(w, workers, known) == project.name
    )


def parse_project(data: Mapping[str, Any]) -> Project:
    """Return the project of a stored form. ValueError names the faulty key."""
    known: dict[str, Any] = {}
    for key in ("name", "dir", "main"):
        value = data.get(key, "")
        if not isinstance(value, str):
            raise ValueError(f"{key}: {value!r} is not a text")
        known[key] = value
    folders = data.get("folders", [])
    if not isinstance(folders, list) or not all(isinstance(one, str) for one in folders):
        raise ValueError(f"folders: {folders!r} is not a list of paths")
    for path in (known["dir"], *folders):
        if "\0" in path:
            raise ValueError(f"{path!r} is not a path: it has a NUL byte")
    if not known["name"] or not known["dir"]:
        raise ValueError('it needs "name" and "dir"')
    created = data.get("created_at", 0)
    if isinstance(created, bool) or not isinstance(created, (int, float)):
        raise ValueError(f"created_at: {created!r} is not a time in Unix seconds")
    rest = {key: v for key, v in data.items() if key not in Project._fields and key != "v"}
    return Project(**known, folders=tuple(folders), created_at=float(created), unknown=rest)


def render_project(project: Project) -> dict[str, Any]:
    """Return the stored form of a project."""
    data = project._asdict()
    unknown = data.pop("unknown")
    return {**unknown, **data, "folders": list(project.folders)}
