"""The subject of an examination: the state as it is found, read once for all checks."""

from __future__ import annotations

import os
from functools import cached_property
from typing import NamedTuple

from vyane_cli.errors import CorruptStateError
from vyane_cli.home import Home
from vyane_cli.kernel.config import Config
from vyane_cli.sessions import registry
from vyane_cli.sessions.liveness import Look, look
from vyane_cli.sessions.liveness_rules import Liveness
from vyane_cli.sessions.worker import Worker
from vyane_cli.setup.hooks import HooksStatus, HostSettings, status
from vyane_cli.storage import processes

LIVE = (Liveness.BUSY, Liveness.IDLE)


class Finding(NamedTuple):
    """The result of one check, and the next step if something is wrong."""

    ok: bool
    detail: str
    fix: str = ""


class ExaminedWorker(NamedTuple):
    """A worker and what its session's files say."""

    worker: Worker
    look: Look

    @property
    def live(self) -> bool:
        """Return whether the worker's session runs."""
        return self.look.liveness in LIVE

    @property
    def died(self) -> bool:
        """Return whether the worker's process is gone and its session was never ended."""
        session = self.look.session
        return (
            session is not None
            and not session.ended
            and processes.is_present(session.process) is False
        )


class Subject:
    """The state root, and values that several checks need. Everything is read on first use."""

    def __init__(self, home: Home, host: HostSettings, folder: str) -> None:
        self.home, self.host, self.folder = home, host, folder
        self.layout, self.clock = home.layout, home.clock()

    @property
    def there(self) -> bool:
        """Return whether the state folder exists."""
        return os.path.isdir(self.layout.root)

    @property
    def config(self) -> Config:
        """Return the settings in force. Raises VyaneError for a file that cannot be read."""
        return self.home.config

    @cached_property
    def hooks(self) -> HooksStatus:
        """Return the state of the guard and of the settings files."""
        return status(self.home, self.host, self.folder)

    @cached_property
    def workers(self) -> tuple[ExaminedWorker, ...]:
        """Return every worker that is not final.

        Nothing is known of a worker whose document is damaged.
        """
        found = []
        for worker in registry.Registry(self.layout).listing():
            if worker.final:
                continue
            try:
                seen = look(self.home, worker)
            except CorruptStateError as error:  # `documents` names it
                seen = Look(
                    liveness=Liveness.UNKNOWN,
                    session=None,
                    turn=None,
                    beat_at=0.0,
                    damaged=error.message,
                )
            found.append(ExaminedWorker(worker, seen))
        return tuple(found)

    @property
    def live(self) -> list[ExaminedWorker]:
        """Return the workers whose session runs."""
        return [seen for seen in self.workers if seen.live]


def some(items: list[str], limit: int = 5) -> str:
    """Return the first items as a list for a sentence, with the number of further items."""
    more = len(items) - limit
    return ", ".join(items[:limit]) + (f" and {more} more" if more > 0 else "")
