"""Discord's rate limits: what its answers said, until when nothing is sent. Kept between runs.

Discord tells the limits in the headers of each answer and asks clients to follow those, not
numbers of their own. A route belongs to a bucket, which only an answer names; the buckets count
per channel. Some limits show in no header (renaming a thread): there the time of the 429 counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MARGIN_MS = 50
"""Added to each time: two clocks, and milliseconds that were rounded."""
LONGEST_MS = 24 * 3_600_000
"""No wait is longer: a clock that was set back must not stop a channel for years."""
BAN_MS = 10 * 60_000
"""The network before the API turns clients away that were refused too often, and does not say for
how long. Ten minutes is the window in which it counts."""


class Limits:
    """The limits of one bot. `state` is JSON; it changes in place."""

    def __init__(self, state: dict[str, Any], now_ms: int) -> None:
        self.state = state
        if not isinstance(state.get("until"), dict) or not isinstance(state.get("buckets"), dict):
            state.clear()
            state.update(buckets={}, until={})
        until = state["until"]
        for key in [key for key, at in until.items() if not _lies_ahead(at, now_ms)]:
            del until[key]

    def free_ms(self, route: str, top: str) -> int:
        """When the next request of this route may go out; 0 for at once."""
        until = self.state["until"]
        keys = ("global", "ban", self._key(route, top), f"{route}|{top}")
        return max(int(until.get(key, 0)) for key in keys)

    def is_everywhere(self, now_ms: int) -> bool:
        """Whether every route waits."""
        until = self.state["until"]
        return max(int(until.get("global", 0)), int(until.get("ban", 0))) > now_ms

    @property
    def banned(self) -> bool:
        """Whether the last thing heard was a ban."""
        return "ban" in self.state["until"]

    def learn(self, route: str, top: str, headers: Mapping[str, str], now_ms: int) -> None:
        """Take in the headers of an answer."""
        if bucket := headers.get("X-RateLimit-Bucket"):
            self.state["buckets"][route] = bucket
        remaining, after = (
            headers.get("X-RateLimit-Remaining"),
            headers.get("X-RateLimit-Reset-After"),
        )
        if remaining == "0" and (seconds := _number(after)) is not None:
            self._hold(self._key(route, top), now_ms, seconds)

    def refused(
        self, route: str, top: str, headers: Mapping[str, str], body: object, now_ms: int
    ) -> None:
        """Take in a 429."""
        data = body if isinstance(body, dict) else {}
        seconds = _number(data.get("retry_after"))
        if seconds is None:
            seconds = _number(headers.get("Retry-After"))
        if seconds is None:
            self.state["until"]["ban"] = now_ms + BAN_MS
        elif data.get("global") is True or headers.get("X-RateLimit-Global") == "true":
            self._hold("global", now_ms, seconds)
        else:
            self._hold(f"{route}|{top}", now_ms, seconds)

    def _hold(self, key: str, now_ms: int, seconds: float) -> None:
        wait = min(int(seconds * 1000) + MARGIN_MS, LONGEST_MS)
        self.state["until"][key] = max(now_ms + wait, int(self.state["until"].get(key, 0)))

    def _key(self, route: str, top: str) -> str:
        return f"{self.state['buckets'].get(route, route)}|{top}"


def _lies_ahead(at: object, now_ms: int) -> bool:
    return isinstance(at, int) and now_ms < at <= now_ms + LONGEST_MS + MARGIN_MS


def _number(value: object) -> float | None:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < 1e9 else None
