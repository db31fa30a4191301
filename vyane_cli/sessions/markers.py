"""Marker files: small files that sessions, their guards and their hosts test. All are derived.

Markers are derived from the inbox and written under the inbox lock; a tick that finds a wrong
marker corrects it. A superfluous marker costs one tick that finds nothing. A marker is set before
its message is appended, so that a message never lacks its marker.
"""

from __future__ import annotations

import os

from vyane_cli.sessions.registry import read_current
from vyane_cli.sessions.session import Markers
from vyane_cli.storage import files
from vyane_cli.storage.files import listdir
from vyane_cli.storage.layout import Layout

ARMED_S = 2.0
"""Seconds after a write of the wake file during which it is not rewritten: hosts merge bursts."""


def announce(layout: Layout, worker: str, *, control: bool, startable: bool) -> str:
    """Set the markers that the guard tests, before a message is appended.

    Return the worker's present host session. The caller holds the inbox lock. A crash before the
    append leaves markers that the next tick clears.
    """
    session = read_current(layout, worker)
    if session:
        files.touch(layout.pending(session))
        if control:
            files.touch(layout.control(session))
    if startable:
        files.touch(layout.due(worker), "0")
    return session


def wake(layout: Layout, session: str, wall_s: float) -> bool:
    """Rewrite the wake file that the host watches, unless it was rewritten a moment ago.

    Return whether it was rewritten.
    """
    if not session or not os.path.exists(layout.wake(session)):
        return False  # no session, or one that no host watches
    age = wall_s - modified(layout.armed(session))
    if abs(age) < ARMED_S:  # file times are coarser than clocks
        return False
    files.touch(layout.armed(session))
    files.touch(layout.wake(session), f"{wall_s}\n")
    return True


def disarm(layout: Layout, session: str) -> None:
    """Let the next message rewrite the wake file, because the host has called.

    Under the inbox lock.
    """
    files.remove(layout.armed(session))


def save(layout: Layout, session: str, worker: str, markers: Markers, wall_ms: int) -> None:
    """Make the markers agree with the inbox. Under its lock, before the wake file is touched."""
    for path, wanted in (
        (layout.pending(session), markers.pending),
        (layout.control(session), markers.control),
        (layout.proof(session), markers.proof),
    ):
        _set(path, wanted)
    if markers.due_ms is None:
        files.remove(layout.due(worker))
    else:
        files.touch(layout.due(worker), str(wall_ms + markers.due_ms))


def _set(path: str, wanted: bool) -> None:
    there = os.path.exists(path)
    if wanted and not there:
        files.touch(path)
    elif there and not wanted:
        files.remove(path)


def watched(layout: Layout, session: str) -> str:
    """Create the wake file if it is missing, and return its path for the host to watch."""
    path = layout.wake(session)
    if not os.path.exists(path):
        files.touch(path)
    return path


def remove_all(layout: Layout, session: str) -> None:
    """Remove the markers of an ended host session."""
    for path in (
        layout.armed(session),
        layout.pending(session),
        layout.control(session),
        layout.proof(session),
        layout.wake(session),
    ):
        files.remove(path)


def overdue(layout: Layout, wall_ms: int, grace_ms: int, limit: int) -> list[str]:
    """Return workers whose startable mail has been due for longer than the grace, at most `limit`.

    A marker in the future counts as overdue: the clock was set back, so its due time is unknown. A
    superfluous ring costs one tick, whose gates use the boot clock.
    """
    found: list[str] = []
    for worker in listdir(layout("due")):
        path = layout.due(worker)
        at = modified(path) * 1000
        due = _number(path) or at
        if wall_ms - max(due, at) > grace_ms or at - wall_ms > ARMED_S * 1000:
            found.append(worker)
            if len(found) == limit:
                break
    return found


def modified(path: str) -> float:
    """Return the file's modification time in Unix seconds; 0 when the file is missing."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _number(path: str) -> float:
    try:
        with open(path) as file:
            return float(file.read(32) or 0)
    except (OSError, ValueError):
        return 0.0
