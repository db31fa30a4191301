"""Schedules A and B of a project: their rules, their status, and the environment of a round.

The system's own timer always fires; a paused schedule makes its round end at once. So a pause needs
no access to the timer, and changes only `status`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.projects.recurrence import every, next_after, parse_rrule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAMES = ("A", "B")


class ScheduleStatus(StrEnum):
    """Status of a schedule: a paused one makes its rounds do nothing."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"


class With(StrEnum):
    """Kind of the timer."""

    CRON = "cron"
    SYSTEMD = "systemd"
    LAUNCHD = "launchd"


class Plan(NamedTuple):
    """One schedule: its rule and its status."""

    rrule: str
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    unknown: Mapping[str, Any] = {}


class Installed(NamedTuple):
    """The timers that were created for a project, and the environment of the installing shell."""

    timer: With
    environment: Mapping[str, str]
    at: float


class Schedules(NamedTuple):
    """The content of `projects/{name}/schedules.json`."""

    plans: Mapping[str, Plan]
    installed: Installed | None = None
    unknown: Mapping[str, Any] = {}

    @property
    def paused(self) -> bool:
        """Return whether all schedules are paused."""
        return all(plan.status is ScheduleStatus.PAUSED for plan in self.plans.values())

    def with_status(self, status: ScheduleStatus) -> Schedules:
        """Return the schedules with this status for A and B together."""
        plans = {name: plan._replace(status=status) for name, plan in self.plans.items()}
        return self._replace(plans=plans)

    def with_rules(self, rules: Mapping[str, str]) -> Schedules:
        """Return the schedules with other rules for some; the status of each is kept."""
        plans = {
            name: plan._replace(rrule=rules.get(name, plan.rrule))
            for name, plan in self.plans.items()
        }
        return self._replace(plans=plans)


DEFAULT_MINUTES = 30
DEFAULT = Schedules(dict(zip(NAMES, map(Plan, every(DEFAULT_MINUTES)), strict=True)))
"""The schedules of a project without a file."""


def check_schedule(name: str) -> str:
    """Check the name of a schedule. Return the name."""
    if name not in NAMES:
        raise InvalidInputError("schedule", name, "A or B", slug="unknown_schedule")
    return name


def parse_schedules(data: Mapping[str, Any]) -> Schedules:
    """Return the schedules of a stored form, which people may edit. ValueError names the key."""
    raw = data.get("schedules")
    if not isinstance(raw, dict) or sorted(raw) != sorted(NAMES):
        raise ValueError('"schedules" is not an object with "A" and "B"')
    plans = {name: _parse_plan(f"schedules.{name}", raw[name]) for name in NAMES}
    rest = {key: v for key, v in data.items() if key not in ("v", "schedules", "installed")}
    return Schedules(plans, _parse_installed(data.get("installed")), rest)


def _parse_plan(where: str, data: object) -> Plan:
    if not isinstance(data, dict):
        raise ValueError(f"{where} is not an object")
    status, rrule = data.get("status"), data.get("rrule")
    if status not in tuple(ScheduleStatus):
        raise ValueError(f"{where}.status: {status!r} is not one of {', '.join(ScheduleStatus)}")
    if not isinstance(rrule, str):
        raise ValueError(f"{where}.rrule: {rrule!r} is not a text")
    try:
        parse_rrule(rrule)
    except InvalidInputError as error:
        raise ValueError(f"{where}.{error.message}") from None
    rest = {key: value for key, value in data.items() if key not in Plan._fields}
    return Plan(rrule, ScheduleStatus(status), rest)


def _parse_installed(data: object) -> Installed | None:
    if data is None:
        return None
    if not isinstance(data, dict) or not isinstance(data.get("environment"), dict):
        raise ValueError('installed: not an object with "timer" and "environment"')
    environment = data["environment"]
    if not all(isinstance(value, str) for value in environment.values()):
        raise ValueError("installed.environment: not an object of texts")
    timer, at = data.get("timer"), data.get("at", 0)
    if timer not in tuple(With):
        raise ValueError(f"installed.timer: {timer!r} is not one of {', '.join(With)}")
    if isinstance(at, bool) or not isinstance(at, (int, float)):
        raise ValueError(f"installed.at: {at!r} is not a time in Unix seconds")
    return Installed(With(timer), environment, float(at))


def render_schedules(schedules: Schedules) -> dict[str, Any]:
    """Return the stored form of schedules."""
    plans = {
        name: {**plan.unknown, "rrule": plan.rrule, "status": str(plan.status)}
        for name, plan in schedules.plans.items()
    }
    data: dict[str, Any] = {**schedules.unknown, "schedules": plans}
    if schedules.installed is not None:
        data["installed"] = schedules.installed._asdict()
    return data


def next_round(
    known: Schedules, after_s: float, local: Callable[[float], tuple[int, int, int]]
) -> float | None:
    """Return the time of the first due round of an active schedule after a time.

    None when no schedule is active or no round follows.
    """
    times = [
        next_after(parse_rrule(plan.rrule), after_s, local)
        for plan in known.plans.values()
        if plan.status is ScheduleStatus.ACTIVE
    ]
    return min((at for at in times if at is not None), default=None)


def were_due(
    known: Schedules,
    count: int,
    since_s: float,
    now_s: float,
    local: Callable[[float], tuple[int, int, int]],
) -> bool:
    """Return whether at least `count` rounds were due between two times."""
    at: float | None = since_s
    for _ in range(count):
        at = next_round(known, at, local) if at is not None else None
    return at is not None and at <= now_s


# ------------------------------------------------------------------ the environment of a round

KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_MESSAGES", "CLAUDE_CONFIG_DIR", "CODEX_HOME")
"""Variables that a timer does not provide and programs need: recorded when the timers are created.

A worker gets the last two only where its runtime's `keep` says so, as from any shell.
"""


def recorded(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the part of the installing shell's environment that is recorded. Never a secret."""
    return {name: environ[name] for name in KEPT if environ.get(name)}


def completed(environ: Mapping[str, str], kept: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the environment of a round: the timer's own values win over the recorded ones.

    The PATH has the recorded folders first, then the timer's, then `folder`, which has the `vyane`
    of this installation, so that workers always find it.
    """
    out = {**{name: kept[name] for name in KEPT if name in kept}, **environ}
    paths = [*kept.get("PATH", "").split(":"), *environ.get("PATH", "").split(":"), folder]
    out["PATH"] = ":".join(dict.fromkeys(path for path in paths if path))
    return out
