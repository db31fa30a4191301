"""What was asked, what was answered, what was there afterwards; and whether that can be.

Each process of a run appends one line for every call to a log of its own: `invoke` before it, then
`ok` or `failed`. A call without an answer is `unknown`: its process died. Those who show messages
log `shown` at the moment of the output, with its mark, and `gave-up` when they missed a lock, be
it after that moment; readers log `read`.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SHOWN = re.compile(r"\bid ([0-9A-HJKMNP-TV-Z]{26})([^\n]*)")
REDELIVERED = "redelivered"


class Log:
    """The lines of one process: each is one write, so that a kill cuts none in two."""

    def __init__(self, folder: Path, who: str) -> None:
        self.who, self.path = who, folder / f"{who}.log"
        self.fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def __call__(self, event: str, **fields: Any) -> None:
        line = json.dumps({"who": self.who, "event": event, **fields}) + "\n"
        os.write(self.fd, line.encode())

    def shown(self, text: str) -> None:
        """Every message in a text that an agent gets."""
        for message, rest in SHOWN.findall(text):
            self("shown", id=message, marked=REDELIVERED in rest)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@dataclass
class History:
    """All logs of a run together."""

    ok: dict[str, str] = field(default_factory=dict)
    """Text → id of what was acknowledged."""
    failed: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    shown: list[tuple[str, bool]] = field(default_factory=list)
    """(id, marked) in the order of each process's log."""
    read: dict[str, list[int]] = field(default_factory=dict)
    gave_up: int = 0
    """Calls that missed a lock: what such a one had shown and not recorded comes again, marked."""

    @property
    def invoked(self) -> set[str]:
        return set(self.ok) | self.failed | self.unknown


def gather(folder: Path) -> History:
    found = History()
    for path in sorted(folder.glob("*.log")):
        waiting: str | None = None
        for line in lines(path):
            match line["event"]:
                case "invoke":
                    if waiting is not None:
                        found.unknown.add(waiting)
                    waiting = line["text"]
                case "ok":
                    found.ok[line["text"]] = line["id"]
                    waiting = None
                case "failed":
                    found.failed.add(line["text"])
                    waiting = None
                case "unknown":
                    found.unknown.add(line["text"])
                    waiting = None
                case "shown":
                    found.shown.append((line["id"], line["marked"]))
                case "gave-up":
                    found.gave_up += 1
                case "read":
                    found.read.setdefault(line["who"], []).append(line["seq"])
        if waiting is not None:
            found.unknown.add(waiting)
    return found


def sender_of(text: str) -> tuple[str, int]:
    who, _, number = text.rpartition(":")
    return who, int(number)


def violations(
    history: History,
    stored: Sequence[tuple[str, str]],
    *,
    deaths: int = 0,
    delivered: bool = True,
) -> list[str]:
    """What cannot be, given `stored`: (id, text) of every message that is there.

    `deaths`: how many processes that show messages were killed; each may have shown one output
    that it did not record. `delivered`: everything was drained, so what is there was shown.
    """
    found: list[str] = []
    texts = Counter(text for _, text in stored)
    ids = dict(stored)
    for text, message in history.ok.items():
        if text not in texts:
            found.append(f"lost: {text} was acknowledged")
        elif ids.get(message) != text:
            found.append(f"another id: {text} was acknowledged as {message}")
    found += [f"doubled: {text} is there {n} times" for text, n in texts.items() if n > 1]
    found += [f"visible though it failed: {t}" for t in sorted(history.failed & set(texts))]
    found += [f"from nowhere: {text}" for text in sorted(set(texts) - history.invoked)]
    times = Counter(message for message, _ in history.shown)
    plain = Counter(message for message, marked in history.shown if not marked)
    if delivered:
        found += [f"never shown: {ids[message]}" for message in ids if not times[message]]
    found += [f"shown, and not there: {message}" for message in times if message not in ids]
    found += [f"shown twice without a mark: {ids.get(m, m)}" for m, n in plain.items() if n > 1]
    doubled = sum(1 for n in times.values() if n > 1)
    if doubled and not deaths and not history.gave_up:
        found.append(f"shown twice though nobody died or gave up: {doubled}")
    for who, seqs in history.read.items():
        found += gaps(who, seqs)
    return found


def gaps(who: str, seqs: Iterable[int]) -> list[str]:
    """A reader sees each event once, in order."""
    found, last = [], None
    for seq in seqs:
        if last is not None and seq != last + 1:
            found.append(f"{who} read {seq} after {last}")
        last = seq
    return found


def reordered(stored: Iterable[str]) -> list[str]:
    """Texts of one inbox in the order of their positions: each sender's own must ascend."""
    last: dict[str, int] = {}
    found = []
    for text in stored:
        who, number = sender_of(text)
        if number <= last.get(who, -1):
            found.append(f"order: {who}:{number} stands after {last[who]}")
        last[who] = number
    return found
