"""Plot: the growth of costs with the amount of data, as one SVG with two logarithmic axes."""

import math
from collections.abc import Iterable
from html import escape

from benchmarks.report import Row, number

WIDTH, HEIGHT = 860, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 290, 30, 50
COLOURS = ("#0b6e99", "#d9730d", "#0f7b6c", "#ad1a72", "#6940a5", "#9b6a00", "#e03e3e", "#37352f")


def plot(rows: Iterable[Row]) -> str:
    """Return an SVG of every row that is a point of a curve: milliseconds by amount of data."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for one in rows:
        if one.curve and one.x > 0 and one.value > 0:
            curves.setdefault(one.curve, []).append((one.x, one.value))
    points = [point for line in curves.values() for point in line]
    if not points:
        return _svg([])
    xs, ys = _decades(x for x, _ in points), _decades(y for _, y in points)
    parts = [*_axes(xs, ys)]
    for place, (name, line) in enumerate(curves.items()):
        parts += _line(name, sorted(line), COLOURS[place % len(COLOURS)], place, xs, ys)
    return _svg(parts)


def _decades(values: Iterable[float]) -> tuple[int, int]:
    """Return the exponents of the powers of ten around the values, at least one apart."""
    found = [math.log10(value) for value in values]
    low, high = math.floor(min(found)), math.ceil(max(found))
    return low, max(high, low + 1)


def _place(value: float, decades: tuple[int, int], start: float, end: float) -> float:
    low, high = decades
    return start + (math.log10(value) - low) / (high - low) * (end - start)


def _x(value: float, xs: tuple[int, int]) -> float:
    return _place(value, xs, LEFT, WIDTH - RIGHT)


def _y(value: float, ys: tuple[int, int]) -> float:
    return _place(value, ys, HEIGHT - BOTTOM, TOP)


def _axes(xs: tuple[int, int], ys: tuple[int, int]) -> Iterable[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for power in range(xs[0], xs[1] + 1):
        at = _x(10.0**power, xs)
        yield f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{bottom}" stroke="#ddd"/>'
        yield _text(at, bottom + 18, number(10.0**power), "middle")
    for power in range(ys[0], ys[1] + 1):
        at = _y(10.0**power, ys)
        yield f'<line x1="{LEFT}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}" stroke="#ddd"/>'
        yield _text(LEFT - 8, at + 4, f"{number(10.0**power)} ms", "end")
    yield _text(
        (LEFT + right) / 2, HEIGHT - 12, "messages, workers, events that are there", "middle"
    )


def _line(
    name: str,
    line: list[tuple[float, float]],
    colour: str,
    place: int,
    xs: tuple[int, int],
    ys: tuple[int, int],
) -> Iterable[str]:
    places = [(_x(x, xs), _y(y, ys)) for x, y in line]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for (x, y), (count, value) in zip(places, line, strict=True):
        title = f"<title>{escape(name)}: {number(value)} ms with {number(count)}</title>"
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}">{title}</circle>'
    at = TOP + 12 + place * 22
    left = WIDTH - RIGHT + 20
    yield f'<rect x="{left}" y="{at - 9}" width="14" height="4" fill="{colour}"/>'
    yield _text(left + 22, at - 3, name, "start")


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(parts: Iterable[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#37352f">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>", ""])
