"""Sixteen processes that write to one inbox at the same time."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability import history
from tests.reliability.actors import Stage, wait_for
from tests.reliability.scale import FULL
from tests.simulated import machine
from vyane_cli.storage import journal

CROWDS = [(16, 1_000), (16, 10_000)] if FULL else [(16, 1_000)]
SCRIPTS = [(16, 50), (64, 200)] if FULL else [(16, 10)]


def check(stage: Stage, wanted: int) -> None:
    """All of them, once each, each sender's own in order, and no line that is none."""
    stored = stage.stored()
    found = history.violations(history.gather(stage.logs), stored, delivered=False)
    found += history.reordered(stage.in_inbox())
    inbox = stage.world.layout.inbox(stage.host.worker)
    assert not found, found[:20]
    assert len(stored) == wanted
    assert all(line.damage is None for line in journal.read(inbox))


@pytest.mark.parametrize("writers, each", CROWDS)
def test_every_message_of_many_writers_is_there_once_and_in_order(writers, each, tmp_path, count):
    with machine() as make:
        host = make()
        host.start()
        stage = Stage(host, tmp_path / "logs")
        wait_for([stage.begin(stage.sender(f"w{n}", each)) for n in range(writers)])
        stage.check_complaints()
        count(messages=writers * each, violations=0)

        check(stage, writers * each)


@pytest.mark.parametrize("writers, each", SCRIPTS)
def test_every_message_of_many_commands_is_there_once_and_in_order(writers, each, tmp_path, count):
    with machine() as make:
        host = make()
        host.start()
        stage = Stage(host, tmp_path / "logs")
        Path(host.home, "config.toml").write_text("[locks]\nwait_s = 30\n")

        def commands(who: str) -> None:
            log = history.Log(stage.logs, who)
            for number in range(each):
                text = f"{who}:{number}"
                log("invoke", text=text)
                words = [sys.executable, "-m", "vyane_cli", "--home", host.home, "send", "project"]
                ran = subprocess.run([*words, text, "--json"], capture_output=True, check=False)
                if ran.returncode == 0:
                    log("ok", text=text, id=ran.stdout.split(b'"')[3].decode())
                else:
                    log("failed", text=text, error=ran.stderr.decode())

        pids = [stage.begin(lambda who=f"c{n}": commands(who)) for n in range(writers)]  # type: ignore[misc]
        wait_for(pids)
        stage.check_complaints()
        count(messages=writers * each, violations=0)

        check(stage, writers * each)
