"""Figures of a tree of workers: showing and cancelling it, per worker, and spawning into it."""

import time
from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.homes import PERSON, Home
from benchmarks.measure import Series
from benchmarks.report import Goal, Row, row
from vyane_cli.children.cancel import cancel
from vyane_cli.children.cancel_rules import CancelOutcome
from vyane_cli.children.order import Order
from vyane_cli.children.spawn import link_child
from vyane_cli.delivery.topology import topology
from vyane_cli.home import accelerate
from vyane_cli.kernel.runtimes import BUILT_IN
from vyane_cli.sessions import registry

TREE_GOAL = Goal(1.5)
CHILDREN = 10


def tree(bench: Bench) -> Iterator[Row]:
    """Measure a tree of 1,000 workers against one of 100, in process.

    Topology and cancel are measured per worker, a spawn as a whole.
    """
    accelerate()
    small, large = bench.size(100, 10), bench.size(1000, 50)
    shown: dict[int, list[float]] = {small: [], large: []}
    cancelled: dict[int, list[float]] = {small: [], large: []}
    spawned: dict[int, list[float]] = {small: [], large: []}
    for _ in range(bench.size(2, 1)):  # every flush of every cancel is real
        for size in (small, large):
            with bench.home(size) as home:
                root = _grow(home)
                began = time.monotonic()
                topology(home.home, root)
                shown[size].append((time.monotonic() - began) * 1000 / size)
                began = time.monotonic()
                done = cancel(home.home, root, wait_s=0, speaker=PERSON)
                cancelled[size].append((time.monotonic() - began) * 1000 / size)
                outcomes = list(done.cancel.outcomes.values())
                if outcomes != [CancelOutcome.GONE] * size:
                    raise RuntimeError("a worker of the tree was not reached")
    for size in (small, large):
        with bench.home(size) as home:
            root = _grow(home)
            for number in range(bench.size(20, 2)):
                began = time.monotonic()
                _spawn(home, root, number)
                spawned[size].append((time.monotonic() - began) * 1000)
    name = f"{small:,} workers"
    texts = {
        f"topology of {large:,} workers, each": (shown, TREE_GOAL),
        f"cancel of {large:,} workers, each": (cancelled, TREE_GOAL),
        f"spawn with {large:,} workers, its records": (spawned, None),
    }
    for text, (found, goal) in texts.items():
        series = {size: Series(tuple(values)) for size, values in found.items()}
        yield row(text, series[large], "ms", series[small], name, goal)


def _spawn(home: Home, root: str, number: int) -> None:
    """Write all records of a spawn; its process is left out, because it costs the same anywhere."""
    order = Order(f"job {number}", root, inherit_context=False, cwd="/")
    link_child(home.home, order, root, BUILT_IN["claude"])


def _grow(home: Home) -> str:
    """Link the workers of a home to one tree. Return the id of the root."""
    book = registry.Registry(home.home.layout)
    ids = [worker.id for worker in book.listing()]
    for number, worker in enumerate(book.listing()):
        parent = ids[(number - 1) // CHILDREN] if number else None
        below = ids[CHILDREN * number + 1 : CHILDREN * (number + 1) + 1]
        book.put(worker._replace(parent_worker_id=parent, children_worker_ids=tuple(below)))
    book.save()
    return ids[0]
