"""Processes: who runs where, told apart from a later process with the same number."""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.kernel.values import NamedTuple


class Process(NamedTuple):
    """One process, so that a reused pid is told apart: compare all four."""

    boot: str
    namespace: str
    pid: int
    start: int


def parse_process(data: object) -> Process | None:
    """A process from its stored form."""
    if not isinstance(data, Mapping):
        return None
    try:
        return Process(
            str(data["boot"]), str(data["namespace"]), int(data["pid"]), int(data["start"])
        )
    except (KeyError, OverflowError, TypeError, ValueError):
        return None
