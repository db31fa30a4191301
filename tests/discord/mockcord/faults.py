"""Trouble on demand: server errors, lost answers, slowness, forced 429s."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

KINDS = {
    "status",  # answer with `status`; `when` decides whether the request took effect first
    "drop",  # close the connection without an answer
    "delay",  # wait `seconds` (longer than the client's timeout, say), then go on as usual
    "rate_limit",  # a 429 with `retry_after`, `scope` and `everywhere`
    "ban",  # the edge network's own 429: no rate-limit headers, no retry_after
    "garbage",  # 200 with a body that is not JSON
}


@dataclass
class Fault:
    kind: str
    operation: str = ".*"  # regular expression over operation ids
    when: str = "before"  # or "after": the request takes effect, the client does not learn of it
    times: int = 1  # how often; -1 for always
    skip: int = 0  # let this many matching requests through first
    status: int = 502
    seconds: float = 0.0
    retry_after: float = 1.0
    scope: str = "user"
    everywhere: bool = False
    hits: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"fault kind must be one of {sorted(KINDS)}")
        if self.when not in ("before", "after"):
            raise ValueError("when must be 'before' or 'after'")
        re.compile(self.operation)


class Faults:
    def __init__(self) -> None:
        self._rules: list[Fault] = []

    def add(self, **options: Any) -> Fault:
        rule = Fault(**options)
        self._rules.append(rule)
        return rule

    def clear(self) -> None:
        self._rules.clear()

    def pick(self, operation: str) -> Fault | None:
        for rule in self._rules:
            if rule.times == 0 or not re.fullmatch(rule.operation, operation):
                continue
            if rule.skip > 0:
                rule.skip -= 1
                continue
            if rule.times > 0:
                rule.times -= 1
            rule.hits += 1
            return rule
        return None
