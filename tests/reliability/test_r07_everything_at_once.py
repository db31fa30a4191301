"""Writers, tickers, compaction and readers by cursor at the same time; nobody is killed."""

import os
import re

from tests.reliability import history
from tests.reliability.actors import Stage, wait_for
from tests.reliability.scale import size
from tests.simulated import program

MESSAGES = size(4_000, 100_000)
WRITERS, TICKERS, READERS = 8, 4, 2
SENDS = size(10, 200)
ROOM = 512 * 1024
"""Bytes of the inbox at which writers wait: what waits is read by each tick, and they outrun it."""


def run(stage: Stage, messages: int = MESSAGES) -> list[str]:
    """What is wrong after writers have sent that many."""
    ends = stage.logs / "ends"
    each = messages // WRITERS
    writers = [stage.begin(stage.sender(f"w{n}", each, room=ROOM)) for n in range(WRITERS)]
    others = [stage.begin(stage.ticker(f"t{n}", ends=ends)) for n in range(TICKERS)]
    readers = [stage.reader(f"r{n}", "project", ends=ends) for n in range(READERS)]
    others += [stage.begin(reader) for reader in readers]
    others.append(stage.begin(stage.compactor(0.2, ends=ends)))
    wait_for(writers)
    ends.touch()
    wait_for(others)
    wait_for([stage.begin(reader) for reader in readers])  # the last ticks came after their end
    stage.check_complaints()
    events = len(stage.host.events())  # what the drain adds comes after the readers' end
    stage.drain()
    told = history.gather(stage.logs)
    found = history.violations(told, stage.stored())
    for who in told.read:
        if len(told.read[who]) < events:
            found.append(f"{who} read {len(told.read[who])} of {events} events")
    return found


def test_each_message_is_shown_once_while_the_inbox_is_compacted(stage, count):
    """Each is stored once and shown once; each reader sees each event once and in order."""
    found = run(stage)
    told = history.gather(stage.logs)
    count(
        messages=len(told.ok),
        shown=len(told.shown),
        read=sum(map(len, told.read.values())),
        gave_up=told.gave_up,
        violations=len(found),
    )

    assert not found, found[:20]
    assert len(told.ok) == MESSAGES // WRITERS * WRITERS


def test_each_message_of_a_command_is_shown_once_while_others_compact(stage, count):
    """`vyane send`, the hook and `vyane gc`, as processes of their own."""
    host = stage.host

    def sending(who: str) -> None:
        for number in range(SENDS):
            ran = program(host.home, "send", "project", f"text {who}:{number};")
            assert ran.status == 0, ran.err

    writers = [stage.begin(lambda who=f"w{n}": sending(who)) for n in range(4)]  # type: ignore[misc]
    shown, left, compacted = "", set(writers), 0
    while left:
        shown += host.hook("PostToolBatch").text
        assert program(host.home, "gc", "--older-than", "0.001s").status == 0
        compacted += 1
        ended = {pid for pid in left if os.waitpid(pid, os.WNOHANG)[0]}
        left -= ended
    stage.check_complaints()
    while text := host.batch().text:
        shown += text
    program(host.home, "gc", "--older-than", "0.001s")
    wanted = sorted(f"w{n}:{number}" for n in range(4) for number in range(SENDS))
    count(messages=len(wanted), compacted=compacted)

    assert sorted(re.findall(r"text (w\d:\d+);", shown)) == wanted
    assert sorted(re.findall(r"text (w\d:\d+);", str(stage.stored()))) == wanted
