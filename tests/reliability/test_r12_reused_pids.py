"""A pid that belongs to another process now: nothing is sent to it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.reliability.scale import size
from tests.simulated import machine, program
from vyane_cli.storage import processes

LAST = Path("/proc/sys/kernel/ns_last_pid")
ROUNDS = size(20, 200)
PERSON = ("--from-kind", "human")
INNOCENT = """
import signal, sys, time
seen = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT):
    signal.signal(number, lambda n, frame: print("signal", n, flush=True))
print("ready", flush=True)
time.sleep(600)
"""


def reborn(pid: int) -> "subprocess.Popen[bytes] | None":
    """An innocent process with this pid; None when another process was quicker."""
    for _ in range(200):
        try:
            LAST.write_text(str(pid - 1))
        except OSError as error:
            pytest.skip(f"the next pid cannot be chosen here: {error.strerror}")
        made = subprocess.Popen([sys.executable, "-I", "-S", "-c", INNOCENT], stdout=-1)
        if made.pid == pid:
            assert made.stdout is not None
            assert made.stdout.readline() == b"ready\n"
            return made
        made.kill()
        made.wait()
        assert made.stdout is not None
        made.stdout.close()
        if os.path.exists(f"/proc/{pid}"):
            return None
    return None


def test_a_process_with_a_pid_that_was_a_sessions_gets_no_signal(count):
    """The worker is exited; cancel with force and takeover reach nobody; 0 signals arrive."""
    if not LAST.exists():
        pytest.skip("the next pid cannot be chosen here")
    rounds = 0
    with machine() as make:
        for number in range(ROUNDS):
            host = make(cwd=str(Path(make().cwd)))
            host.start()
            name = next(w.name for w in host.world_workers() if w.id == host.worker)
            pid, before = host.process.pid, processes.identify(host.process.pid)
            host.die()
            innocent = reborn(pid)
            if innocent is None:
                continue
            try:
                if processes.identify(pid) == before:
                    continue  # both began in the same hundredth of a second
                rows = program(host.home, "--json", "workers", "list", "--all")
                row = next(r for r in _documents(rows.out) if r["name"] == name)
                assert row["liveness"] == "exited", number
                forced = ("--force", "--wait", "0.01s", *PERSON)
                program(
                    host.home, "--json", "takeover", name, "stop", "--timeout", "0.01s", *PERSON
                )
                program(host.home, "--json", "cancel", name, *forced)
                time.sleep(0.01)
                assert innocent.poll() is None
                rounds += 1
            finally:
                innocent.send_signal(signal.SIGKILL)
                out, _ = innocent.communicate()
            assert out == b"", "it was signalled"
    count(rounds=rounds, signals=0)

    assert rounds >= ROUNDS // 4


def _documents(out: bytes) -> list[dict[str, object]]:
    import json

    return list(json.loads(out))
