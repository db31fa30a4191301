"""Damaged state: what is not damaged is still read, what is taken away is kept, nobody crashes."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.targets import holds
from tests.operations.faults import stopped_at
from tests.reliability import acts, damage
from tests.reliability.scale import dice, size
from tests.simulated import fast_folder
from vyane_cli.errors import VyaneError
from vyane_cli.mail import inbox
from vyane_cli.sessions import registry
from vyane_cli.storage import document, files, journal, settings
from vyane_cli.timeline import log

MUTATIONS, FEWER = size(5_000, 100_000), size(1_000, 20_000)
"""Of what has a reader of its own, and of what shares one."""
COMMANDS = size(200, 2_000)


@pytest.fixture(scope="module")
def lab() -> Iterator[acts.Lab]:
    with acts.lab() as made:
        made.world.send("all", "to all", ttl_s=100, idempotency_key="k")
        made.one.stop()
        made.one.prompt()
        yield made


def whole_lines(data: bytes) -> set[bytes]:
    return set(data.split(b"\n")[:-1])


# ------------------------------------------------------------------ journals


@pytest.mark.parametrize("kind", ["inbox", "outbox", "archive"])
def test_lines_that_were_not_touched_are_read_and_what_is_taken_away_is_kept(lab, kind, count):
    """
    A reader sees every line that is as it was; a writer sets the others aside, byte by byte, and
    goes on. A line of a later version is refused and left.
    """
    random = dice(f"R9 {kind}")
    good = Path(lab.world.layout.inbox(lab.one.worker)).read_bytes()
    lines = whole_lines(good)
    repaired = newer = 0
    mutations = MUTATIONS if kind == "inbox" else FEWER
    with fast_folder() as folder:
        root = folder / "vyane"
        path = root / "messages" / kind / "worker-x.jsonl"
        path.parent.mkdir(parents=True)
        for number in range(mutations):
            data = damage.damaged(random, good)
            path.write_bytes(data)
            seen = [line for line in journal.read(str(path)) if line.record is not None]
            expected = sum(1 for line in data.split(b"\n")[:-1] if line in lines)
            assert len(seen) >= expected, number
            inbox.read(str(path), whole=True)
            inbox.read(str(path))
            if number % 5 == 0:
                try:
                    set_right(path, root, kind)
                    repaired += 1
                except VyaneError as error:
                    holds(error.slug == "too_new", error)
                    newer += 1
                    holds(path.read_bytes() == data)
                    continue
                assert_nothing_is_lost(data, path.read_bytes(), root, number)
                shutil.rmtree(root / "quarantine", ignore_errors=True)
    count(mutations=mutations, repaired=repaired, newer=newer, violations=0)


def set_right(path: Path, root: Path, kind: str) -> None:
    """What the next writer does."""
    if kind == "inbox":
        box = inbox.Inbox(str(path), str(root))
        try:
            box.repair()
        finally:
            box.close()
        return
    from vyane_cli.health.repairs import _mend_journal

    _mend_journal(str(path), str(root))


def plain(line: bytes) -> Any:
    """A record without what a rewrite makes anew."""
    try:
        record = document.decode_line(line)
    except document.LineError:
        return None
    return json.dumps({k: v for k, v in record.items() if k not in ("crc", "head")}, sort_keys=True)


def assert_nothing_is_lost(before: bytes, after: bytes, root: Path, number: int) -> None:
    """Each line is in the file, or in the quarantine with its very bytes."""
    kept = b"".join(Path(one["file"]).read_bytes() for one in journal.list_quarantined(str(root)))
    there = {plain(line) for line in after.split(b"\n")}
    *lines, tail = before.split(b"\n")
    for line in lines:
        wanted = plain(line)
        assert (wanted is not None and wanted in there) or line + b"\n" in kept, (number, line)
    assert tail in kept, (number, tail)


def test_a_damaged_timeline_is_refused_by_line_or_read_as_it_was(lab, count):
    """Never another story: what a reader gets is a beginning of the true one."""
    random = dice("R9 timeline")
    session = lab.one.logical
    good = Path(lab.world.layout.timeline(session)).read_bytes()
    truth = [json.loads(line) for line in good.splitlines()]
    refused = 0
    with fast_folder() as folder:
        path = folder / "events.jsonl"
        for number in range(MUTATIONS):
            path.write_bytes(damage.damaged(random, good))
            seen: list[Any] = []
            try:
                log.check(str(path), session)
                for _, record in log.read(str(path)):
                    seen.append(record)
            except VyaneError as error:
                refused += 1
                holds(str(path) in error.message, error)
            told = [record["seq"] for record in seen]
            if told:
                assert told == list(range(told[0], told[0] + len(told))), number
                wanted = {event["seq"]: event["kind"] for event in truth}
                assert all(wanted.get(r["seq"]) == r["kind"] for r in seen), number
    count(mutations=MUTATIONS, refused=refused, violations=0)


# ------------------------------------------------------------------ documents


Load = Callable[[acts.Lab], object]


def loaders(lab: acts.Lab) -> dict[str, tuple[str, Load]]:
    """Each kind of document: an example of it, and who reads it."""
    layout, one = lab.world.layout, lab.one
    keys = files.listdir(layout("messages", "keys"))
    cursor = log.read_head(layout.timeline(one.logical))
    assert cursor is not None
    return {
        "worker-registry.json": (layout.registry, lambda lab: registry.Registry(layout).listing()),
        "session": (
            layout.session(one.session),
            lambda lab: registry.load_session(layout, one.session),
        ),
        "logical session": (
            layout.logical_session(one.logical),
            lambda lab: registry.load_logical_session(layout, one.logical),
        ),
        "current": (
            layout.current(one.worker),
            lambda lab: registry.read_current(layout, one.worker),
        ),
        "key": (
            layout("messages", "keys", keys[0]),
            lambda lab: document.load(layout("messages", "keys", keys[0])),
        ),
        "broadcast": (layout.broadcast(), lambda lab: document.load(layout.broadcast())),
        "config.toml": (layout("config.toml"), lambda lab: settings.load_config(layout)),
        "due": (layout.due(one.worker), lambda lab: lab.world.inbox(one.worker)),
    }


@pytest.mark.parametrize(
    "kind",
    ["worker-registry.json", "session", "logical session", "current", "key", "broadcast",
     "config.toml", "due"],
)  # fmt: skip
def test_a_damaged_document_is_refused_in_words_or_read(lab, kind, count):
    """VyaneError with the file's name, or a value; never another exception."""
    random = dice(f"R9 {kind}")
    path, load = loaders(lab)[kind]
    good = Path(path).read_bytes() if os.path.exists(path) else b"0"
    refused = 0
    try:
        for _ in range(FEWER):
            Path(path).write_bytes(damage.damaged(random, good))
            try:
                load(lab)
            except VyaneError as error:
                refused += 1
                holds(os.path.basename(path) in error.message, error)
    finally:
        Path(path).write_bytes(good)
    count(mutations=FEWER, refused=refused, violations=0)


# ------------------------------------------------------------------ through the command line


WORDS: tuple[tuple[str, ...], ...] = (
    ("send", "project", "hello"),
    ("send", "bob", "hello"),
    ("inbox", "project"),
    ("workers",),
    ("status",),
    ("topology",),
    ("timeline", "read", "project", "--history"),
    ("timeline", "verify", "project"),
    ("gc",),
    ("doctor",),
    ("doctor", "--fix"),
    ("takeover", "project", "stop", "--timeout", "0.01s", "--from-kind", "human"),
    ("workers", "register", "carol"),
    ("config", "list"),
    ("tick", "--host", "claude-code", "--event", "PostToolBatch"),
    ("tick", "--host", "claude-code", "--event", "Stop"),
)


def test_any_command_on_any_damaged_file_says_what_is_wrong_and_never_crashes(count):
    """
    No traceback, no internal error; a hook ends with 0 and prints nothing or one document; the
    file that is refused is named.
    """
    random = dice("R9 commands")
    acts.preload()
    faults: list[str] = []
    with acts.lab() as lab:
        copy = acts.snapshot(lab.home)
        try:
            for number in range(COMMANDS):
                acts.restore(lab.home, copy)
                files = [p for p in sorted(lab.home.rglob("*")) if p.is_file()]
                victim = random.choice([p for p in files if "locks" not in p.parts])
                how = damage.mistreated(random, victim)
                words = random.choice(WORDS)
                where = f"{number}: {' '.join(words)} with {victim.relative_to(lab.home)}: {how}"
                faults += [f"{where}: {fault}" for fault in misbehaviour(lab, words)]
        finally:
            shutil.rmtree(copy, ignore_errors=True)
    count(commands=COMMANDS, violations=len(faults))

    assert not faults, "\n".join(faults)


def misbehaviour(lab: acts.Lab, words: tuple[str, ...]) -> list[str]:
    """What a command does that it may not do, whatever it meets."""
    case = acts.Case(words, lambda: None)
    if words[0] == "tick":
        case = case._replace(environ=lab.one.environ(), stdin=lab.one.payload(words[-1]))
    outcome = stopped_at(100_000, partial(acts.run_here, lab, case))
    if outcome.surprise:
        return [outcome.error]
    (code,) = (said["code"] for said in outcome.said)
    out, err = acts.printed(lab)
    if b"Traceback" in err + out or b'"internal"' in err:
        return [repr(err[-600:])]
    if words[0] == "tick":
        sound = code in (0, 2) and (not out or bool(json.loads(out)))
        return [] if sound else [f"{code}, {out!r}"]
    if code not in (0, 1, 3, 4, 5, 6, 7) and b"config.toml" not in err:
        return [f"exit {code}: {err!r}"]
    if code in (1, 7) and words[0] != "doctor" and not err and b"skipped" not in out:
        return [f"exit {code} without a word"]
    return []
