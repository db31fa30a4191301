"""`projects/{name}/project.json`: the existing projects, each with its folder and main worker.

Owner: the project. Writer: `projects.catalog` alone, under the project's ledger lock. The other
files of a project are created before this one, so that a crash may leave files without a project,
but never a project without its files.
"""

from __future__ import annotations

import os

from vyane_cli.errors import CorruptStateError
from vyane_cli.kernel.values import NamedTuple
from vyane_cli.projects.project import Project, parse_project, render_project
from vyane_cli.storage import document
from vyane_cli.storage.files import listdir
from vyane_cli.storage.layout import Layout


def load(layout: Layout, name: str) -> Project | None:
    """Return the project of this name, or None. CorruptStateError when its file cannot be read."""
    project = document.load_as(layout.project(name), parse_project, "project")
    if project is not None and project.name != name:
        raise CorruptStateError(
            layout.project(name), f"name: {project.name!r} is not {name!r}, that of its folder"
        )
    return project


def save(layout: Layout, project: Project) -> None:
    """Save a project, durably."""
    document.save(layout.project(project.name), render_project(project), layout.root)


class Survey(NamedTuple):
    """The projects that can be read, by name, and the errors of the others."""

    projects: tuple[Project, ...]
    faults: tuple[CorruptStateError, ...]


def survey(layout: Layout) -> Survey:
    """Load every project. A project that cannot be read does not affect the others."""
    found, faults = [], []
    for name in listdir(layout("projects")):
        if name.startswith(".") or not os.path.isdir(layout("projects", name)):
            continue
        try:
            project = load(layout, name)
        except CorruptStateError as error:
            faults.append(error)
            continue
        if project is not None:
            found.append(project)
    return Survey(tuple(found), tuple(faults))


def list_known(layout: Layout) -> tuple[Project, ...]:
    """Return every project that can be read, by name."""
    return survey(layout).projects


def all_of(layout: Layout) -> tuple[Project, ...]:
    """Return every project, for callers that need all. CorruptStateError if one cannot be read."""
    found = survey(layout)
    if found.faults:
        raise found.faults[0]
    return found.projects
