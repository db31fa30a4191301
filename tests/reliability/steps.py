"""One act, again and again from the same home, stopped or failed at each call that changes a file.

The seam is `storage/files.step`; what it does not see, strace does (`test_r02_kill_by_syscall`).
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.operations.faults import Outcome, Say
from tests.reliability import acts
from tests.reliability.acts import ACTS, WAITS, Case, Lab

Start = str
TORN = b'{"v":1,"op":"message","message":{"id'


class Act(NamedTuple):
    """An act on its home, and what a run without a fault comes to."""

    lab: Lab
    case: Case
    copy: Path
    before: object
    after: object
    twice: object
    """After the same command once more."""
    flaws: frozenset[str] = frozenset()
    """What is damaged from the beginning, for the command to mend."""

    def restore(self) -> None:
        acts.restore(self.lab.home, self.copy)

    def run(self, how: Callable[[Callable[[Say], None]], Outcome]) -> Outcome:
        return how(partial(acts.run_here, self.lab, self.case))

    def code(self, outcome: Outcome) -> int | None:
        """The exit code, if it came so far."""
        return int(outcome.said[0]["code"]) if outcome.said else None


def untouched(action: Callable[[Say], None]) -> Outcome:
    from tests.operations.faults import stopped_at

    return stopped_at(100_000, action)


@contextmanager
def act(name: str, start: Start = "normal") -> Iterator[Act]:
    """The act of this name: `normal`, `damaged` (half a line, a temporary file), or `empty`."""
    acts.preload()
    with acts.lab() as lab:
        if start == "damaged":
            damage(lab)
        case = ACTS[name](lab)
        copy = acts.snapshot(lab.home)
        try:
            before = case.seen()
            flaws = frozenset(acts.unsound(lab))
            made = Act(lab, case, copy, before, None, None, flaws)
            first = made.run(untouched)
            assert made.code(first) in case.codes, acts.printed(lab)
            after = case.seen()
            made.run(untouched)
            twice = case.seen()
            made = made._replace(after=after, twice=twice)
            made.restore()
            yield made
        finally:
            shutil.rmtree(copy, ignore_errors=True)


def damage(lab: Lab) -> None:
    """What an earlier kill may have left: half a line in each journal, and a temporary file."""
    for path in [*lab.home.rglob("worker-*.jsonl"), *lab.home.rglob("events.jsonl")]:
        with path.open("ab") as file:
            file.write(TORN)
    (lab.home / ".config.toml.999999.tmp").write_bytes(b"{")


def faults_after(act: Act, outcome: Outcome) -> list[str]:
    """What must hold however the command ended; then it is run again, and must come to its end."""
    case = act.case
    found = [one for one in acts.unsound(act.lab) if one not in act.flaws]
    seen, code = case.seen(), act.code(outcome)
    out, err = acts.printed(act.lab)
    if outcome.surprise:
        found.append(f"surprise: {outcome.error}")
    if code is not None and b'"internal"' in err:
        found.append(f"internal: {err!r}")
    if seen not in (act.before, act.after, *case.between) and not case.stepwise:
        found.append(f"neither old nor new: {seen}")
    left = any(word in out for word in (b'"problems": [{', b'"kept": [{'))
    said = case.stepwise and (code == 8 or left)
    if code == 0 and seen != act.after and not said:
        found.append(f"exit {code}, and yet: {seen}")
    if code == 8 and seen not in (act.after, *case.between) and not said:
        found.append(f"exit {code}, and yet: {seen}")
    undone = (act.before, *case.between)
    if code in (1, 6, 7) and code not in case.codes and seen not in undone and not case.stepwise:
        found.append(f"exit {code}, and yet: {seen}")
    again = act.run(untouched)
    more, complaint = acts.printed(act.lab)
    if act.code(again) not in (*case.codes, *case.again, 3, 4):
        found.append(f"the next one: {again} {complaint!r}")
    if case.seen() not in (act.after, act.twice, *case.later):
        found.append(f"after the next one: {case.seen()}")
    found += acts.unsound(act.lab)
    if case.mail:
        shown = b"\n".join((out, more)).decode() + acts.given(act.lab)
        if WAITS not in shown:
            found.append("the message that waited is lost")
    return [f"{outcome.at}: {one}" for one in found]
