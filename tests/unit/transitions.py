"""Transitions of a timeline as lines, and the damage that a checker finds in lines."""

import json

from vyane_cli.hosts.port import Trigger
from vyane_cli.kernel.clock import Clock
from vyane_cli.timeline import turns
from vyane_cli.timeline.check import Checker, TimelineDamage
from vyane_cli.timeline.turns import Transition, render_timeline_head

CLOCK = Clock(1_800_000_000_000, 5_000)
VS = "vs-0123456789ab"


def begin(state: Transition, number: int = 1) -> Transition:
    return turns.start(
        state,
        CLOCK,
        turn=f"01{number:024}",
        token="t",
        trigger=Trigger.HUMAN,
        session="host",
    )


def lines(state: Transition) -> list[dict]:
    return [
        {
            "v": 1,
            "epoch": head.epoch,
            "seq": event.seq,
            "session": VS,
            "kind": str(event.kind),
            "turn": event.turn,
            "turn_number": event.turn_number,
            "at": event.at,
            "payload": dict(event.payload),
            "head": json.loads(json.dumps(render_timeline_head(head))),
        }
        for event, head in zip(state.events, state.heads, strict=True)
    ]


def found(records: list[dict]) -> TimelineDamage | None:
    checker = Checker(VS)
    for record in records:
        fault = checker.check(record)
        if fault is not None:
            return fault.damage
    return None
