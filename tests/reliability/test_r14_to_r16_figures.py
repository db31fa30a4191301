"""R14, R15, R16: what a tick costs, how fair the locks are, and what grows: by `make bench`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.scale import FULL

ROOT = Path(__file__).parents[2]
FIGURES = {"R14": ("tick", "deliver", "crowd"), "R15": ("locks",), "R16": ("size",)}
NOT_TIMED = ("kB", "rounds", "messages", "writers")
"""Units of what does not depend on how busy the machine is."""


def measure(rule: str) -> list[dict[str, Any]]:
    words = ["--json", "--only", *FIGURES[rule], *([] if FULL else ["--quick"])]
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", *words], cwd=ROOT, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return list(json.loads(ran.stdout)["figures"])


def missed(rule: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """How many figures have a goal, and those that do not reach it, by what they measure."""
    judged = [row for row in measure(rule) if row["met"] is not None]
    assert judged
    return len(judged), {row["what"]: row for row in judged if not row["met"]}


SPIN = """
import time
began = time.monotonic()
while time.process_time() < 0.5:
    pass
print(time.monotonic() - began)
"""


def others_work() -> bool:
    """Whether other work keeps the cores busy: a loop on each does not get all of the time."""
    command = [sys.executable, "-I", "-S", "-c", SPIN]
    loops = [subprocess.Popen(command, stdout=-1) for _ in range(os.cpu_count() or 1)]
    return max(float(loop.communicate()[0]) for loop in loops) > 0.5 * 1.25


@pytest.mark.parametrize("rule", FIGURES)
def test_the_figures_reach_their_goals(rule, count):
    """
    In a full run all of them are counted and judged: one that misses its goal three times in a row
    misses it. Times count for nothing while other work keeps the cores busy. The table with all of
    them is in docs/explanation/performance.md.
    """
    figures, found = missed(rule)
    for _ in range(2):
        if FULL and found:
            again = missed(rule)[1]
            found = {what: again[what] for what in found.keys() & again.keys()}
    print(json.dumps(found, indent=1))
    count(figures=figures, missed=len(found))
    spoiled = others_work()
    sure = [row for row in found.values() if row["goal"]["unit"] in NOT_TIMED or not spoiled]

    assert not sure or not FULL, sure
