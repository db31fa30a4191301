"""`projects/{name}/schedules.json`: when rounds run, and whether they are paused.

Owner: the project. Writers: `schedule`, and a round that pauses, under the lock of schedules.
Commit point: the rename of the one file, so that A and B change together. A crash leaves the old
or the new file.
"""

from __future__ import annotations

from vyane_cli.projects.schedule_rules import DEFAULT, Schedules, parse_schedules, render_schedules
from vyane_cli.storage import document
from vyane_cli.storage.layout import Layout


def load(layout: Layout, project: str) -> Schedules:
    """The schedules; the default ones while there is no file. CorruptStateError when damaged."""
    found = document.load_as(layout.schedules(project), parse_schedules, "file of schedules")
    return DEFAULT if found is None else found


def save(layout: Layout, project: str, schedules: Schedules) -> None:
    """Keep them, durably."""
    document.save(layout.schedules(project), render_schedules(schedules), layout.root)
