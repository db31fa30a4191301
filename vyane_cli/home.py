"""The home: the state root with clocks, settings and locks, passed to every operation.

An entry point builds it once per process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from vyane_cli.errors import VyaneError
from vyane_cli.kernel.clock import Clock
from vyane_cli.kernel.config import Config
from vyane_cli.kernel.ids import next_ulid
from vyane_cli.kernel.process import Process
from vyane_cli.kernel.text import Templates
from vyane_cli.storage import document, files, locks, processes, settings
from vyane_cli.storage.layout import Layout, find_root, root_at
from vyane_cli.storage.locks import Deadline as Deadline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Protocol

    from vyane_cli.channels.port import Adapter
    from vyane_cli.hosts.port import Host
    from vyane_cli.kernel.config import ChannelKeys
    from vyane_cli.storage.locks import LockKind

    class Ways(Protocol):
        """The functions that reach a session without a watch, and that resume a lost session.

        `delivery.ring` implements them. The packages `mail` and `children` may not import it, so
        an entry point passes it in.
        """

        def reach(self, home: Home, worker: str, clock: Clock) -> bool:
            """Type into the worker's pane, or resume its closed session. True if done."""
            ...

        def resume_lost(self, home: Home, worker: str) -> bool:
            """Resume the session of a child that was cut off. Return whether it was started."""
            ...


HOOK_BUDGET_S = 0.8
"""Seconds that one hook call may wait for all its locks together."""
WATCH_BUDGET_S = 5.0
"""The same for an asynchronous handler, for which the session does not wait."""
LOG_MAX_BYTES = 256 * 1024


def local_time(at: float) -> tuple[int, int, int]:
    """Return (weekday, hour, minute) in the machine's time zone, including summer time."""
    there = time.localtime(at)
    return there.tm_wday, there.tm_hour, there.tm_min


def accelerate() -> None:
    """Parse state with orjson from now on. For commands, whose start-up can afford the import."""
    document.accelerate()


class Home:
    """The home of one process: state root, clocks, randomness, settings, templates and locks."""

    def __init__(
        self,
        root: str = "",
        environ: Mapping[str, str] | None = None,
        hosts: Mapping[str, Host] | None = None,
        channels: Mapping[str, Adapter] | None = None,
        ways: Ways | None = None,
    ) -> None:
        self.hosts = dict(hosts or {})
        self.channels = channels
        """The channels that this process can use. None: no channels, their settings are ignored."""
        self.ways = ways
        """How to reach sessions. None: mail waits for the session's own hooks or the next round."""
        self.environ: Mapping[str, str] = dict(os.environ if environ is None else environ)
        here = dict(self.environ)
        self.layout = Layout(root_at(root, here, "home") if root else find_root(here))
        self.limit: Deadline | None = None
        """The deadline for all locks of this process. Only hooks have one."""
        self._config: Config | None = None
        self._templates: Templates | None = None
        self._last_id = ""

    @property
    def config(self) -> Config:
        """Return the settings, read on first use."""
        if self._config is None:
            known = (lambda: self.channel_keys) if self.channels is not None else None
            self._config = settings.load_config(self.layout, known)
        return self._config

    @property
    def channel_keys(self) -> ChannelKeys:
        """Return the keys of `config.toml` that only one channel has, by channel."""
        return {name: adapter.SETTINGS for name, adapter in (self.channels or {}).items()}

    @property
    def templates(self) -> Templates:
        """Return the templates of the texts that agents read, in the language of the settings."""
        if self._templates is None:
            self._templates = settings.load_templates(self.language)
        return self._templates

    @property
    def language(self) -> str:
        """Return the language of the settings; `auto` is resolved by the locale."""
        chosen = str(self.config["language"])
        return locale_language(self.environ) if chosen == "auto" else chosen

    @property
    def mirror_templates(self) -> Templates:
        """Return the templates of the texts that people read in a session's conversation."""
        return settings.load_templates(self.language, "mirror")

    def host(self, name: str) -> Host | None:
        """Return the host module of this name, or None if this process does not have it."""
        return self.hosts.get(name)

    def reach(self, worker: str, clock: Clock) -> bool:
        """Reach a worker's session now, by the ways of this process. Return whether it was done."""
        return self.ways is not None and self.ways.reach(self, worker, clock)

    def resume_lost(self, worker: str) -> bool:
        """Resume a lost child's session, by the ways of this process. Return whether it started."""
        return self.ways is not None and self.ways.resume_lost(self, worker)

    def clock(self) -> Clock:
        """Read all clocks once, for a whole operation."""
        return Clock(
            time.time_ns() // 1_000_000,
            processes.boot_ms(),
            processes.boot_id(),
            processes.awake_ms(),
        )

    def entropy(self, size: int) -> bytes:
        """Return random bytes from the system."""
        return os.urandom(size)

    def new_id(self, now_ms: int) -> str:
        """Return a ULID that sorts after every earlier one of this process."""
        self._last_id = next_ulid(self._last_id, now_ms, self.entropy(10))
        return self._last_id

    def log(self, text: str) -> None:
        """Append a line to `log/hook.log`, for `doctor`. A large log is renamed aside first.

        Never raises: a failed write is ignored, because the log itself is for errors.
        """
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        line = f"{stamp} {text.rstrip()[:2000]}\n".encode("utf-8", "replace")
        try:
            files.add_note(self.layout.log, line, LOG_MAX_BYTES)
        except VyaneError:
            pass

    def identify(self, pid: int) -> Process | None:
        """Return the process that has this pid now; None if it does not exist or cannot be read."""
        return processes.identify(pid)

    def parent_of(self, pid: int) -> int:
        """Return the parent's pid; 0 if it is unknown."""
        return processes.parent_of(pid)

    def me(self) -> Process:
        """Return the identity of this process."""
        return processes.myself()

    def deadline(self, budget_s: float | None = None) -> Deadline:
        """Return a deadline for all locks of one operation, by default `locks.wait_s` from now."""
        return Deadline(float(self.config["locks.wait_s"]) if budget_s is None else budget_s)

    def held(
        self, *wanted: tuple[LockKind, str], deadline: Deadline | None = None
    ) -> AbstractContextManager[None]:
        """Hold these locks in a `with` block. They are taken in the order of their kinds."""
        return locks.held(self.layout.root, list(wanted), deadline or self.limit or self.deadline())


def locale_language(environ: Mapping[str, str]) -> str:
    """Return `zh` for a Chinese locale, else `en`. LC_ALL before LC_MESSAGES before LANG."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environ.get(name):
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"
