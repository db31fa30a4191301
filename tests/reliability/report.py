"""What the rig has found, rule by rule: `python -m tests.reliability.report [--json]`."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.reliability.scale import FULL

FOLDER = Path(__file__).parents[2] / "build" / "reliability"

RULES = {
    "R1": "random kills",
    "R2": "a kill at each call",
    "R3": "a failure of each call",
    "R4": "a full disk",
    "R5": "power loss at each call",
    "R6": "many writers",
    "R7": "writers, tickers, compaction, readers",
    "R8": "the history checker",
    "R9": "damaged files",
    "R10": "hostile payloads",
    "R11": "clocks",
    "R12": "reused pids",
    "R13": "stopped lock holders",
    "R14": "cost of a tick",
    "R15": "fairness of locks",
    "R16": "size",
    "R17": "litter",
    "R18": "a chat service that fails",
    "R19": "keys and panes",
    "R20": "seeded faults",
    "R21": "soak",
    "": "the rig itself",
}


def path() -> Path:
    return FOLDER / ("full.jsonl" if FULL else "quick.jsonl")


def load(file: Path, version: str = "") -> list[dict[str, Any]]:
    """The last result of each test; of one version, if it is named."""
    if not file.exists():
        return []
    last: dict[str, dict[str, Any]] = {}
    for line in file.read_text().splitlines():
        row = json.loads(line)
        if not version or row["version"] == version:
            last[row["test"]] = row
    return list(last.values())


def table(rows: list[dict[str, Any]]) -> list[str]:
    """One line for each rule, then what failed and what was left out, with the reason."""
    lines = []
    for rule, title in RULES.items():
        own = [row for row in rows if row["rule"] == rule]
        if not own:
            continue
        outcomes = Counter(row["outcome"] for row in own)
        said = ", ".join(f"{n} {name}" for name, n in sorted(outcomes.items()))
        seconds = sum(row["seconds"] for row in own)
        counts: Counter[str] = Counter()
        for row in own:
            counts.update(row["counts"])
        numbers = " · ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counts.items())
        lines.append(f"{rule:4} {title:38} {said:22} {seconds:6.0f} s  {numbers}".rstrip())
    for row in rows:
        if row["outcome"] != "passed":
            lines.append(f"  {row['outcome']}: {row['test']} {row.get('why', '')}".rstrip())
    return lines


def main() -> None:
    files = [FOLDER / "full.jsonl", FOLDER / "quick.jsonl"]
    rows = {file.stem: load(file) for file in files if file.exists()}
    if "--json" in sys.argv:
        print(json.dumps(rows, indent=1))
        return
    for name, found in rows.items():
        print(f"{name}:")
        print("\n".join(table(found)))


if __name__ == "__main__":
    main()
