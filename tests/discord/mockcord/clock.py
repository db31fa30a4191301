"""A clock that tests can push forward, and Discord's time-ordered ids made from it."""

from __future__ import annotations

import datetime as dt
import threading
import time

DISCORD_EPOCH_MS = 1_420_070_400_000


class Clock:
    """Real time plus an offset; nonce windows, rate limits and auto-archive all follow it."""

    def __init__(self) -> None:
        self._offset = 0.0
        self._last = 0
        self._count = 0
        self._lock = threading.Lock()

    def now(self) -> float:
        return time.time() + self._offset

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time only goes forward")
        self._offset += seconds

    def snowflake(self, earlier_ms: int = 0) -> str:
        """A new id; `earlier_ms` back-dates it, as ids made on another worker can be."""
        with self._lock:
            value = (int(self.now() * 1000) - DISCORD_EPOCH_MS - earlier_ms) << 22
            if earlier_ms:
                self._count += 1  # another worker's bits, so it cannot equal one of ours
                return str(value | 0x3E0000 | self._count & 0xFFF)
            self._last = max(value, self._last + 1)
            return str(self._last)


def iso(when: float) -> str:
    return dt.datetime.fromtimestamp(when, dt.UTC).isoformat(timespec="microseconds")


def snowflake_at(when: float) -> int:
    """The smallest id made at that time: what a client sends as `after` to start there."""
    return (int(when * 1000) - DISCORD_EPOCH_MS) << 22
