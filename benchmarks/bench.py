"""What every figure is given: a folder, the sizes of this run, and a place for remarks."""

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
        """A size or a number of rounds."""
        return quick if self.quick else full

    @contextmanager
    def home(self, workers: int = 0) -> Iterator[Home]:
        """A new state root with that many workers besides those that the figure starts."""
        home = Home(self.folder / f"home-{next(self._numbers)}")
        try:
            home.fill(workers)
            yield home
        finally:
            home.close()

    def note(self, text: str) -> None:
        """A remark that belongs under the table."""
        self.notes.append(text)


Figure = Callable[[Bench], Iterable[Row]]
