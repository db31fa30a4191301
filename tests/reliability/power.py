"""An act traced once, and everything that a loss of power may leave of it, checked one by one."""

from typing import NamedTuple

from tests.reliability import acts, steps, tracing
from tests.reliability.disk import crash_states, lay_out
from tests.reliability.tracing import Call


class Losses(NamedTuple):
    """What came of the replay of one trace."""

    states: int
    violations: list[str]
    calls: list[Call]


def lose_power(name: str, fault: str = "", limit: int = 10**9) -> Losses:
    """Run the act once under strace, then look at each state that a loss of power may leave."""
    with steps.act(name) as act:
        lab, case = act.lab, act.case
        environ = {**lab.environ(), **case.environ}
        words = case.words if case.words[0] == "tick" else ("--json", *case.words)
        ran = tracing.trace(
            words, environ, case.stdin, cwd=lab.one.cwd, fault=fault, alone=case.alone
        )
        assert ran.status in case.codes, (ran.status, ran.err[-2000:])
        act.restore()
        top, tick = lab.home.parent, case.words[0] == "tick"
        found: list[str] = []
        states = 0
        for number, state in crash_states(top, ran.calls):
            said = any(c.fd == 1 and c.name == "write" for c in ran.calls[:number])
            lay_out(top, state)
            out = ran.out if said and tick else b""
            faults = after_loss(act, said and not tick and case.told, out)
            found += [f"{state.why}: {fault}" for fault in faults]
            states += 1
            if len(found) >= limit:
                break
        return Losses(states, found, ran.calls)


def after_loss(act: steps.Act, acknowledged: bool, shown: bytes) -> list[str]:
    """What was acknowledged is there; the next command works; the mail that waited is given."""
    case = act.case
    seen = case.seen()
    found = [f"damaged: {one}" for one in acts.unsound(act.lab) if one not in act.flaws]
    if acknowledged and seen != act.after:
        found.append(f"acknowledged, and yet: {seen}")
    if seen not in (act.before, act.after, *case.between) and not case.stepwise:
        found.append(f"neither old nor new: {seen}")
    again = act.run(steps.untouched)
    out, err = acts.printed(act.lab)
    if act.code(again) not in (*case.codes, *case.again, 3, 4):
        found.append(f"the next one: {again} {err!r}")
    if case.seen() not in (act.after, act.twice, *case.later):
        found.append(f"after the next one: {case.seen()}")
    if case.mail and acts.WAITS not in shown.decode() + out.decode() + acts.given(act.lab):
        found.append("the message that waited is lost")
    return found


def indiscreet(calls: list[Call]) -> list[str]:
    """Writes to a journal that are no whole lines: another writer, or a reader, may be between."""
    return [
        f"{call.name} of {len(call.data)} bytes to {call.path}"
        for call in calls
        if call.path.endswith(".jsonl") and call.data and not call.data.endswith(b"\n")
    ]
