"""Following from a cursor in a long timeline: `benchmarks/timeline.py`, where it is there."""

import importlib
import importlib.util
from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.report import Row


def follow(bench: Bench) -> Iterator[Row]:
    """The rows of that module."""
    if importlib.util.find_spec("benchmarks.timeline") is None:
        bench.note("timeline: benchmarks/timeline.py is not there")
        return
    yield from importlib.import_module("benchmarks.timeline").follow(bench)
