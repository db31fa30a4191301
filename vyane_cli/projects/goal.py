"""The goal of a project: what it asks for, and what is known of each part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vyane_cli.errors import InvalidInputError, NotFoundError
from vyane_cli.kernel.text import nearest_names
from vyane_cli.kernel.values import NamedTuple, StrEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TITLE_MAX = 200
NAME_MAX = 120


class Acceptance(StrEnum):
    """What is known of one thing that the goal asks for."""

    UNKNOWN = "unknown"  # not judged yet: counts as not passed
    PASS = "pass"
    FAIL = "fail"


class Goal(NamedTuple):
    """What a project is for, and what must be seen to hold before it is reached."""

    title: str = ""
    acceptance: Mapping[str, Acceptance] = {}
    accepted: Mapping[str, Any] = {}
    """Who judged each name, and when."""
    set_at: float = 0.0
    revision: int = 0
    unknown: Mapping[str, Any] = {}

    @property
    def empty(self) -> bool:
        """Whether it asks for nothing that could be judged."""
        return not self.title.strip() or not self.acceptance


def new_goal(before: Goal | None, title: str, names: Sequence[str], at: float) -> Goal:
    """A goal with each name not judged; InvalidInputError when it asks for nothing.

    The same title keeps what was judged of the names that stay.
    """
    if not title.strip() or len(title) > TITLE_MAX or not title.isprintable():
        raise InvalidInputError("title", title, f"one line of 1 to {TITLE_MAX} characters")
    wanted = list(dict.fromkeys(name.strip() for name in names))
    if not wanted:
        raise InvalidInputError(
            "accept",
            "",
            "given: a goal that nothing can show to be reached is never complete",
            missing=True,
            hint="--accept NAME, once for each thing that must hold",
        )
    for name in wanted:
        check_name(name)
    kept = before if before is not None and before.title == title else Goal()
    return Goal(
        title,
        {name: kept.acceptance.get(name, Acceptance.UNKNOWN) for name in wanted},
        {name: kept.accepted[name] for name in wanted if name in kept.accepted},
        at,
        before.revision if before is not None else 0,
        before.unknown if before is not None else {},
    )


def check_name(name: str) -> str:
    """The name of an acceptance; one that begins with `_` is a remark in the file."""
    if not name or len(name) > NAME_MAX or not name.isprintable() or name.startswith("_"):
        raise InvalidInputError(
            "accept", name, f"a name of 1 to {NAME_MAX} characters that does not begin with _"
        )
    return name


def accept(goal: Goal, name: str, state: Acceptance, by: str, at: float) -> Goal:
    """The goal with one name judged; NotFoundError names the nearest."""
    if name not in goal.acceptance:
        near = nearest_names(name, goal.acceptance)
        raise NotFoundError("acceptance", name, near, "" if near else "`vyane goal show`")
    return goal._replace(
        acceptance={**goal.acceptance, name: state},
        accepted={**goal.accepted, name: {"by": by, "at": at}},
    )


# ------------------------------------------------------------------ the stored form

_KEYS = ("title", "acceptance_state", "accepted", "set_at", "revision", "v")


def parse_goal(data: Mapping[str, Any]) -> Goal:
    """A goal from `goal.json`, which people may edit. ValueError says which key."""
    title = data.get("title", "")
    if not isinstance(title, str):
        raise ValueError(f"title: {title!r} is not a text")
    raw = data.get("acceptance_state", {})
    if not isinstance(raw, dict):
        raise ValueError(f'acceptance_state: {raw!r} is not an object such as {{"tests": "pass"}}')
    acceptance = {}
    for name, state in raw.items():
        if name.startswith("_"):
            continue
        if state not in tuple(Acceptance):
            raise ValueError(
                f"acceptance_state.{name}: {state!r} is not one of {', '.join(Acceptance)}"
            )
        acceptance[name] = Acceptance(state)
    accepted, set_at, revision = (
        data.get("accepted", {}),
        data.get("set_at", 0),
        data.get("revision", 0),
    )
    if not isinstance(accepted, dict) or not all(isinstance(v, dict) for v in accepted.values()):
        raise ValueError(f'accepted: {accepted!r} is not an object such as {{"tests": {{}}}}')
    for key, value in (("set_at", set_at), ("revision", revision)):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{key}: {value!r} is not a number")
    rest = {key: value for key, value in data.items() if key not in _KEYS}
    remarks = {name: value for name, value in raw.items() if name.startswith("_")}
    if remarks:
        rest["acceptance_state"] = remarks
    return Goal(title, acceptance, accepted, float(set_at), int(revision), rest)


def render_goal(goal: Goal) -> dict[str, Any]:
    """The stored form of a goal."""
    rest = dict(goal.unknown)
    remarks = rest.pop("acceptance_state", {})
    states = {name: str(state) for name, state in goal.acceptance.items()}
    return {
        **rest,
        "revision": goal.revision,
        "title": goal.title,
        "set_at": goal.set_at,
        "acceptance_state": {**remarks, **states},
        "accepted": dict(goal.accepted),
    }
