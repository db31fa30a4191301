"""Rate limits as the documentation describes their shape.

Discord publishes the headers, the 429 body and the global and invalid-request limits, and
says that route limits must not be hard coded: the numbers below are only plausible ones, and
every one of them can be changed in the world's `limits`.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any

# operation -> (bucket, limit, seconds).  Top-level ids (channel, guild) split a bucket.
ROUTES: dict[str, tuple[str, int, float]] = {
    "create_message": ("channel-messages", 5, 5.0),
    "update_message": ("channel-message-edit", 5, 5.0),
    "list_messages": ("channel-messages-read", 5, 1.0),
    "get_message": ("channel-messages-read", 5, 1.0),
    "add_my_message_reaction": ("reactions", 1, 0.25),
    "create_thread": ("threads", 10, 30.0),
    "update_channel": ("channel-edit", 5, 15.0),
}
DEFAULT = ("general", 10, 1.0)

# Limits that never show in the headers: the 429 comes while `remaining` is still above zero.
HIDDEN: dict[str, tuple[int, float]] = {
    "thread-rename": (2, 600.0),
    "old-message-edit": (3, 20.0),
}


@dataclass
class Window:
    limit: int
    seconds: float
    used: int = 0
    resets: float = 0.0

    def take(self, now: float) -> bool:
        if now >= self.resets:
            self.used, self.resets = 0, now + self.seconds
        if self.used >= self.limit:
            return False
        self.used += 1
        return True

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)


@dataclass
class Verdict:
    headers: dict[str, str]
    refused: dict[str, Any] | None = None  # the 429 body


@dataclass
class Limits:
    routes: dict[str, tuple[str, int, float]] = field(default_factory=lambda: dict(ROUTES))
    hidden: dict[str, tuple[int, float]] = field(default_factory=lambda: dict(HIDDEN))
    global_per_second: int = 50
    invalid_per_10_minutes: int = 10_000
    enabled: bool = True
    _windows: dict[tuple[str, str], Window] = field(default_factory=dict)
    _told: dict[tuple[str, str], float] = field(default_factory=dict)
    _global: Window | None = None
    _invalid: Window | None = None

    def configure(self, options: dict[str, Any]) -> None:
        for name, value in options.items():
            if name in ("routes", "hidden"):
                getattr(self, name).update({k: tuple(v) for k, v in value.items()})
            elif name in ("global_per_second", "invalid_per_10_minutes", "enabled"):
                setattr(self, name, value)
            else:
                raise KeyError(f"unknown limit option {name!r}")

    # -- the invalid-request ban -------------------------------------------------
    def banned(self, now: float) -> bool:
        w = self._invalid
        return bool(self.enabled and w and now < w.resets and w.used >= w.limit)

    def note_invalid(self, now: float) -> None:
        if self._invalid is None:
            self._invalid = Window(self.invalid_per_10_minutes, 600.0)
        self._invalid.take(now)

    # -- one request ---------------------------------------------------------------
    def take(
        self, operation: str, top: str, hidden: list[tuple[str, str]], now: float
    ) -> tuple[Verdict, list[str]]:
        """Count a request.  Returns the verdict and what a careful client would not have done."""
        habits: list[str] = []
        if not self.enabled:
            return Verdict({}), habits
        if self._global is None:
            self._global = Window(self.global_per_second, 1.0)
        if not self._global.take(now):
            wait = self._global.resets - now
            body = refusal(wait, everywhere=True)
            head = {
                "X-RateLimit-Global": "true",
                "X-RateLimit-Scope": "global",
                "Retry-After": str(math.ceil(wait)),
            }
            return Verdict(head, body), habits
        bucket, limit, seconds = self.routes.get(operation, DEFAULT)
        key = (bucket, top)
        window = self._windows.get(key)
        if window is None or (window.limit, window.seconds) != (limit, seconds):
            window = self._windows[key] = Window(limit, seconds)
        told = self._told.get(key, 0.0)
        if now < told:
            habits.append(f"{operation}: sent before the time the last answer told it to wait for")
        if not window.take(now):
            self._told[key] = window.resets
            wait = window.resets - now
            head = self._headers(bucket, window, now)
            head |= {"X-RateLimit-Scope": "user", "Retry-After": str(math.ceil(wait))}
            return Verdict(head, refusal(wait)), habits
        for name, at in hidden:
            if name not in self.hidden:
                continue
            hlimit, hseconds = self.hidden[name]
            hwin = self._windows.setdefault((name, at), Window(hlimit, hseconds))
            if now < self._told.get((name, at), 0.0):
                habits.append(
                    f"{operation}: sent before the Retry-After of the last 429 had passed"
                )
            if not hwin.take(now):
                wait = hwin.resets - now
                self._told[(name, at)] = hwin.resets
                head = self._headers(bucket, window, now)
                head |= {"X-RateLimit-Scope": "user", "Retry-After": str(math.ceil(wait))}
                body = refusal(wait)
                if name == "old-message-edit":
                    body = {**body, "code": 30046, "message": "too many edits of old messages"}
                return Verdict(head, body), habits
        if window.remaining == 0:
            self._told[key] = window.resets
        return Verdict(self._headers(bucket, window, now)), habits

    @staticmethod
    def _headers(bucket: str, window: Window, now: float) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(window.limit),
            "X-RateLimit-Remaining": str(window.remaining),
            "X-RateLimit-Reset": f"{window.resets:.3f}",
            "X-RateLimit-Reset-After": f"{max(0.0, window.resets - now):.3f}",
            "X-RateLimit-Bucket": hashlib.md5(bucket.encode(), usedforsecurity=False).hexdigest(),
        }


def refusal(wait: float, everywhere: bool = False) -> dict[str, Any]:
    return {
        "message": "too many requests",
        "retry_after": round(max(wait, 0.001), 3),
        "global": everywhere,
    }
