"""Inboxes on disk: every acknowledged message, in order, through damage, writers and compaction."""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulated import OUTSIDE, fast_folder, machine
from tests.unit.scripted import message
from vyane_cli.errors import VyaneError
from vyane_cli.kernel.clock import Clock
from vyane_cli.mail import archive, inbox
from vyane_cli.mail.mailbox import Head, Op, render_message
from vyane_cli.mail.message import Message
from vyane_cli.storage import document, files, journal
from vyane_cli.timeline import log
from vyane_cli.timeline.events import EventKind
from vyane_cli.timeline.turns import Transition, emit
from vyane_cli.upkeep.gc import collect

FULL = bool(os.environ.get("VYANE_TEST_FULL"))
CLOCK = Clock(1_800_000_000_000, 1_000_000, "boot")


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "vyane" / "messages" / "inbox" / "worker-w.jsonl")


def root_of(path: str) -> str:
    return str(Path(path).parents[2])


def opened(path: str) -> inbox.Inbox:
    return inbox.Inbox(path, root_of(path))


def add(path: str, one: Message) -> str:
    inbox.append(path, root_of(path), one, CLOCK)
    return one.id


def fill(path: str, count: int, settled: int = 0) -> list[str]:
    """`count` messages of which the first are consumed; all ids in order."""
    ids = [add(path, message(n, f"text {n}")) for n in range(1, count + 1)]
    box = opened(path)
    for one in ids[:settled]:
        box.change(Op.DELIVERED, [one], {"at": 1.0}, box.head)
        box.change(Op.CONSUMED, [one], {"at": 2.0}, box.head)
    box.close()
    return ids


def ids_of(path: str, *, whole: bool = True) -> list[str]:
    return [e.message.id for e in inbox.read(path, whole=whole).mailbox.entries]


def test_the_last_line_says_where_the_oldest_unsettled_message_begins(path):
    """So reading costs what is unsettled, not what was ever sent."""
    ids = fill(path, 5, settled=3)
    box = inbox.read(path).mailbox
    assert [e.message.id for e in box.unsettled] == ids[3:]
    assert box.head.open > 0
    lines = list(journal.read(path, box.head.open))
    assert lines[0].record["message"]["id"] == ids[3]
    assert len(lines) < len(list(journal.read(path)))


def test_with_everything_settled_only_the_end_is_read(path):
    """10,000 settled messages cost no more than ten."""
    fill(path, 5, settled=5)

    assert len(list(journal.read(path, inbox.read(path).mailbox.head.open))) == 1
    assert inbox.read(path).mailbox.unsettled == ()


@pytest.mark.parametrize("settled", [1, 2])
def test_changes_that_come_together_are_written_and_flushed_once(path, monkeypatch, settled):
    """And read back as if each had come alone."""
    ids = fill(path, 2)
    calls: list[str] = []
    box = opened(path)
    monkeypatch.setattr(files, "step", lambda name, where: calls.append(name))
    head = Head(normal_ms=5)
    consumed = inbox.InboxStep(Op.CONSUMED, ids[:settled], {"at": 2.0}, head)
    box.change_all([inbox.InboxStep(Op.DELIVERED, ids, {"at": 1.0}, Head()), consumed])
    box.close()
    after = inbox.read(path, whole=True).mailbox

    assert calls == ["write", "fsync"]
    assert [str(e.status) for e in after.entries] == [
        "consumed" if number < settled else "delivered" for number in range(2)
    ]
    assert after.head.normal_ms == 5
    assert [e.message.id for e in inbox.read(path).mailbox.unsettled] == ids[settled:]


def test_the_head_outlives_the_messages_that_made_it(path):
    """Handshake and rate guard are records of the inbox: compaction keeps them."""
    ids = fill(path, 2)
    box = opened(path)
    head = Head(normal_ms=5, starts_ms=(1, 2, 3))
    box.change(Op.CONSUMED, ids, {"at": 1.0}, head)
    box.drop(frozenset(ids))
    box.close()
    after = inbox.read(path).mailbox.head

    assert (after.normal_ms, after.starts_ms) == (5, (1, 2, 3))
    assert ids_of(path) == []


@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("spoil", [0, 1, 3, 4])
def test_a_damaged_line_goes_to_the_quarantine_and_its_neighbours_stay(
    path, spoil, accelerated, monkeypatch
):
    """100 % of the removed bytes are kept, and the next change works, in hooks and commands."""
    if accelerated:
        monkeypatch.setattr(document, "loads", document.loads)
        document.accelerate()
    ids = fill(path, 5)
    lines = Path(path).read_bytes().splitlines(keepends=True)
    bad = lines[spoil][:-30] + b"~" + lines[spoil][-29:]
    lines[spoil] = bad
    Path(path).write_bytes(b"".join(lines))
    add(path, message(9, "new"))
    opened(path).close()

    assert ids_of(path) == [*(one for n, one in enumerate(ids) if n != spoil), message(9).id]
    assert [Path(f["file"]).read_bytes() for f in journal.list_quarantined(root_of(path))] == [bad]
    assert all(line.damage is None for line in journal.read(path))


@settings(max_examples=400 if FULL else 60)
@given(st.data())
def test_whatever_is_done_to_the_bytes_no_other_line_is_lost(data):
    """
    Flipped, cut, doubled or spliced bytes: the next append works, every line that was not
    touched is read, and every byte that was taken out is in the quarantine.
    """
    with fast_folder() as folder:
        path = str(folder / "vyane" / "messages" / "inbox" / "worker-w.jsonl")
        fill(path, 4)
        before = Path(path).read_bytes()
        start = data.draw(st.integers(0, len(before) - 1))
        stop = data.draw(st.integers(start, min(start + 400, len(before))))
        junk = data.draw(st.binary(max_size=40))
        after = before[:start] + junk + before[stop:]
        Path(path).write_bytes(after)
        whole = before.splitlines(keepends=True)
        left = [line for line in after.splitlines(keepends=True) if line in whole]
        add(path, message(9, "new"))
        opened(path).close()

        texts = [json.loads(line)["message"]["id"] for line in left]
        assert set(texts) <= set(ids_of(path))
        assert message(9).id in ids_of(path)
        kept = b"".join(
            Path(f["file"]).read_bytes() for f in journal.list_quarantined(root_of(path))
        )
        for line in after.splitlines(keepends=True):
            assert line in whole or line in kept


def test_an_unknown_record_of_a_later_version_stops_nothing(path):
    """An operation that this program does not know is kept, also through a repair."""
    ids = fill(path, 2)
    box = opened(path)
    later = {"op": "coloured", "ids": ids, "head": {"open": 0}, "colour": "red"}
    box.writer.append([later])
    box.close()
    with open(path, "ab") as file:
        file.write(b"damage\n")
    add(path, message(9))
    opened(path).close()

    assert ids_of(path) == [*ids, message(9).id]
    assert b'"colour":"red"' in Path(path).read_bytes()


def test_compaction_takes_settled_messages_out_and_leaves_the_rest(path):
    """With all their records, for the archive."""
    ids = fill(path, 6, settled=4)
    taken = archive.settled(path, 3.0)
    assert [one.entry.message.id for one in taken] == ids[:4]
    assert all(len(one.records) == 3 for one in taken)
    assert archive.settled(path, 1.5) == []
    box = opened(path)
    box.drop(frozenset(ids[:4]))
    box.close()

    assert ids_of(path) == ids[4:]
    assert [e.message.id for e in inbox.read(path).mailbox.unsettled] == ids[4:]


def test_a_failed_open_gives_the_descriptor_back(path, monkeypatch):
    """Damage found while opening leaks nothing."""
    fill(path, 2)
    monkeypatch.setattr(inbox, "_fold", lambda *_: (_ for _ in ()).throw(VyaneError("x")))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(VyaneError):
            opened(path)

    assert len(os.listdir("/proc/self/fd")) == before


def test_what_a_call_reads_does_not_grow_with_what_was(monkeypatch):
    """
    10,000 settled messages and a timeline of megabytes: send, tick and `inbox` read a small part
    of them, however much lies behind.
    """
    with machine() as make:
        one = make()
        one.start()
        layout = one.world.layout
        box = inbox.Inbox(layout.inbox(one.worker), one.home)
        many = [message(n) for n in range(1, 10_001)]
        records = [{"op": "message", "message": render_message(m), "head": {}} for m in many]
        ids = [m.id for m in many]
        for start in range(0, 10_000, 10):
            records.append({"op": "expired", "ids": ids[start : start + 10], "head": {}})
        end = box.writer.append(records, durable=False)
        assert end == 0
        last = {"op": "released", "ids": [], "head": {"open": box.writer.end}}
        box.writer.append([last])
        box.close()
        identity = log.Identity(one.logical, one.worker)
        story = log.Timeline(layout.timeline(one.logical), one.home, identity, "e" * 32)
        states = [Transition(story.head)]
        for number in range(4000):
            note = {"code": "test", "text": f"{number}" + "x" * 500}
            before = Transition(states[-1].head)
            states.append(emit(before, EventKind.DIAGNOSTIC, note, CLOCK))
        events = [event for state in states for event in state.events]
        story.append(events, [state.head for state in states[1:]])
        story.close()
        assert os.path.getsize(layout.inbox(one.worker)) > 3_000_000
        assert os.path.getsize(layout.timeline(one.logical)) > 3_000_000
        count = 0
        real = os.pread

        def pread(fd: int, size: int, at: int) -> bytes:
            nonlocal count  # of bytes
            data = real(fd, size, at)
            count += len(data)
            return data

        monkeypatch.setattr(os, "pread", pread)
        mail = ""
        for step in ("prompt", "send", "batch", "stop"):
            count = 0
            if step == "send":
                mail = one.world.send("project", "hello")
            elif step == "batch":
                assert mail in one.batch().text
            else:
                getattr(one, step)()
            assert 1_000 < count < 1_000_000, step


# ------------------------------------------------------------------ many at once

WRITER = """
import sys
from pathlib import Path
from tests.simulated import World, OUTSIDE
from vyane_cli.sessions.speaker import FromKind, Speaker
home, name, count = sys.argv[1:]
world = World(Path(home))
speaker = Speaker(FromKind.EXTERNAL, name, name)
for number in range(int(count)):
    world.send("project", f"{name} {number}", speaker)
"""


def writers(home: str, names: list[str], count: int) -> list["subprocess.Popen[bytes]"]:
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return [
        subprocess.Popen([sys.executable, "-c", WRITER, home, name, str(count)], env=environ)
        for name in names
    ]


def check_order(texts: list[str], names: list[str], count: int) -> None:
    """Every message of every sender, once, in the order in which it was sent."""
    by_sender: dict[str, list[int]] = {name: [] for name in names}
    for text in texts:
        name, number = text.split()
        by_sender[name].append(int(number))
    for name in names:
        assert by_sender[name] == list(range(count)), name


def test_sixteen_writers_lose_no_message_and_keep_their_order():
    """16 × 1,000 sends through the library (16 × 40 in the short run): all, in order, once."""
    count = 1000 if FULL else 40
    names = [f"s{n}" for n in range(16)]
    with machine() as make:
        one = make()
        one.start()
        running = writers(one.home, names, count)
        assert [process.wait(timeout=600) for process in running] == [0] * 16
        lines = list(journal.read(one.world.layout.inbox(one.worker)))
        box = one.world.inbox(one.worker)

        assert all(line.damage is None for line in lines)
        assert len({e.message.id for e in box.mailbox.entries}) == 16 * count
        check_order([e.message.payload["text"] for e in box.mailbox.entries], names, count)


def test_writers_compaction_and_a_reader_at_once_lose_nothing():
    """
    8 writers, while settled messages are archived again and again and the session pulls: each
    message is shown once, in the order of its sender, and is found afterwards.
    """
    count = 500 if FULL else 40
    names = [f"s{n}" for n in range(8)]
    with machine() as make:
        one = make()
        one.start()
        running = writers(one.home, names, count)
        shown: list[str] = []

        def pull() -> None:
            plan = one.batch().plan
            if plan is not None and plan.showing is not None:
                shown.extend(e.message.payload["text"] for _, e in plan.showing.entries)

        one.prompt()
        rounds = 0
        end = time.monotonic() + 300
        while any(process.poll() is None for process in running) or len(shown) < 8 * count:
            assert time.monotonic() < end
            before = len(shown)
            pull()
            collect(one.world, grace_s=0)
            rounds += 1
            if before == len(shown) and all(process.poll() is not None for process in running):
                break
        assert [process.wait() for process in running] == [0] * 8
        pull()
        collect(one.world, grace_s=0)

        assert rounds > 3
        check_order(shown, names, count)
        found = Counter(
            line.record["message"]["id"]
            for file in Path(one.home, "messages").rglob("*.jsonl")
            if "outbox" not in file.parts
            for line in journal.read(str(file))
            if line.record is not None and line.record.get("op") == "message"
        )
        assert len(found) == 8 * count
        assert set(found.values()) == {1}


def test_position_comes_from_the_append_and_not_from_the_clock():
    """Clocks that step back and forth between sends: messages come out in append order, once."""
    rng = random.Random(7)
    with machine() as make:
        one = make()
        one.start()
        sent = []
        for number in range(60):
            one.world.wall_ahead_ms = rng.choice([0, -60_000, 3_600_000, -86_400_000])
            sent.append(one.world.send("project", f"n {number}", OUTSIDE))
        one.world.wall_ahead_ms = 0
        shown: list[str] = []
        one.prompt()
        for _ in range(8):
            plan = one.batch().plan
            if plan is not None and plan.showing is not None:
                shown += [e.message.id for _, e in plan.showing.entries]
        assert [e.message.id for e in one.world.inbox(one.worker).mailbox.entries] == sent
        first = [e for e in sent if e not in shown]
        assert shown == sent[len(first) :]
