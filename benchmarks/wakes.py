"""The real client, idle: from the return of `vyane send` to the request that the model gets."""

import importlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.machine import REPOSITORY
from benchmarks.measure import Series
from benchmarks.report import Goal, Row, row

IDLE_S = 3.0
"""How long the session has been idle when the message is sent."""


def wake(bench: Bench) -> Iterator[Row]:
    """The tests' own lab: the client, offline, against a scripted model."""
    if not os.environ.get("HOSTLAB_CLAUDE"):
        bench.note("wake: HOSTLAB_CLAUDE is not set, so the real client was not run")
        return
    sys.path.insert(0, str(REPOSITORY / "tests"))
    lab_module = importlib.import_module("hostlab.lab")
    script = importlib.import_module("hostlab.script")
    installation = importlib.import_module("e2e.installation")
    world_module = importlib.import_module("e2e.world")
    # not below a checkout: the client would take that for the project, and ask whether to trust it
    with tempfile.TemporaryDirectory(prefix="vyane-wake-") as name:
        folder = Path(name)
        wheel = installation.build_wheel(_made(folder / "wheel"))
        installed = installation.install(wheel, folder / "venv")
        with lab_module.Lab(folder / "lab") as lab:
            world = world_module.open_world(lab, installed, folder / "vyane")
            waits, sends = _wakes(world, script, bench.size(5, 2))
    yield row(
        "idle session: from the return of `vyane send` to the model's request",
        Series(tuple(waits)),
        "s",
        goal=Goal(1.5, "s"),
    )
    yield row("`vyane send` itself, wall", Series(tuple(sends)), "s")


def _wakes(world: Any, script: Any, tries: int) -> tuple[list[float], list[float]]:
    """A person's messages: each may start a turn, however short a time after the last."""
    client = world.lab.client("bob")
    waits, sends = [], []
    with client.tui() as tui:
        name = world.greet(client, tui)
        for number in range(tries):
            time.sleep(IDLE_S)
            text = f"MAIL-{number:04}"
            client.script(script.turn("Read."))
            began = time.time()
            sent = world.send(name, text, *("--from-kind", "human"))
            woken = client.request_with(text)
            sends.append(sent.returned_at - began)
            waits.append(woken.at - sent.returned_at)
            tui.wait_status("idle")
    return waits, sends


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
