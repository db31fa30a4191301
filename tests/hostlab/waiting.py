"""Waiting for conditions, never for time to pass."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.03


def wait_until(
    condition: Callable[[], T],
    what: str,
    *,
    timeout_s: float = 15.0,
    context: Callable[[], str] | None = None,
) -> T:
    """Poll until `condition()` is true and return its value.

    Raises TimeoutError that says `what` did not happen, followed by `context()`: what a
    person would look at first, such as the screen.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            seen = f"\n{context()}" if context else ""
            raise TimeoutError(f"not within {timeout_s:g} s: {what}{seen}")
        time.sleep(POLL_S)


def unchanged(reading: Callable[[], T], *, for_s: float, timeout_s: float = 30.0) -> T:
    """Return the reading once it has been the same for `for_s` seconds on end.

    This is how a test sees that something does *not* happen: nothing announces that.
    """
    deadline = time.monotonic() + timeout_s
    last, since = reading(), time.monotonic()
    while time.monotonic() - since < for_s:
        time.sleep(POLL_S)
        now = reading()
        if now != last:
            last, since = now, time.monotonic()
        if time.monotonic() > deadline:
            raise TimeoutError(f"still changing after {timeout_s:g} s: {last!r}")
    return last
