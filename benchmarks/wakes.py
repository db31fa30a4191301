"""Figure of a wake: the real idle client, from `vyane send`'s return to the model's request."""

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
"""Seconds for which the session is idle before the message is sent."""


def wake(bench: Bench) -> Iterator[Row]:
    """Measure wakes in the tests' lab: the real client, offline, with a scripted model."""
    if not os.environ.get("HOSTLAB_CLAUDE"):
        bench.note("wake: HOSTLAB_CLAUDE is not set, so the real client was not run")
        return
    sys.path.insert(0, str(REPOSITORY / "tests"))
    lab_module = importlib.import_module("hostlab.lab")
    script = importlib.import_module("hostlab.script")
    installation = importlib.import_module("e2e.installation")
    world_module = importlib.import_module("e2e.world")
    # outside a checkout: the client would take the checkout as the project and ask to trust it
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
    """Measure wakes by a person's messages: each may start a turn, however recent the last wake.

    Return the seconds from each send's return to the request, and the seconds of each send.
    """
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
