"""Process identity: a pid with enough context to detect that the pid was reused."""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.kernel.values import NamedTuple


class Process(NamedTuple):
    """The identity of one process. Compare all four fields: a pid alone may have been reused."""

    boot: str
    namespace: str
    pid: int
    start: int


def parse_process(data: object) -> Process | None:
    """Parse a process from its stored form. Return None if the data is not a process."""
    if not isinstance(data, Mapping):
        return None
    try:
        return Process(
            str(data["boot"]), str(data["namespace"]), int(data["pid"]), int(data["start"])
        )
    except (KeyError, OverflowError, TypeError, ValueError):
        return None
