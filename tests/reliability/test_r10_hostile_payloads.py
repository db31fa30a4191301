"""Payloads that no sound host sends: exit 0, nothing or one document, and nothing invented."""

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.operations.faults import stopped_at
from tests.reliability import acts, damage
from tests.reliability.scale import dice, size
from tests.simulated import EVENTS, recorded
from vyane_cli.timeline import log

GENERATED = size(1_000, 50_000)
LIMIT = 9_500

DEEP = b'{"a":' * 10_000 + b"1" + b"}" * 10_000
ODD: dict[str, bytes] = {
    "nothing": b"",
    "spaces": b" \n\t ",
    "a word": b"hello",
    "half a document": b'{"session_id": "s',
    "null": b"null",
    "a list": b'[{"hook_event_name": "Stop"}]',
    "a number": b"1e999",
    "a text": b'"Stop"',
    "two documents": b'{"hook_event_name": "Stop"} {"hook_event_name": "Stop"}',
    "deep": DEEP,
    "deep lists": b"[" * 100_000,
    "invalid UTF-8": b'{"session_id": "\xff\xfe", "hook_event_name": "Stop"}',
    "a lone surrogate": b'{"session_id": "\\ud800", "hook_event_name": "Stop"}',
    "UTF-16": '{"hook_event_name": "Stop"}'.encode("utf-16"),
    "zeros": bytes(1000),
    "a long name": b'{"' + b"x" * 1_000_000 + b'": 1}',
    "a large number": b'{"session_id": ' + b"9" * 10_000 + b"}",
    "NaN": b'{"session_id": NaN, "hook_event_name": Infinity}',
    "repeated keys": b'{"session_id": "a", "session_id": "b", "hook_event_name": "Stop"}',
}
CALLS = ("a long name", "a large number", "NaN", "repeated keys", "deep")
"""Objects: with the event's name from the guard and the session from the environment, a call."""
FIELDS: tuple[Any, ...] = (
    None, 0, -1, 1.5, True, "", "x" * 100_000, "../../etc/passwd", "a/b", "..", ".", "\x00",
    "\x1b]0;title\x07", "‮", "日本語", "\ud800", [], {}, [1], {"a": 1}, [[]], "-rf",
)  # fmt: skip


@pytest.fixture(scope="module")
def lab() -> Iterator[acts.Lab]:
    acts.preload()
    with acts.lab() as made:
        yield made


def wild(random: Any) -> bytes:
    """A recorded payload with some of it changed, or its bytes damaged."""
    data = recorded(random.choice(EVENTS))
    for _ in range(random.randint(1, 4)):
        place: Any = data
        while isinstance(place, dict) and place:
            key = random.choice([*place, "unknown_field"])
            inner = place.get(key)
            if isinstance(inner, dict) and inner and random.random() < 0.6:
                place = inner
                continue
            if random.random() < 0.2:
                place.pop(key, None)
            else:
                place[key] = random.choice(FIELDS)
            break
    encoded = json.dumps(data).encode()
    return damage.damaged(random, encoded) if random.random() < 0.4 else encoded


def call(lab: acts.Lab, data: bytes, event: str) -> tuple[int, bytes]:
    words = ["tick", "--host", "claude-code", *(["--event", event] if event else [])]
    environ = lab.one.environ()
    case = acts.Case(tuple(words), lambda: None, environ, data)
    outcome = stopped_at(100_000, partial(acts.run_here, lab, case))
    assert not outcome.surprise, (data[:200], outcome.error)
    return int(outcome.said[0]["code"]), acts.printed(lab)[0]


def check(lab: acts.Lab, data: bytes, event: str) -> None:
    code, out = call(lab, data, event)
    where = (event, data[:300])
    assert code in (0, 2), where  # 2 is a wake, which says so on standard error
    if out:
        document = json.loads(out)
        context = document.get("hookSpecificOutput", {}).get("additionalContext", "")
        assert len(context.encode("utf-16-le")) // 2 <= LIMIT, where
    for worker in lab.one.world_workers():
        path = lab.world.layout.timeline(worker.logical_session_id)
        if os.path.exists(path):
            log.check(path, worker.logical_session_id)


@pytest.mark.parametrize("event", ["", "Stop", "UserPromptSubmit", "PostToolBatch", "FutureEvent"])
@pytest.mark.parametrize("name", ODD)
def test_a_payload_that_is_none_changes_nothing_in_the_timeline(lab, name, event, count):
    """The event's name may come from the guard: without a session that says nothing."""
    path = Path(lab.world.layout.timeline(lab.one.logical))
    before = path.read_bytes()
    check(lab, ODD[name], event)
    count(payloads=1)

    assert path.read_bytes() == before or name in CALLS


@pytest.mark.parametrize("name", EVENTS)
def test_a_recorded_payload_with_ten_megabytes_in_it_is_taken(lab, name, count):
    data = json.dumps({**recorded(name), "filler": "x" * 10_000_000}).encode()
    check(lab, data, name.split("-")[0])
    count(payloads=1)


def test_generated_payloads_do_no_harm(lab, count):
    """Each worker that came to be has a real session behind it; the home stays sound."""
    random = dice("R10")
    for _ in range(GENERATED):
        data = wild(random)
        check(lab, data, random.choice(["", "Stop", "UserPromptSubmit", "SessionStart"]))
    count(payloads=GENERATED, violations=0)

    assert acts.unsound(lab) == []
    for path in lab.home.rglob("*"):
        assert path.resolve().is_relative_to(lab.home.resolve()), path
    outside = {path.name for path in lab.home.parent.iterdir()}
    assert outside <= {"vyane", "project", "other", "user", "claude", "in", "out", "err"}, outside
