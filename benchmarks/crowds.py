"""Figures of crowds: many hooks at once, and many processes at one lock."""

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.measure import Command, Series, run_together
from benchmarks.report import Goal, Row, row
from benchmarks.together import contend

CROWDS = {16: Goal(350, "ms"), 50: Goal(1200, "ms")}
CONTENDERS, HOLD_S = 16, 0.005


def crowd(bench: Bench) -> Iterator[Row]:
    """Measure hooks that deliver a message each, all at once; the goals are for two idle cores."""
    wanted = [*CROWDS.items()][: 1 if bench.quick else None]
    crowds = [(bench.size(size, size), goal) for size, goal in wanted]
    with bench.home(10) as home:
        sessions = [home.session() for _ in range(max(size for size, _ in crowds))]
        bare = Command("pass", [sys.executable, "-I", "-c", "pass"], home.environ())
        for size, goal in crowds:
            ticks, bases = [], []
            for _ in range(bench.size(7, 2)):
                text = f"MAIL-{uuid.uuid4().hex}"
                crowded = sessions[:size]
                for session in crowded:
                    session.send(text)
                hooks = [session.guarded("crowd", "PostToolBatch") for session in crowded]
                ticks.append(run_together(hooks))
                shown = sum(text in Path(hook.stdout).read_text() for hook in hooks)
                if shown != size:
                    raise RuntimeError(f"{size} hooks at once: {shown} showed their message")
                bases.append(run_together([bare] * size))
            base = f"{size} × python -I -c pass"
            yield row(
                f"{size} delivering hooks at once, wall",
                Series(tuple(ticks)),
                "ms",
                Series(tuple(bases)),
                base,
                goal,
            )


def fairness(bench: Bench) -> Iterator[Row]:
    """Measure the longest wait among 16 processes that take one lock repeatedly, for 5 ms each."""
    rounds, contenders = bench.size(50, 5), bench.size(CONTENDERS, CONTENDERS)
    with bench.home() as home:
        longest = {}
        for how in ("flock", "vyane"):
            words = ["lock", str(home.root), str(rounds), str(HOLD_S), how]
            waits, _ = contend([words] * contenders)
            longest[how] = max(max(found) for found in waits) * 1000
    yield Row(
        f"{contenders} processes at one lock × {rounds}: longest wait",
        longest["vyane"],
        "ms",
        base=longest["flock"],
        base_name="flock(2)",
        goal=Goal(500, "ms"),
    )
