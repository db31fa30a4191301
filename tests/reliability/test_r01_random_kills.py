"""Senders, tickers, a reader and a compactor, killed at random: what is lost, doubled, left."""

import os
import time
from pathlib import Path

from tests.reliability import history
from tests.reliability.actors import Stage, Work, ended, kill
from tests.reliability.scale import dice, size
from vyane_cli.storage import journal
from vyane_cli.storage.locks import Deadline
from vyane_cli.upkeep.gc import collect

KILLS = size(500, 10_000)
SENDERS, TICKERS = 8, 2
EVERY = 25
"""After so many kills all are killed, and a command must have every lock within a second."""


def lock_files(home: str) -> dict[str, int]:
    folder = Path(home, "locks")
    return {path.name: path.stat().st_ino for path in folder.iterdir()}


def temporaries(home: str) -> list[str]:
    return [path.name for path in Path(home).rglob(".*.tmp")]


def works_at_once(stage: Stage, number: int) -> None:
    """With all of them dead, the next command waits for no lock, and what it says is true."""
    world = stage.own_world()
    world.deadline = lambda budget_s=None: Deadline(1.0)  # type: ignore[method-assign]
    log = history.Log(stage.logs, "probe")
    text = f"probe:{number}"
    log("invoke", text=text)
    log("ok", text=text, id=world.send("project", text))
    assert history.reordered(stage.in_inbox()) == []


def run_with_kills(stage: Stage, kills: int) -> tuple[int, int]:
    """Kill one of them, start it again, and so on; (kills, how many of them of those that show)."""
    random = dice("R1")
    roles: dict[str, Work] = {f"s{n}": stage.sender(f"s{n}", 10**9) for n in range(SENDERS)}
    roles |= {f"t{n}": stage.ticker(f"t{n}") for n in range(TICKERS)}
    roles |= {"producer": stage.producer("producer"), "reader": stage.reader("reader")}
    roles |= {"compactor": stage.compactor(0.01)}
    done = deaths = 0
    while done < kills:
        pids = {name: stage.begin(role) for name, role in roles.items()}
        with ended(pids):
            for _ in range(EVERY):
                time.sleep(random.uniform(0.001, 0.012))
                name = random.choice(list(roles))
                kill(pids[name])
                deaths += name.startswith("t")
                pids[name] = stage.begin(roles[name])
        deaths += TICKERS
        done += EVERY + len(roles)
        works_at_once(stage, done)
    return done, deaths


def unrecorded(stage: Stage) -> list[str]:
    """Every event that the producer was told of is in the timeline, by its seq."""
    world = stage.world
    (builder,) = [w for w in stage.host.world_workers() if w.name == "builder"]
    there = {
        event["seq"]: event["payload"].get("tool")
        for event in world.events(builder.logical_session_id)
    }
    told = history.lines(stage.logs / "producer.log")
    return [f"not recorded: {one}" for one in told if there.get(one["seq"]) != one["tool"]]


def test_processes_killed_at_random_lose_nothing_and_leave_little(stage, count):
    """
    Every acknowledged message is shown; what comes twice is marked; no line is damaged; the next
    command works. A kill leaves at most one temporary file, which one sweep takes away, and a
    dead writer's half line is in the quarantine; lock files stay as they are.
    """
    home = stage.host.home
    stage.world.register("builder")
    locks_before = lock_files(home)
    kills, deaths = run_with_kills(stage, KILLS)
    stage.check_complaints()
    left = len(temporaries(home))
    stage.drain()
    stored = stage.stored()
    told = history.gather(stage.logs)
    found = history.violations(told, stored, deaths=deaths)
    found += unrecorded(stage)
    kept = journal.list_quarantined(home)
    count(
        kills=kills,
        acknowledged=len(told.ok),
        unknown=len(told.unknown),
        shown=len(told.shown),
        doubled=len(told.shown) - len({message for message, _ in told.shown}),
        read=len(told.read.get("reader", [])),
        temporary=left,
        quarantined=len(kept),
        violations=len(found),
    )

    assert not found, "\n".join(found[:30])
    assert len(told.ok) > KILLS / 10
    assert left <= kills
    assert len(kept) <= kills
    assert locks_before.items() <= lock_files(home).items()
    assert len(lock_files(home)) < 100
    for name in Path(home).rglob(".*.tmp"):
        os.utime(name, (1, 1))  # a sweep spares what may be at work
    collect(stage.world)
    assert temporaries(home) == []
