"""Look for inputs that break a target: `python -m tests.fuzz [TARGET …] [--seconds 60]`.

An input that raises what it should not is kept below `corpus/`, under the digest of its bytes, and
is a test from then on.
"""

import argparse
import hashlib
import random
import sys
import time
import traceback

from tests.fuzz.mutation import mutated
from tests.fuzz.targets import CORPUS, TARGETS, corpus


def hunt(name: str, seconds: float, seed: int) -> tuple[int, int]:
    """(inputs tried, faults found) of one target."""
    dice = random.Random(f"{seed} {name}")
    kept = [path.read_bytes() for path in corpus(name)]
    tried, seen = 0, set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutated(dice, kept)
        tried += 1
        try:
            TARGETS[name](data)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            fault = (type(error).__name__, place.filename, place.lineno)
            if fault in seen:
                continue
            seen.add(fault)
            path = CORPUS / name / f"found-{hashlib.sha256(data).hexdigest()[:12]}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            print(
                f"{name}: {repr(error)[:300]} at {place.filename}:{place.lineno}, "
                f"kept as {path.name}"
            )
    return tried, len(seen)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], default=[])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each target")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    found = 0
    for name in options.targets or TARGETS:
        tried, faults = hunt(name, options.seconds, options.seed)
        found += faults
        print(f"{name:12} {tried:9,} inputs, {faults} faults", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
