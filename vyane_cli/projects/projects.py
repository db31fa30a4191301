"""`projects/{name}/project.json`: which projects there are, each with its folder and main worker.

Owner: the project. Writer: `project` alone, under its ledger's lock. The other files of a project
are made before it, so that a crash leaves files that nothing names, never a project without them.
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
    """The project of this name; None when there is none."""
    project = document.load_as(layout.project(name), parse_project, "project")
    if project is not None and project.name != name:
        raise CorruptStateError(
            layout.project(name), f"name: {project.name!r} is not {name!r}, that of its folder"
        )
    return project


def save(layout: Layout, project: Project) -> None:
    """Keep a project, durably."""
    document.save(layout.project(project.name), render_project(project), layout.root)


class Survey(NamedTuple):
    """Every project that can be read, by name, and what is wrong with the others."""

    projects: tuple[Project, ...]
    faults: tuple[CorruptStateError, ...]


def survey(layout: Layout) -> Survey:
    """Look at every project: one that cannot be read is in nobody's way."""
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


def listing(layout: Layout) -> tuple[Project, ...]:
    """Every project that can be read, by name."""
    return survey(layout).projects


def all_of(layout: Layout) -> tuple[Project, ...]:
    """Every project, for who has to know of each; CorruptStateError when one cannot be read."""
    found = survey(layout)
    if found.faults:
        raise found.faults[0]
    return found.projects
