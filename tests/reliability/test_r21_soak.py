"""Fifty sessions for a long time: no slower at the end, no descriptor and no process more."""

import json
import os
import statistics
import time
from pathlib import Path

from tests.reliability.actors import Stage, wait_for
from tests.reliability.history import Log, lines
from tests.reliability.scale import FULL
from tests.simulated import machine
from vyane_cli.upkeep.gc import collect

SESSIONS, PROCESSES = 50, 4
QUICK_S = 20.0
LIMIT = 1.2
"""CPU of a tick at the end, by its 95th part of a hundred, against the beginning.

Both as ratios to the same work done beside them: on a machine that others use, CPU is dearer at
one time than at another.
"""
WORK = {"kind": "base", "numbers": list(range(200)), "text": "something to write down " * 20}


def base() -> float:
    """CPU milliseconds of a piece of work that is always the same."""
    before = time.process_time()
    for _ in range(60):
        json.loads(json.dumps(WORK))
    return (time.process_time() - before) * 1000


def soak(stage: Stage, hosts: list, who: str, seconds: float) -> None:  # type: ignore[type-arg]
    """A tick each second for each of these sessions, with mail and a turn now and then."""
    log = Log(stage.logs, who)
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        began = time.monotonic()
        for host in hosts:
            if number % 20 == 0:
                host.stop()
                host.prompt()
            if number % 5 == 0:
                host.world.send(host.worker, f"{who}:{number}")
            before = time.process_time()
            shown = host.batch().text
            spent = (time.process_time() - before) * 1000
            if shown:
                log("tick", ms=spent, at=time.monotonic())
        log("base", ms=base(), at=time.monotonic())
        if who == "p0" and number % 60 == 59:
            collect(stage.world, grace_s=0)
            log("open", descriptors=len(os.listdir("/proc/self/fd")))
        number += 1
        time.sleep(max(1.0 - (time.monotonic() - began), 0))


def p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def test_a_tick_costs_no_more_after_a_long_time(soak_s, count):
    """The first and the last third are compared by CPU; every message was shown."""
    seconds = soak_s if FULL else QUICK_S
    with machine() as make:
        hosts = [make(cwd="/tmp/soak") for _ in range(SESSIONS)]
        for host in hosts:
            host.start()
            host.prompt()
        stage = Stage(hosts[0], Path(hosts[0].home).parent / "logs")
        pids = [
            stage.begin(
                lambda n=n: soak(stage, hosts[n::PROCESSES], f"p{n}", seconds)  # type: ignore[misc]
            )
            for n in range(PROCESSES)
        ]
        wait_for(pids)
        stage.check_complaints()
        told = [line for n in range(PROCESSES) for line in lines(stage.logs / f"p{n}.log")]
        ticks = sorted((t["at"], t["ms"]) for t in told if t["event"] == "tick")
        third = len(ticks) // 3
        spans = [ticks[0][0], ticks[third][0]], [ticks[-third][0], ticks[-1][0]]
        work = [(t["at"], t["ms"]) for t in told if t["event"] == "base"]
        first, last = (
            p95([ms for at, ms in ticks if begin <= at <= end])
            / p95([ms for at, ms in work if begin <= at <= end])
            for begin, end in spans
        )
        files = [line["descriptors"] for line in told if line["event"] == "open"]
        count(
            seconds=int(seconds),
            ticks_that_showed=len(ticks),
            first_third_p95_percent_of_base=int(first * 100),
            last_third_p95_percent_of_base=int(last * 100),
        )

        assert not files or files[-1] <= files[0]
        for host in hosts:
            rest = host.batch().text + host.batch().text
            entries = host.world.inbox(host.worker).mailbox.entries
            assert all(entry.status != "pending" for entry in entries), rest[:100]
        if FULL:
            assert last <= LIMIT * first
