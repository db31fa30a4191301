"""File watches: wait until a file changes, by kernel events, or else by polling every 0.5 s.

Linux: inotify, through `inotify-simple`. macOS and the BSDs: kqueue (untested on a Mac). With
kernel events an idle wait makes no system call, except for a safety check every 30 s.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import Any

POLL_S = 0.5
LOOK_S = 30.0
"""Seconds between safety checks: network file systems do not report other machines' writes."""


class Changes:
    """A watch on one file, which may not exist yet. Use it as a context manager."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.watched = ""
        self._close: Callable[[], object] = lambda: None
        self._source: Any = None
        self._made = _open_inotify() if hasattr(select, "poll") else None
        if self._made is not None:
            self._close = self._made.close
        self.rearm()

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()
        self._release()

    @property
    def by_kernel(self) -> bool:
        """Return whether the kernel reports changes, so that waiting needs no polling."""
        return bool(self.watched)

    def rearm(self) -> None:
        """Watch the file's folder, or its nearest ancestor that exists."""
        while (folder := self._nearest()) != self.watched:
            try:
                if self._made is not None:
                    self._made.add_watch(folder, _MASK)
                elif hasattr(select, "kqueue"):
                    self._watch_by_kqueue(folder)
                else:
                    return
            except OSError:  # no watches left, or unsupported by this file system
                self.watched = ""
                return
            self.watched = folder  # check again: a folder below may exist by now

    def _nearest(self) -> str:
        folder = os.path.dirname(self.path)
        while not os.path.isdir(folder) and folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)
        return folder

    def wait(self, timeout_s: float | None = None, out: int | None = None) -> bool:
        """Wait for a change or the timeout. Return False if the reader of pipe `out` is gone."""
        limit_s = LOOK_S if self.by_kernel else POLL_S
        if timeout_s is not None:
            limit_s = min(limit_s, timeout_s)
        if not self.by_kernel:
            time.sleep(max(limit_s, 0))
        elif self._made is not None:
            poller = select.poll()
            poller.register(self._made.fileno(), select.POLLIN)
            if out is not None:
                poller.register(out, 0)  # poll reports errors and hang-ups without being asked
            ready = poller.poll(max(limit_s, 0) * 1000)
            if any(fd == out for fd, _ in ready) and out != self._made.fileno():
                return False
            if ready:
                self._made.read(timeout=0)
        else:
            self._source.control([], 8, max(limit_s, 0))
            self._rearm_by_kqueue()
        self.rearm()
        return True

    # ---------------------------------------------------------- macOS: written, never run there

    def _watch_by_kqueue(self, folder: str) -> None:
        self._release()
        self._source = select.kqueue()  # type: ignore[attr-defined,unused-ignore]
        self._fds: list[int] = []
        self._folder = folder
        self._rearm_by_kqueue()

    def _rearm_by_kqueue(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds = []
        flags = select.KQ_EV_ADD | select.KQ_EV_CLEAR  # type: ignore[attr-defined,unused-ignore]
        notes = (
            select.KQ_NOTE_WRITE  # type: ignore[attr-defined,unused-ignore]
            | select.KQ_NOTE_DELETE  # type: ignore[attr-defined,unused-ignore]
            | select.KQ_NOTE_RENAME  # type: ignore[attr-defined,unused-ignore]
        )
        changes = []
        for path in (self._folder, self.path):
            try:
                fd = os.open(path, getattr(os, "O_EVTONLY", os.O_RDONLY) | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            self._fds.append(fd)
            changes.append(
                select.kevent(  # type: ignore[attr-defined,unused-ignore]
                    fd,
                    select.KQ_FILTER_VNODE,  # type: ignore[attr-defined,unused-ignore]
                    flags,
                    notes,
                )
            )
        self._source.control(changes, 0, 0)

    def _release(self) -> None:
        for fd in getattr(self, "_fds", ()):
            os.close(fd)
        if self._source is not None:
            self._source.close()


def _open_inotify() -> Any:
    """Open inotify. Return None if the system does not provide it."""
    if os.uname().sysname != "Linux":
        return None
    try:
        import inotify_simple

        return inotify_simple.INotify()
    except (ImportError, OSError):
        return None


_MASK = 0x2 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
"""Events of inotify(7): MODIFY, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF, MOVE_SELF."""
