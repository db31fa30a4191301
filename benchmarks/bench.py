"""Bench: the parameter of every figure: a folder, the sizes of this run, and the notes."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.homes import Home
from benchmarks.report import Row


class Bench:
    """One run of the benchmarks."""

    def __init__(self, folder: Path, *, quick: bool = False, beside: tuple[str, ...] = ()) -> None:
        self.folder, self.quick, self.beside = folder, quick, beside
        self.notes: list[str] = []
        self._numbers = itertools.count(1)

    def size(self, full: int, quick: int) -> int:
        """Return a size or a number of rounds: `quick` in a quick run, else `full`."""
        return quick if self.quick else full

    @contextmanager
    def home(self, workers: int = 0) -> Iterator[Home]:
        """Make a new state root with `workers` workers; the figure adds its own sessions."""
        home = Home(self.folder / f"home-{next(self._numbers)}")
        try:
            home.fill(workers)
            yield home
        finally:
            home.close()

    def note(self, text: str) -> None:
        """Append a note, which is printed below the table."""
        self.notes.append(text)


Figure = Callable[[Bench], Iterable[Row]]
