"""Catalog of the projects of a home: create, edit, select and list them, and declare members.

`select_project` is how every command of the ledger finds its project: by the given name, else by
the working folder, else by the project of the worker that runs the command.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of
from vyane_cli.errors import ConflictError, CorruptStateError, InvalidInputError, NotFoundError
from vyane_cli.kernel.ids import is_safe_id
from vyane_cli.kernel.values import InJson
from vyane_cli.projects import ledger, notice_rules, notices, projects
from vyane_cli.projects.goal import GoalState, judge
from vyane_cli.projects.project import (
    Project,
    check_name,
    find_project,
    members,
    project_of_folder,
    project_of_worker,
)
from vyane_cli.sessions import registry
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.worker import Worker, find_worker
from vyane_cli.storage import files
from vyane_cli.storage.locks import LockKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


ALL = ""
"""Key of the ledger lock that keeps two processes from changing the folders or main workers of
projects at the same time."""


class Created(NamedTuple):
    """Result of `create_project`."""

    project: Project
    created: bool
    """False when the project already existed. Missing files are created in both cases."""
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableFile:
    """A file of a project that could not be read, and why."""

    path: str
    state: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectReport:
    """A project with its members, the number of its tasks by status, and its goal."""

    name: str
    dir: str
    folders: tuple[str, ...]
    main: str | None
    main_name: str | None
    members: tuple[str, ...]
    created_at: float
    here: bool
    """True when commands in the working folder select this project."""
    goal: GoalState
    goal_title: str | None
    tasks: Mapping[str, int] | None
    """Number of tasks by status; None when the ledger cannot be read."""
    unreadable: tuple[UnreadableFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedReport:
    """A project as `project create` reports it."""

    project: ProjectReport = field(metadata={InJson: InJson(spread=True)})
    created: bool
    """False when the project already existed."""
    files: tuple[str, ...]


def create_project(home: Home, name: str, folder: str, main: str = "") -> Created:
    """Create a project: first its files from the templates, then the project's own file.

    A repeated call changes nothing. ConflictError when the name belongs to a project in another
    folder, when the folder belongs to another project, or when the main worker belongs to another
    project.
    """
    check_name(name)
    place = real_folder("dir", folder)
    with home.held((LockKind.LEDGER, ALL), (LockKind.LEDGER, name), (LockKind.NOTICES, name)):
        known = projects.all_of(home.layout)
        before = next((p for p in known if p.name.casefold() == name.casefold()), None)
        if before is not None and (before.name != name or before.dir != place):
            raise ConflictError(
                f"there is a project {before.name} in {before.dir}",
                hint=f"another name, or `vyane project edit {before.name} --dir {place}`",
            )
        project = before or Project(name, place, created_at=home.clock().at)
        if main:
            project = project._replace(main=_main(home, main, name, known).id)
        _check_folder(place, name, known)
        with files.before_commit():
            made = ledger.make_files(home.layout, name)
            if before is None:
                _know_what_is_there(home, name)
        if project != before:
            projects.save(home.layout, project)
    return Created(project, before is None, made)


def _know_what_is_there(home: Home, name: str) -> None:
    """Record in the notices that the main worker knows the tasks already done or blocked.

    It is not notified of changes that are older than the project.
    """
    value = ledger.read(home.layout, name).ledger
    if value is None or not value.tasks:
        return
    book = notices.load(home.layout, name)
    after = notice_rules.known(book, value)
    if after != book:
        notices.save(home.layout, name, after)


def edit_project(
    home: Home, name: str, *, main: str | None = None, folder: str | None = None
) -> Project:
    """Declare another main worker (an empty text removes the declaration) or another folder."""
    name = named(home, name).name
    with home.held((LockKind.LEDGER, ALL), (LockKind.LEDGER, name)):
        known = projects.all_of(home.layout)
        project = find_project(name, known)
        if main is not None:
            worker = _main(home, main, name, known).id if main else ""
            project = project._replace(main=worker)
        if folder is not None:
            place = real_folder("dir", folder)
            _check_folder(place, name, known)
            others = tuple(one for one in project.folders if one != place)
            project = project._replace(dir=place, folders=others)
        projects.save(home.layout, project)
    return project


def select_here(home: Home, name: str, folder: str) -> Project:
    """Declare one more folder, such as a worktree: commands typed there select this project.

    If the folder was declared as a further folder of another project, that project loses it.
    ConflictError when the folder is another project's `dir`.
    """
    name = named(home, name).name
    place = real_folder("dir", folder)
    with home.held((LockKind.LEDGER, ALL), (LockKind.LEDGER, name)):
        known = projects.all_of(home.layout)
        project = find_project(name, known)
        for other in known:
            if other.name != name and place == other.dir:
                raise ConflictError(
                    f"{place} is the folder of project {other.name}",
                    hint=f"`vyane project edit {other.name} --dir …` moves that first",
                )
        if place != project.dir and place not in project.folders:
            project = project._replace(folders=(*project.folders, place))
            projects.save(home.layout, project)
        for other in known:
            if other.name != name and place in other.folders:
                left = tuple(one for one in other.folders if one != place)
                projects.save(home.layout, other._replace(folders=left))
    return project


def join(home: Home, name: str, who: str) -> Worker:
    """Declare that a worker, with all workers it spawns, belongs to a project; no name: to none."""
    wanted = named(home, name).name if name else None
    with home.held((LockKind.REGISTRY, "")):
        book = registry.Registry(home.layout)
        worker = find_worker(who, book.listing())
        for project in projects.all_of(home.layout):
            if project.main == worker.id and project.name != wanted:
                raise ConflictError(
                    f"{worker.name} is the main worker of project {project.name}",
                    hint=f"`vyane project edit {project.name} --main none` first",
                )
        if worker.project != wanted:
            worker = worker._replace(project=wanted)
            book.put(worker)
            book.save()
    return worker


def real_folder(field: str, folder: str) -> str:
    """Return the folder as an absolute path without links; InvalidInputError when it is missing."""
    place = os.path.realpath(os.path.expanduser(folder))
    if not os.path.isdir(place):
        raise InvalidInputError(field, folder, "a folder that is there")
    return place


def _main(home: Home, who: str, name: str, known: tuple[Project, ...]) -> Worker:
    workers = registry.Registry(home.layout)
    worker = find_worker(who, workers.listing())
    if worker.final:
        raise ConflictError(f"{worker.name} has ended ({worker.status})", slug="worker_ended")
    for other in known:
        if other.name != name and other.main == worker.id:
            raise ConflictError(f"{worker.name} is the main worker of project {other.name}")
    if worker.project not in (None, name):
        raise ConflictError(
            f"{worker.name} belongs to project {worker.project}",
            hint=f"`vyane project leave {worker.id}` first",
        )
    return worker


def _check_folder(place: str, name: str, known: tuple[Project, ...]) -> None:
    for other in known:
        if other.name != name and place in (other.dir, *other.folders):
            raise ConflictError(
                f"{place} belongs to project {other.name}",
                hint="one folder has one project: name another folder",
            )


# ------------------------------------------------------------------ which project is meant


def named(home: Home, name: str) -> Project:
    """Return the project of this name. CorruptStateError when its own file cannot be read."""
    exact = projects.load(home.layout, name) if is_safe_id(name) else None
    return exact or find_project(name, projects.list_known(home.layout))


def select_project(home: Home, name: str = "", cwd: str = "") -> Project:
    """Return the project that a command means. NotFoundError when none is named or declared.

    CorruptStateError when the selected project cannot be read, and when none was found but an
    unreadable project might be the one.
    """
    if name:
        return named(home, name)
    known, faults = projects.survey(home.layout)
    here = os.path.realpath(cwd or _working_folder())
    found = project_of_folder(here, known)
    if found is not None:
        return found
    speaker = whoami(home)
    workers = registry.Registry(home.layout).workers
    own = workers.get(speaker.id) or workers.get(home.environ.get("VYANE_WORKER", ""))
    if own is not None:
        belongs = project_of_worker(own, workers, known)
        if belongs:
            return find_project(belongs, known)
    if faults:
        raise faults[0]  # the unreadable project may be the one that is meant
    listed = ", ".join(project.name for project in known)
    raise NotFoundError(
        "project of",
        here,
        hint=f"--project NAME, one of {listed}"
        if known
        else "`vyane project create NAME --dir .` makes one of this folder",
    )


def project_of_round(home: Home, name: str, *, dry_run: bool) -> Project:
    """Return the project of a round. Call the person once for each project that cannot be read.

    The round of one project does this for all projects, because an unreadable project has no round
    that could report it. A dry run calls nobody.
    """
    if not dry_run:
        for fault in projects.survey(home.layout).faults:
            call = call_of(NeedKind.PROJECT, path=fault.path, message=fault.message)
            call_person(home, call)
    return select_project(home, name)


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # the folder was removed
        return os.sep


# ------------------------------------------------------------------ what is shown


def list_projects(home: Home, cwd: str = "") -> list[ProjectReport]:
    """Return a report of every project."""
    known = projects.list_known(home.layout)
    here = project_of_folder(os.path.realpath(cwd or _working_folder()), known)
    return [describe(home, project, known, here) for project in known]


def faults_of(home: Home) -> tuple[CorruptStateError, ...]:
    """Return the errors of the projects that cannot be read."""
    return projects.survey(home.layout).faults


def describe_project(home: Home, project: Project, cwd: str = "") -> ProjectReport:
    """Return the report of one project."""
    known = projects.list_known(home.layout)
    here = project_of_folder(os.path.realpath(cwd or _working_folder()), known)
    return describe(home, project, known, here)


def describe(
    home: Home, project: Project, known: tuple[Project, ...], here: Project | None
) -> ProjectReport:
    """Return a project with its members, the number of its tasks by status, and its goal."""
    workers = registry.Registry(home.layout).workers
    books = ledger.read(home.layout, project.name)
    counts: Mapping[str, int] | None = None
    if books.ledger is not None:
        counts = dict(Counter(str(task.status) for task in books.ledger.tasks))
    main = workers.get(project.main)
    return ProjectReport(
        name=project.name,
        dir=project.dir,
        folders=tuple(project.folders),
        main=project.main or None,
        main_name=main.name if main is not None else None,
        members=tuple(w.id for w in members(project, workers, known) if not w.final),
        created_at=project.created_at,
        here=here is not None and here.name == project.name,
        goal=judge(books).state,
        goal_title=books.goal.title if books.goal is not None else None,
        tasks=counts,
        unreadable=tuple(
            UnreadableFile(path=r.path, state=str(r.state), detail=r.detail)
            for r in books.readings
            if not r.read
        ),
    )
