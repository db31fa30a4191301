"""Contender: one of many processes that do the same at the same time.

`python -m benchmarks.contender WHAT …` prints "ready", waits until its standard input is closed,
does its work, and prints one JSON document.
"""

import json
import os
import sys
import time
from collections.abc import Callable

from benchmarks.homes import PERSON
from vyane_cli.errors import VyaneError
from vyane_cli.home import Home, accelerate
from vyane_cli.mail.send import MessageDraft, send
from vyane_cli.storage import locks


def main(what: str, *words: str) -> None:
    """Prepare the work, wait for the other contenders, then do the work."""
    kinds: dict[str, Callable[..., Callable[[], object]]] = {"send": sending, "lock": locking}
    prepared = kinds[what](*words)
    os.write(1, b"ready\n")
    sys.stdin.read()
    print(json.dumps(prepared()))


def sending(root: str, worker: str, number: str, count: str, limit_s: str) -> Callable[[], object]:
    """Prepare to send `count` messages in at most `limit_s` seconds.

    The prepared function returns the acknowledged messages, the errors and the slowest send.
    """
    accelerate()
    home = Home(root)

    def run() -> object:
        end = time.monotonic() + float(limit_s)
        acknowledged, errors, slowest = [], 0, 0.0
        for index in range(int(count)):
            began = time.monotonic()
            if began > end:
                break
            try:
                sent = send(home, MessageDraft(worker, f"{number}:{index}"), PERSON)
                acknowledged.append([index, sent.message.id])
            except VyaneError:
                errors += 1
            slowest = max(slowest, time.monotonic() - began)
        return {"acknowledged": acknowledged, "errors": errors, "slowest_s": slowest}

    return run


def locking(root: str, rounds: str, hold_s: str, how: str) -> Callable[[], object]:
    """Prepare to take one lock `rounds` times; `how` is "vyane", or anything else for flock(2).

    The prepared function returns the waits in seconds.
    """
    path = locks.lock_path(root, locks.LockKind.INBOX, "contended")
    os.makedirs(os.path.dirname(path), exist_ok=True)

    def by_vyane() -> float:
        began = time.monotonic()
        with locks.held(root, [(locks.LockKind.INBOX, "contended")], locks.Deadline(60)):
            waited = time.monotonic() - began
            time.sleep(float(hold_s))
        return waited

    def by_flock() -> float:
        import fcntl

        began = time.monotonic()
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            waited = time.monotonic() - began
            time.sleep(float(hold_s))
        finally:
            os.close(fd)
        return waited

    take = by_vyane if how == "vyane" else by_flock
    return lambda: [take() for _ in range(int(rounds))]


if __name__ == "__main__":
    main(*sys.argv[1:])
