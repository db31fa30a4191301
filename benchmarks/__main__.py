"""Print the figures: `python -m benchmarks [--quick] [--json] [--svg FILE] [--only …]`.

Everything runs on temporary homes. `docs/explanation/performance.md` says what each figure is.
"""

import argparse
import json
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from benchmarks import crowds, deliveries, machine, mirrors, sizes, timelines, trees, wakes, writers
from benchmarks.bench import Bench, Figure
from benchmarks.plot import plot
from benchmarks.report import Row, as_data, table

FIGURES: dict[str, Figure] = {
    "guard": deliveries.guard,
    "tick": deliveries.idle_tick,
    "deliver": deliveries.delivering_tick,
    "once": deliveries.shown_once,
    "unwritten": deliveries.shown_again,
    "writers": writers.writers,
    "size": sizes.size,
    "growth": sizes.growth,
    "crowd": crowds.crowd,
    "locks": crowds.fairness,
    "timeline": timelines.follow,
    "tree": trees.tree,
    "mirror": mirrors.mirror,
    "wake": wakes.wake,
}


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print the figures. Return 1 when a figure could not be measured, else 0.

    A missed goal does not change the exit code.
    """
    options = _options(words)
    for number in (signal.SIGINT, signal.SIGTERM):  # the finished figures are still printed
        signal.signal(number, signal.default_int_handler)
    rows: list[Row] = []
    failed: dict[str, str] = {}
    with machine.folder() as folder:
        about = machine.describe(folder)
        bench = Bench(folder, quick=options.quick, beside=tuple(options.beside))
        for name in options.only or FIGURES:
            print(f"measuring: {name} …", file=sys.stderr, flush=True)
            try:
                rows += [row._replace(figure=name) for row in FIGURES[name](bench)]
            except KeyboardInterrupt:
                failed[name] = "interrupted, with what comes after it"
                break
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {error}"
                print(traceback.format_exc(), file=sys.stderr)
        notes = list(bench.notes)
    if options.svg:
        Path(options.svg).write_text(plot(rows))
    if options.json:
        facts = {"machine": about, "figures": as_data(rows), "notes": notes, "failed": failed}
        print(json.dumps(facts, ensure_ascii=False, indent=1))
    else:
        print("\n".join(f"{key}: {value}" for key, value in about.items()))
        print()
        print(table(rows))
        for note in notes:
            print(f"note: {note}")
        for name, text in failed.items():
            print(f"not measured: {name}: {text}")
    return 1 if failed else 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds")
    parser.add_argument("--json", action="store_true", help="one JSON document, for programs")
    parser.add_argument("--only", nargs="+", choices=FIGURES, default=[], metavar="NAME")
    parser.add_argument("--svg", metavar="FILE", help="draw what grows (`growth`, `timeline`)")
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="COMMAND",
        help="time this command (a hook of another program) beside the guard and the idle tick: "
        "no shell, the same payload and environment; may be given more than once",
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
