"""Entries that wait for the person: create an entry by hand, list the open ones, close them."""

from __future__ import annotations

from typing import Any

from vyane_cli.attention import needs
from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedKind, call_of
from vyane_cli.errors import InvalidInputError, NotFoundError
from vyane_cli.projects.catalog import select_project
from vyane_cli.sessions.identity import whoami
from vyane_cli.sessions.speaker import FromKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home

TEXT_MAX = 500


def ask_person(
    home: Home, why: str, ask: str, *, who: str = "", project: str = ""
) -> dict[str, Any]:
    """Create an entry by hand, as `need-user add` does. Return the open entry, old or new.

    The entry belongs to the project that any command would select here. Without such a project it
    belongs to none, because somebody may wait outside of every project.
    """
    for field, text in (("reason", why), ("ask", ask)):
        if not text.strip() or len(text) > TEXT_MAX:
            raise InvalidInputError(field, text, f"a sentence of 1 to {TEXT_MAX} characters")
    if len(who) > TEXT_MAX:
        raise InvalidInputError("who", who, f"at most {TEXT_MAX} characters")
    try:
        project = project or select_project(home).name
    except NotFoundError:
        project = ""
    speaker = whoami(home)
    waits = who or (speaker.name if speaker.kind is FromKind.WORKER else "")
    call = call_of(
        NeedKind.ASK,
        who=waits,
        project=project,
        speaker=speaker.id,
        why=" ".join(why.split()),
        text=why.strip(),
        sentence=ask.strip(),
    )
    call_person(home, call)
    return next(one for one in needs.list_entries(home.layout) if one["key"] == call.key)


def list_needs(home: Home, project: str = "") -> list[dict[str, Any]]:
    """Return the open entries, optionally those of one project."""
    found = needs.list_entries(home.layout)
    return [one for one in found if not project or one["project"] == project]


def resolve_needs(home: Home, names: list[str]) -> list[dict[str, Any]]:
    """Close the entries with these ids: all, or none."""
    by = whoami(home).name
    return needs.resolve(home.layout, names, by, home.clock(), home.deadline())
