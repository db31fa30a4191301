"""Stalled projects: open work, no active worker, and no round due within the hour.

Such a project no longer moves by itself, so the person is called: once for each state of its
schedules. Every round checks all projects; a session that becomes idle checks its own project while
that is paused. A project without timers is moved by its person, and `vyane status` shows its state.
"""

from __future__ import annotations

from vyane_cli.attention import needs
from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of, is_of
from vyane_cli.errors import VyaneError
from vyane_cli.home import local_time
from vyane_cli.projects import ledger, projects, schedule
from vyane_cli.projects.goal import GoalState, judge
from vyane_cli.projects.members import is_at_work, members_of
from vyane_cli.projects.project import Project
from vyane_cli.projects.queue import blocked, has_queue
from vyane_cli.projects.schedule_rules import Schedules, next_round
from vyane_cli.sessions import markers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home
    from vyane_cli.storage.locks import Deadline

SOON_S = 3600.0


def way_to_a_round(home: Home, project: Project, known: Schedules) -> str:
    """Return the command that makes a round come; empty when one is due within the hour."""
    timer = known.installed is not None
    now_s = home.clock().at
    due = next_round(known, now_s, local_time)
    if timer and due is not None and due <= now_s + SOON_S:
        return ""
    verb = "wake" if timer else "schedule install"
    return f"vyane {'schedule resume' if known.paused else verb} --project {project.name}"


def call_for_alone(home: Home, project: Project, deadline: Deadline | None = None) -> bool:
    """Call the person for a stalled project. Return whether a new call was made."""
    layout = home.layout
    known = schedule.load(layout, project.name)
    if known.installed is None:
        return False
    way = way_to_a_round(home, project, known)
    changed_s = markers.modified(layout.schedules(project.name))  # one call for each of these
    call = call_of(NeedKind.ALONE, project=project.name, schedules_at=changed_s, way=way)
    if not way or needs.was_resolved(layout, call.key) or not _is_left(home, project):
        return False
    if any(is_at_work(home, one) is not False for one in members_of(home, project)):
        return False
    return call_person(home, call, deadline=deadline)


def _is_left(home: Home, project: Project) -> bool:
    """Return whether work is left that needs no person. Other calls cover work that does."""
    books = ledger.read(home.layout, project.name)
    if books.ledger is None or judge(books).state is not GoalState.OPEN:
        return False
    if has_queue(books.ledger):
        return True
    open_ones = (one for one in needs.list_entries(home.layout) if one["project"] == project.name)
    asked = any(is_of(NeedKind.ASK, one["key"]) for one in open_ones)
    return not blocked(books.ledger) and not asked


def call_for_each(home: Home) -> None:
    """Call the person for every stalled project.

    A round does this for all projects, because a stalled project has no round of its own that is
    due.
    """
    try:
        known = projects.list_known(home.layout)
    except VyaneError:
        return
    for project in known:
        try:
            call_for_alone(home, project)
        except VyaneError:
            continue  # the project's own round reports the error
