"""Report: the rows of the table, each with its value, base, ratio, goal, met or missed."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from benchmarks.measure import Series


class Goal(NamedTuple):
    """A limit on the ratio to the base (unit "×"), or on the value itself (any other unit)."""

    limit: float
    unit: str = "×"
    least: bool = False

    def __str__(self) -> str:
        return f"{'≥' if self.least else '≤'} {number(self.limit)} {self.unit}"


class Row(NamedTuple):
    """One figure. A row without a goal is for comparison only."""

    what: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    base: float | None = None
    base_name: str = ""
    goal: Goal | None = None
    figure: str = ""
    curve: str = ""
    """The curve of the plot that the row is a point of; `x` is the amount of data."""
    x: float = 0.0

    @property
    def ratio(self) -> float | None:
        """Return the value divided by the base, or None without a base."""
        return self.value / self.base if self.base else None

    @property
    def met(self) -> bool | None:
        """Return whether the goal is met, or None without a goal or without its ratio."""
        if self.goal is None:
            return None
        got = self.ratio if self.goal.unit == "×" else self.value
        if got is None:
            return None
        return got >= self.goal.limit if self.goal.least else got <= self.goal.limit


def row(
    what: str,
    series: Series,
    unit: str,
    base: Series | None = None,
    base_name: str = "",
    goal: Goal | None = None,
) -> Row:
    """Return the row of a series: its median, its range, and the median of the base."""
    below = base.median if base is not None else None
    return Row(what, series.median, unit, series.low, series.high, below, base_name, goal)


def number(value: float) -> str:
    """Return a number with about three significant digits and without an exponent.

    Whole numbers keep all their digits.
    """
    if value == int(value) and abs(value) >= 1:
        return f"{int(value):,}"
    size = abs(value)
    return f"{value:.{0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 3}f}"


HEADINGS = ("figure", "what", "measured", "min–max", "base", "ratio", "goal", "")


def table(rows: Iterable[Row]) -> str:
    """Return the rows as a table for a person."""
    lines: list[Sequence[str]] = [HEADINGS]
    last = ""
    for one in rows:
        lines.append((one.figure if one.figure != last else "", *_cells(one)))
        last = one.figure
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    lines.insert(1, ["─" * width for width in widths])
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in (2, 3, 5) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(one: Row) -> tuple[str, ...]:
    span = ""
    if one.low is not None and one.high is not None:
        span = f"{number(one.low)}–{number(one.high)}"
    base = "" if one.base is None else f"{one.base_name} {number(one.base)}"
    ratio = "" if one.ratio is None else f"{number(one.ratio)} ×"
    verdict = {True: "met", False: "MISSED", None: ""}[one.met]
    measured = f"{number(one.value)} {one.unit}"
    return one.what, measured, span, base, ratio, str(one.goal or ""), verdict


def as_data(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the rows as JSON values, for a program."""
    return [
        {
            **one._asdict(),
            "ratio": one.ratio,
            "goal": one.goal._asdict() if one.goal else None,
            "met": one.met,
        }
        for one in rows
    ]
