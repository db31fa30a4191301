"""Timeline deletion: a session's events, cursors and spooled hook calls, all or nothing.

Commit point: the rename to `timelines/.trash-…`. A crash after it leaves the trash, which the next
delete or `gc` sweeps; the timeline is gone for every reader from the rename on.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from vyane_cli.errors import (
    ConflictError,
    CorruptStateError,
    DurabilityUnknownError,
    InvalidInputError,
    NotFoundError,
)
from vyane_cli.history.queries import find_timeline
from vyane_cli.sessions.authority import require_person
from vyane_cli.sessions.identity import whoami
from vyane_cli.storage import files, processes
from vyane_cli.storage.files import listdir
from vyane_cli.storage.layout import Layout
from vyane_cli.storage.locks import LockKind
from vyane_cli.timeline import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home

TRASH = ".trash-"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTimeline:
    """The result of a deletion."""

    session: str
    events: int
    deleted: bool
    """False when no timeline existed."""
    swept: int
    """Number of folders removed from the trash."""


def delete_timeline(
    home: Home, who: str, *, yes: bool, missing_ok: bool = False
) -> DeletedTimeline:
    """Delete a timeline. ConflictError (`turn_open`) while a turn of a live process is open."""
    found = find_timeline(home, who)
    layout = home.layout
    if not yes:
        raise InvalidInputError(
            "yes",
            "",
            f"given: it deletes all that {found.name} did",
            missing=True,
            hint=f"vyane timeline delete {who or found.session} --yes",
            slug="confirm",
        )
    require_person(home, whoami(home), "delete a timeline")
    folder = os.path.dirname(found.path)
    with home.held((LockKind.TIMELINE, found.session)):
        if not os.path.isdir(folder):
            if missing_ok:
                return DeletedTimeline(session=found.session, events=0, deleted=False, swept=0)
            raise NotFoundError("timeline of", found.name)
        try:
            head = log.read_head(found.path)
        except CorruptStateError:
            head = None  # a damaged timeline may be deleted too: the person asks for exactly that
        opened = head.open if head is not None else None
        if opened is not None and processes.is_present(opened.process) is not False:
            raise ConflictError(
                f"turn {opened.id} is open", slug="turn_open", hint="end the turn first"
            )
        name = TRASH + found.session + "-" + home.new_id(home.clock().now_ms)
        files.move(folder, layout("timelines", name))
        try:
            files.sync_directories(layout("timelines", name), layout.root)
        except OSError as error:
            raise DurabilityUnknownError(folder, error) from error
    swept = clear_trash(layout)
    events = head.seq if head is not None else 0
    return DeletedTimeline(session=found.session, events=events, deleted=True, swept=swept)


def clear_trash(layout: Layout) -> int:
    """Remove the folders that deletions moved to the trash. Return their number."""
    trash = [name for name in listdir(layout("timelines")) if name.startswith(TRASH)]
    for name in trash:
        try:
            files.step("rmtree", layout("timelines", name))
            shutil.rmtree(layout("timelines", name))
        except OSError:
            continue  # its name marks it as deleted: the next sweep removes the rest
    return len(trash)
