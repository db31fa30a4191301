"""What an operation needs of the world: built once by an entry point, passed down."""

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
        """How a session is reached where no watch rings, and how a lost one is opened again.

        `delivery/ring` has them. Mail and children lie below it, so an entry hands them in.
        """

        def reach(self, home: Home, worker: str, clock: Clock) -> bool:
            """Type into the worker's pane, or open its closed session again; True when done."""
            ...

        def resume_lost(self, home: Home, worker: str) -> bool:
            """Open the session of a child that was broken off again; True when it is started."""
            ...


HOOK_BUDGET_S = 0.8
"""One deadline for all locks of one hook call."""
WATCH_BUDGET_S = 5.0
"""The same for a handler that runs beside the session."""
LOG_MAX_BYTES = 256 * 1024


def local_time(at: float) -> tuple[int, int, int]:
    """(weekday, hour, minute) in the time zone of the machine, summer time and all."""
    there = time.localtime(at)
    return there.tm_wday, there.tm_hour, there.tm_min


def accelerate() -> None:
    """Read state with orjson from here on: for commands, whose start-up can bear the import."""
    document.accelerate()


class Home:
    """The state root, the clocks, randomness, the settings and the texts of one process."""

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
        """The channels that this process can speak to; None: none, and it takes no notice."""
        self.ways = ways
        """None: mail waits for the session's own hooks, and for the next round."""
        self.environ: Mapping[str, str] = dict(os.environ if environ is None else environ)
        here = dict(self.environ)
        self.layout = Layout(root_at(root, here, "home") if root else find_root(here))
        self.limit: Deadline | None = None
        """One budget for all locks of this process, if it has one: a hook's."""
        self._config: Config | None = None
        self._templates: Templates | None = None
        self._last_id = ""

    @property
    def config(self) -> Config:
        """The settings, read on first use."""
        if self._config is None:
            known = (lambda: self.channel_keys) if self.channels is not None else None
            self._config = settings.load_config(self.layout, known)
        return self._config

    @property
    def channel_keys(self) -> ChannelKeys:
        """The keys that each channel has for itself."""
        return {name: adapter.SETTINGS for name, adapter in (self.channels or {}).items()}

    @property
    def templates(self) -> Templates:
        """The texts that agents read, in the language of the settings."""
        if self._templates is None:
            self._templates = settings.load_templates(self.language)
        return self._templates

    @property
    def language(self) -> str:
        """The language of the settings, `auto` resolved."""
        chosen = str(self.config["language"])
        return locale_language(self.environ) if chosen == "auto" else chosen

    @property
    def mirror_templates(self) -> Templates:
        """The texts that people read in a session's conversation."""
        return settings.load_templates(self.language, "mirror")

    def host(self, name: str) -> Host | None:
        """The module that knows a host's own records, if this process has it."""
        return self.hosts.get(name)

    def reach(self, worker: str, clock: Clock) -> bool:
        """Reach a worker's session now, by the ways that this process has; True when done."""
        return self.ways is not None and self.ways.reach(self, worker, clock)

    def resume_lost(self, worker: str) -> bool:
        """Open the session of a lost child again, by the ways that this process has."""
        return self.ways is not None and self.ways.resume_lost(self, worker)

    def clock(self) -> Clock:
        """One reading of the clocks, for a whole operation."""
        return Clock(
            time.time_ns() // 1_000_000,
            processes.boot_ms(),
            processes.boot_id(),
            processes.awake_ms(),
        )

    def entropy(self, size: int) -> bytes:
        """Random bytes from the system."""
        return os.urandom(size)

    def new_id(self, now_ms: int) -> str:
        """A ULID that sorts after every earlier one of this process."""
        self._last_id = next_ulid(self._last_id, now_ms, self.entropy(10))
        return self._last_id

    def log(self, text: str) -> None:
        """A line of `log/hook.log`, for `doctor`; it is begun anew when it grows large.

        Never raises: it tells of errors.
        """
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        line = f"{stamp} {text.rstrip()[:2000]}\n".encode("utf-8", "replace")
        try:
            files.add_note(self.layout.log, line, LOG_MAX_BYTES)
        except VyaneError:
            pass

    def identify(self, pid: int) -> Process | None:
        """The process that has this pid now."""
        return processes.identify(pid)

    def parent_of(self, pid: int) -> int:
        """The parent's pid, 0 when it cannot be told."""
        return processes.parent_of(pid)

    def me(self) -> Process:
        """This process."""
        return processes.myself()

    def deadline(self, budget_s: float | None = None) -> Deadline:
        """How long all locks of one operation may take; a command's wait is a setting."""
        return Deadline(float(self.config["locks.wait_s"]) if budget_s is None else budget_s)

    def held(
        self, *wanted: tuple[LockKind, str], deadline: Deadline | None = None
    ) -> AbstractContextManager[None]:
        """Hold these locks, in their order."""
        return locks.held(self.layout.root, list(wanted), deadline or self.limit or self.deadline())


def locale_language(environ: Mapping[str, str]) -> str:
    """`zh` for a Chinese locale, else `en`: LC_ALL before LC_MESSAGES before LANG."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environ.get(name):
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"
