"""A row of the table: what, measured, base, ratio, goal, met or missed."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from benchmarks.measure import Series


class Goal(NamedTuple):
    """A limit on the ratio to the base, or on the value itself (`unit` says of what)."""

    limit: float
    unit: str = "×"
    least: bool = False

    def __str__(self) -> str:
        return f"{'≥' if self.least else '≤'} {number(self.limit)} {self.unit}"


class Row(NamedTuple):
    """One figure. A row without a goal is there to be read beside the others."""

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
    """The line of the plot that it is a point of; `x`: how much there was."""
    x: float = 0.0

    @property
    def ratio(self) -> float | None:
        """The value in units of the base."""
        return self.value / self.base if self.base else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None without one."""
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
    """The row of a series: its median, its range, and the ratio to the median of the base."""
    below = base.median if base is not None else None
    return Row(what, series.median, unit, series.low, series.high, below, base_name, goal)


def number(value: float) -> str:
    """Three figures that count, no exponent."""
    if value == int(value) and abs(value) >= 1:
        return f"{int(value):,}"
    size = abs(value)
    return f"{value:.{0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 3}f}"


HEADINGS = ("figure", "what", "measured", "min–max", "base", "ratio", "goal", "")


def table(rows: Iterable[Row]) -> str:
    """The rows for a person."""
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
    """The rows for a program."""
    return [
        {
            **one._asdict(),
            "ratio": one.ratio,
            "goal": one.goal._asdict() if one.goal else None,
            "met": one.met,
        }
        for one in rows
    ]
