"""`doctor --fix` while everybody works: what is mended, what is kept, and nothing is lost."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.reliability import history
from tests.reliability.actors import Stage, Work, wait_for
from tests.simulated import World, machine
from vyane_cli.attention import needs
from vyane_cli.attention.call import call_person
from vyane_cli.attention.kinds import NeedCall
from vyane_cli.health import state
from vyane_cli.health.repairs import repair
from vyane_cli.hosts import claude_settings
from vyane_cli.sessions import registry
from vyane_cli.storage import journal, locks
from vyane_cli.storage.locks import LockKind
from vyane_cli.timeline import log

RUBBISH, HALF = b"rubbish\n", b'{"v":1,"half'


@pytest.fixture
def stage() -> Iterator[Stage]:
    with machine() as make:
        host = make()
        host.start()
        host.prompt()
        host.world.register("builder")
        yield Stage(host, Path(host.home).parent / "logs")


def repairing(stage: Stage, rounds: int = 15) -> Work:
    def work() -> None:
        world = stage.own_world()
        for _ in range(rounds):
            failed = [one for one in repair(world, claude_settings, "/") if not one.ok]
            assert not failed, failed

    return work


def damaging(stage: Stage, path: str, data: bytes, rounds: int = 10) -> Work:
    """Another program appends to the file, as no writer of ours does."""

    def work() -> None:
        world = stage.own_world()
        for _ in range(rounds):
            # under the lock: what two programs write at once without one is a race of theirs
            with world.held((LockKind.INBOX, stage.host.worker)):
                fd = os.open(path, os.O_WRONLY | os.O_APPEND)
                os.write(fd, data)
                os.close(fd)

    return work


def test_an_inbox_is_mended_while_many_send_and_one_reads(stage):
    """Two repairs at once, eight writers, a ticker: all is shown once, all rubbish is kept."""
    path = stage.world.layout.inbox(stage.host.worker)
    stage.host.world.send("project", "first:0")
    history.Log(stage.logs, "first")("invoke", text="first:0")
    ends = stage.logs / "ends"
    writers = [stage.begin(stage.sender(f"w{n}", 40)) for n in range(6)]
    others = [stage.begin(stage.ticker("t", ends=ends))]
    repairs = [stage.begin(repairing(stage)) for _ in range(2)]
    repairs.append(stage.begin(damaging(stage, path, RUBBISH)))
    wait_for([*writers, *repairs])
    ends.touch()
    wait_for(others)
    stage.check_complaints()
    repair(stage.world, claude_settings, "/")
    stage.drain()
    told, stored = history.gather(stage.logs), stage.stored()
    kept = b"".join(
        Path(one["file"]).read_bytes() for one in journal.list_quarantined(stage.host.home)
    )

    assert history.violations(told, stored) == []
    assert len(told.ok) == 240
    assert all(line.damage is None for line in journal.read(path))
    assert RUBBISH in kept
    assert set(kept.replace(RUBBISH, b"")) <= set(HALF)


JOURNALS = {
    "inbox": lambda layout, one: (layout.inbox(one.worker), (LockKind.INBOX, one.worker)),
    "outbox": lambda layout, one: (layout.outbox(one.worker), (LockKind.OUTBOX, one.worker)),
    "archive": lambda layout, one: (layout.archive("2026-01"), (LockKind.ARCHIVE, "")),
    "needs": lambda layout, one: (layout.need_user, (LockKind.QUEUE, "")),
    "audit": lambda layout, one: (layout.tasks_events("p"), (LockKind.LEDGER, "p")),
    "deliveries": lambda layout, one: (layout.deliveries("p"), (LockKind.NOTICES, "p")),
    "rounds": lambda layout, one: (layout.rounds("p"), layout.domain("p")),
    "gaps": lambda layout, one: (layout.gaps("p"), layout.domain("p")),
    "timeline": lambda layout, one: (
        layout.timeline(one.logical),
        (LockKind.TIMELINE, one.logical),
    ),
}
"""Every journal, and the lock that its writers take: a pair, or a file of its own."""


@pytest.mark.parametrize("damage", [RUBBISH, HALF], ids=["line", "half"])
@pytest.mark.parametrize("name", JOURNALS)
def test_a_journal_is_mended_under_the_lock_of_its_writers_and_no_other(stage, name, damage):
    """
    What is appended between the look and the replacement would be lost: so nothing is touched
    while a writer is at work, and afterwards it is mended.
    """
    layout = stage.world.layout
    path, lock = JOURNALS[name](layout, stage.host)
    Path(layout.config).write_text("[locks]\nwait_s = 0.1\n")
    stage.world._config = None
    writer = journal.open_writer(path, layout.root)
    if not writer.end:
        writer.append([{"op": "x"}])
    writer.close()
    with open(path, "ab") as file:
        file.write(damage)
    before = Path(path).read_bytes()

    held = locks.take_now(lock if isinstance(lock, str) else locks.lock_path(layout.root, *lock))
    assert held is not None
    done = repair(stage.world, claude_settings, "/")
    assert [one.what for one in done if not one.ok] == [path]
    assert "stayed locked" in next(one.done for one in done if not one.ok)
    assert Path(path).read_bytes() == before
    locks.give_back(held)

    done = repair(stage.world, claude_settings, "/")
    assert [(one.what, one.ok) for one in done if one.what == path] == [(path, True)]
    assert b"".join(Path(one["file"]).read_bytes() for one in journal.list_quarantined(layout.root))
    assert all(line.damage is None for line in journal.read(path))


def test_every_journal_of_the_doctor_is_in_the_table(stage):
    """A new one says here who writes it."""
    layout = stage.world.layout
    project = Path(layout.project("p")).parent
    project.mkdir(parents=True)
    for path, _ in (made(layout, stage.host) for made in JOURNALS.values()):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
    known = {made(layout, stage.host)[0] for made in JOURNALS.values()}
    found = {*state.journals(layout), *(path for _, path in state.timelines(layout))}

    assert found - known <= {p for p in found if "inbox" in p or "timelines" in p}
    assert known <= found


def test_a_timeline_with_half_a_line_is_mended_while_its_producer_works(stage):
    """Every recorded event is there once and in order; the half line is kept."""
    (builder,) = [w for w in stage.host.world_workers() if w.name == "builder"]
    path = stage.world.layout.timeline(builder.logical_session_id)
    producer = stage.begin(stage.producer("p"))
    repairs = [stage.begin(repairing(stage, 40)) for _ in range(2)]
    wait_for(repairs)
    os.kill(producer, 9)
    os.waitpid(producer, 0)
    with open(path, "ab") as file:
        file.write(HALF)
    repairs = [stage.begin(repairing(stage, 3)) for _ in range(3)]
    wait_for(repairs)
    stage.check_complaints()
    told = history.lines(stage.logs / "p.log")
    there = {e["seq"]: e["payload"].get("tool") for e in stage.world.events(path_session(path))}
    kept = [Path(one["file"]).read_bytes() for one in journal.list_quarantined(stage.host.home)]

    assert told
    assert all(there[line["seq"]] == line["tool"] for line in told)
    assert log.check(path, path_session(path)).events == len(there)
    assert kept.count(HALF) == 1


def path_session(path: str) -> str:
    return Path(path).parent.name


def test_what_is_derived_is_mended_while_it_is_derived(stage):
    """
    Names, the page of needs and markers are spoilt again and again; four send, one reads, workers
    register, the person is called, two repair. Each comes to what it is derived from; no mail is
    lost.
    """
    layout, session = stage.world.layout, stage.host.session
    ends = stage.logs / "ends"
    spoilt = (Path(layout.names), Path(layout("queue", "NEED-USER.md")))

    def until_the_end(step: Callable[[World, int], object]) -> Work:
        def work() -> None:
            world, number = stage.own_world(), 0
            while not ends.exists():
                step(world, number)
                number += 1

        return work

    def spoil(world: World, number: int) -> None:
        spoilt[number % 2].write_text("rubbish\n")
        marker = Path(layout.pending(session))
        with suppress(FileNotFoundError):
            marker.touch() if number % 4 < 2 else marker.unlink()

    def need(world: World, number: int) -> None:
        call_person(world, NeedCall(f"k{number}", f"text {number}"))

    call_person(stage.world, NeedCall("first", "text"))
    writers = [stage.begin(stage.sender(f"w{n}", 25)) for n in range(4)]
    others = [stage.begin(stage.ticker("t", ends=ends))]
    others += [
        stage.begin(until_the_end(step))
        for step in (spoil, need, lambda world, n: world.register(f"worker-{n}"))
    ]
    others += [stage.begin(repairing(stage, 12)) for _ in range(2)]
    wait_for([*writers, *others[-2:]])
    ends.touch()
    wait_for(others[:-2])
    stage.check_complaints()
    repair(stage.world, claude_settings, "/")

    assert repair(stage.world, claude_settings, "/") == []
    known = sorted(worker.name for worker in registry.Registry(layout).listing())
    assert spoilt[0].read_text().splitlines() == known
    assert spoilt[1].read_text().count("\n- N") == len(needs.list_entries(layout))
    stage.drain()
    told = history.gather(stage.logs)
    assert history.violations(told, stage.stored()) == []
    assert len(told.ok) == 100


def test_modes_are_mended_while_files_come_and_go(stage):
    """A file that is gone by now needs no mode; the others get theirs."""
    ends = stage.logs / "ends"
    folder = Path(stage.host.home, "wake")

    def coming_and_going() -> None:
        while not ends.exists():
            for number in range(50):
                made = folder / f"x{number}"
                made.touch()
                made.chmod(0o666)
            for number in range(50):
                (folder / f"x{number}").unlink()

    going = stage.begin(coming_and_going)
    Path(stage.world.layout.registry).chmod(0o644)
    repairs = [stage.begin(repairing(stage, 10)) for _ in range(2)]
    statuses = [os.waitpid(pid, 0)[1] for pid in repairs]
    ends.touch()
    wait_for([going])
    stage.check_complaints()
    assert statuses == [0, 0]

    assert Path(stage.world.layout.registry).stat().st_mode & 0o777 == 0o600
    assert [w.name for w in registry.Registry(stage.world.layout).listing()]
