"""
`vyane send` and the tick as real processes, killed by strace at each call that changes a file.

The seam's tests stop where vyane says that it changes something; this one stops where the kernel
sees it, so that a call which goes round the seam is found too. SIGKILL comes at the call's entry;
in the second way the call itself is suppressed as well.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reliability.tracing import injected
from tests.simulated import Host, machine
from vyane_cli.storage import journal

FULL = os.environ.get("RELIABILITY") == "full"
CALLS = "pwrite64 write fsync ftruncate rename mkdir unlink utimensat fchmod chmod".split()
WAYS = ["", "error=EIO:"] if FULL else [""]
STARTS = ["empty", "filled", "torn"] if FULL else ["filled", "torn"]
TORN = b'{"v":1,"op":"message","message":{"id'

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")


def traced(
    inject: str, command: list[str], environ: dict[str, str], data: bytes
) -> tuple[bool, bytes]:
    """Run under strace; whether it was killed, and its standard output."""
    code, out, err = injected(inject, command, environ, data)
    assert code in (0, 2, -9, 137), err
    return code in (-9, 137), out


def at_each_call(once: Callable[[str], bool]) -> int:
    """Kill at the k-th call of each name, every k until a run is not touched; the kills."""
    kills = 0
    for name in CALLS:
        for way in WAYS:
            for k in range(1, 200):
                if not once(f"{name}:{way}signal=SIGKILL:when={k}"):
                    break
                kills += 1
    return kills


def prepared(make: Callable[..., Host], start: str) -> Host:
    one = make()
    one.start()
    one.prompt()
    if start != "empty":
        one.world.send("project", "first")
    if start == "torn":
        with open(one.world.layout.inbox(one.worker), "ab") as file:
            file.write(TORN)
    return one


def texts(one: Host) -> list[str]:
    entries = one.world.inbox(one.worker).mailbox.entries
    return [str(e.message.payload["text"]) for e in entries]


@pytest.mark.parametrize("start", STARTS)
def test_a_send_killed_at_any_call_loses_nothing_acknowledged(start):
    """Old or new; what was printed is stored; the next command works and is shown."""

    def once(inject: str) -> bool:
        with machine() as make:
            one = prepared(make, start)
            before = texts(one)
            words = ["--json", "send", "project", "hello"]
            environ = {"PATH": os.environ["PATH"], "HOME": one.cwd, "VYANE_HOME": one.home}
            command = [sys.executable, "-m", "vyane_cli", *words]
            killed, out = traced(inject, command, environ, b"")
            after = texts(one)
            assert after in (before, [*before, "hello"]), inject
            if out.endswith(b"\n"):
                assert json.loads(out)["status"] == "pending"
                assert after == [*before, "hello"], inject
            one.world.send("project", "next")
            assert texts(one) == [*after, "next"], inject
            lines = journal.read(one.world.layout.inbox(one.worker))
            assert all(line.damage is None for line in lines), inject
            assert one.batch().text.count("\nhello") == after.count("hello"), inject
            assert len(list(Path(one.home).rglob("*.tmp"))) <= 1, inject
            return killed

    assert at_each_call(once) >= 5


TICKS = ["PostToolBatch", "Stop", "FileChanged"] if FULL else ["PostToolBatch", "FileChanged"]


@pytest.mark.parametrize("name", TICKS)
def test_a_tick_killed_at_any_call_loses_nothing(name):
    """
    What it had not shown is shown by the next calls; what it may have shown comes once more,
    with the same id and a mark.
    """

    def once(inject: str) -> bool:
        with machine() as make:
            one = prepared(make, "empty")
            more: dict[str, object] = {}
            if name == "FileChanged":
                one.stop()
                more["file_path"] = one.world.layout.wake(one.session)
            mail = one.world.send("project", "hello")
            data = one.payload(name, **more)
            command = [sys.executable, "-I", "-m", "vyane_cli", "tick", "--host", "claude-code"]
            command += ["--event", name, *(["--rewake"] if name == "FileChanged" else [])]
            killed, out = traced(inject, command, one.environ(), data)
            one.world.pass_s(400)
            rest = [one.watch().text, one.prompt().text, one.batch().text, one.stop().text]
            first = out.decode()
            shown = [text for text in [first, *rest] if f"id {mail}" in text]
            if name != "FileChanged":  # there the text goes to standard error, with strace's own
                assert shown, inject
            assert len(shown) <= 2, inject
            if len(shown) == 2:
                assert "redelivered" in shown[1], inject
            entry = next(e for e in one.world.inbox(one.worker).mailbox.entries)
            assert entry.status in ("delivered", "consumed") or entry.handed, inject
            return killed

    assert at_each_call(once) >= 5
