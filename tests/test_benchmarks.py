"""The benchmarks run, and judge rightly. What they measure is not judged here."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks.bench import Bench
from benchmarks.measure import Series
from benchmarks.plot import plot
from benchmarks.report import Goal, Row, as_data, row, table

ELSEWHERE = {"timeline", "wake"}
"""Measured by a module of its own, and with the real client."""


class Smallest(Bench):
    """As few rounds of everything as will do."""

    def size(self, full: int, quick: int) -> int:
        return min(quick, 2)


@pytest.mark.parametrize("name", [name for name in benchmarks.FIGURES if name not in ELSEWHERE])
def test_a_figure_can_be_taken(name: str, tmp_path: Path) -> None:
    """Each function checks what it measures: a hook that fails or shows nothing is an error."""
    rows = list(benchmarks.FIGURES[name](Smallest(tmp_path, quick=True)))

    assert rows
    assert all(one.value >= 0 for one in rows)
    assert not [*tmp_path.iterdir()]
    json.dumps(as_data(rows))
    assert rows[0].what in table(rows)


def test_another_command_is_timed_beside_the_guard(tmp_path: Path) -> None:
    rows = list(benchmarks.FIGURES["guard"](Smallest(tmp_path, quick=True, beside=("cat",))))

    assert "beside: cat, CPU" in [one.what for one in rows]


def test_an_unknown_figure_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        benchmarks.main(["--only", "speed"])

    assert "guard" in capsys.readouterr().err


@pytest.mark.parametrize(
    "goal, met",
    [
        (None, None),
        (Goal(2), True),
        (Goal(1.9), False),
        (Goal(8, "ms"), True),
        (Goal(7, "ms"), False),
        (Goal(8, "ms", least=True), True),
        (Goal(9, "ms", least=True), False),
    ],
)
def test_a_goal_limits_the_ratio_or_the_value(goal: Goal | None, met: bool | None) -> None:
    measured = row("what", Series((7.0, 8.0, 30.0)), "ms", Series((3.0, 4.0, 5.0)), "base", goal)

    assert measured.ratio == 2
    assert measured.met is met


def test_a_row_without_a_base_has_no_ratio_and_says_so() -> None:
    assert Row("what", 3, "s").ratio is None
    assert Row("what", 3, "s", goal=Goal(2)).met is None


def test_the_plot_has_a_line_for_each_curve_and_a_point_for_each_row() -> None:
    rows = [
        Row("a", 1.5, "ms", curve="read & write", x=10),
        Row("b", 150.0, "ms", curve="read & write", x=100_000),
        Row("c", 3.0, "ms", curve="list", x=1000),
        Row("no point of a curve", 3.0, "s"),
    ]
    drawn = ElementTree.fromstring(plot(rows))
    space = "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in drawn.iter(space + "text")]

    assert len(list(drawn.iter(space + "polyline"))) == 2
    assert len(list(drawn.iter(space + "circle"))) == 3
    assert {"read & write", "list", "100,000"} <= set(texts)
    assert ElementTree.fromstring(plot([])).tag == space + "svg"
