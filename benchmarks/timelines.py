"""Figure of a long timeline: the one of `benchmarks/timeline.py`, if that module exists."""

import importlib
import importlib.util
from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.report import Row


def follow(bench: Bench) -> Iterator[Row]:
    """Yield the rows of `benchmarks.timeline`, or leave a note if the module is missing."""
    if importlib.util.find_spec("benchmarks.timeline") is None:
        bench.note("timeline: benchmarks/timeline.py is not there")
        return
    yield from importlib.import_module("benchmarks.timeline").follow(bench)
